"""One server: its pod, what its game says, and its protected end.

Begin at `plan.py`; `manifest.py` makes the pod.
"""
