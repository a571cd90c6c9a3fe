"""Placement by measured latency: pods go where their users measure the shortest way.

Begin at `controller`; the rules are in `plan` and `steps`, what users report in `votes`.
"""
