// The smallest possible pid 1: it reaps what it inherits and ends when asked.
// It holds the namespaces of a node, and of every pod (the "pause" container).
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range asked {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
