"""The sidecar of a game server: the SDK on the loopback address of its pod.

Standard library only, because it runs beside every server. Begin with `__main__`; `said` keeps
what the game says, `operator_link` tells the operator, and `sdk` is what the game calls.
"""
