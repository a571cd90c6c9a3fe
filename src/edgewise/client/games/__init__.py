"""The SDK for games: a server for a match, kept while the match goes on.

Begin at `match.py`.
"""
