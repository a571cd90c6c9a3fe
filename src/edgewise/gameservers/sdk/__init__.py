"""What games say by their sidecars, and what they are told. Begin with `handlers`.

The sidecar has no rights in Kubernetes. It shows the token of its pod, which the operator checks
itself, and the operator writes what the game said into the status of its Server.
"""
