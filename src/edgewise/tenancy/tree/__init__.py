"""The namespaces of a tenant: what is there, what should be, and the writes between.

Begin with `plan`; `seen` has what it looks at, `manifests` what each namespace gets.
"""
