"""A game and its versions: one fleet replaces another.

Begin at `plan.py`.
"""
