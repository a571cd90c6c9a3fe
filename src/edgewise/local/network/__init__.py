"""Cables, addresses and delays between local machines.

`commands` is pure text, `cabling` carries it out.
"""
