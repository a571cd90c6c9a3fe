"""The status of a Session while a plan is made, and the patch that writes it.

Begin at `draft.py`; `patch.py` says only what has changed.
"""
