"""`edgewise demo games`: a game on real pods, from its first match to its end.

Begin at `play.py`; `sample.py` builds the game and its players.
"""
