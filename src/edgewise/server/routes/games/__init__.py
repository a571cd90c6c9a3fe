"""The routes of games: allocations, and the objects themselves.

Begin at `half.py`.
"""
