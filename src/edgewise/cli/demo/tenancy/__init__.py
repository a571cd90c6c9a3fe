"""`edgewise demo tenancy`: two organisations that do not trust each other, on one real cluster.

Begin at `play.py`, which has the acts; `people.py` is who acts in them.
"""
