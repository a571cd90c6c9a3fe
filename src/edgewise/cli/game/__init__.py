"""`edgewise game`: game servers, as a person at a shell works with them.

Begin with `commands`; `explain` says why a server is still there.
"""
