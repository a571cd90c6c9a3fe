"""`edgewise placement`: where services run, and why there.

Begin at `commands.py`; `text.py` says it in words.
"""
