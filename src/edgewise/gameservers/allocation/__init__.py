"""Giving servers to matches: each server to one match, each match one server.

Begin at `claiming.py`, the way of one call; `plan.py` has the rules.
"""
