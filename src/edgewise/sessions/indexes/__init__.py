"""What the operator keeps in memory of all sessions, derived from its caches.

Lost without harm; begin with `indexes`.
"""
