"""Many servers: their number, which of them go, and what replaces them.

Begin at `plan.py`.
"""
