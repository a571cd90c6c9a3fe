"""The designs that are compared: each is what a competent engineer would make who had only that.

`case.py` says what a design has to do; the others are one design each.
"""
