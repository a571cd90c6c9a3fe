"""How many servers a game should have: by webhook, buffer or schedule.

Begin at `plan.py`; `policies.py` has a function for each policy.
"""
