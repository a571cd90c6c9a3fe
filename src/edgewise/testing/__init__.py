"""What proves the house: a proxy that fails on purpose, rigs, and a checker.

Begin with `faults`, which says what can go wrong.
"""
