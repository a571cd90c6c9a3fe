"""HTTP handlers, a folder for each domain.

Thin: each checks who calls and hands on.
"""
