"""The ping agent: clients measure their distance to a location with it.

Begin with `agent`; `udp` and `http` are its two halves.
"""
