"""What one replica, the leader, does for all.

Nothing here depends on there being only one leader: every decision is a change of a binding
which is refused if somebody else has changed it first.
"""
