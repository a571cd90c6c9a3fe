"""`edgewise session`: in one cluster by its API server, or in many by a server.

Begin with `commands`; `source` is what both ways can do.
"""
