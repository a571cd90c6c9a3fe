"""Game servers: pods that say themselves when they may be deleted, and fleets of them.

Begin with `server/plan.py` for one server and `fleet/plan.py` for many. Each of the folders
`server`, `fleet`, `gametype`, `autoscaler` and `allocation` has the same four rooms.
"""
