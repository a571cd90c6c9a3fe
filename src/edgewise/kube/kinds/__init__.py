"""Kubernetes' own kinds, typed as far as Edgewise reads them.

One file for each API group; begin with `core`.
"""
