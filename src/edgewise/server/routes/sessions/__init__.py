"""The HTTP API of sessions: clients, sessions, locations and events.

Begin with `clients`, which joins and leaves.
"""
