"""Real Kubernetes clusters on this machine, made of namespaces.

Begin with `clusters`, which brings one up and takes it down.
"""
