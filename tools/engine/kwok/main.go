//go:build tools

// Package kwok pins the version of kwok; its own main package is what is built.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
