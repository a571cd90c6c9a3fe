"""A soak: people and trouble for as long as one likes, and what is left of it in the end.

`plan.py` says what happens when, `soak.py` lets it happen to a cluster, `weighing.py` weighs the
programs. Begin at `soak.py`.
"""
