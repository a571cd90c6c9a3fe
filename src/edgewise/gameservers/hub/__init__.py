"""What the server does for games: allocation in one cluster, and the duties of its leader.

Begin at `half.py`.
"""
