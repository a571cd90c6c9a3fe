"""Machines made of namespaces and control groups, and the programs in them.

Begin with `machines`; `supervision` keeps programs running.
"""
