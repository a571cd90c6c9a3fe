"""What placement does in the server: report keys, and reports that come over HTTP.

Begin at `half.py`.
"""
