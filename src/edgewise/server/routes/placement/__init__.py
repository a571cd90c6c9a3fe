"""Report keys and reports over HTTP.

Begin at `placements.py`; `actions.py` says who may do what.
"""
