"""The HTTP API over many clusters: one program, any number of replicas.

Begin with `replica`; HTTP is in `http` and `routes`, who calls in `identity`.
"""
