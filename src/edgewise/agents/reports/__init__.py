"""The program for reports: takes what clients measured from a broker, and tells the operator.

A process of its own, so that a flood of reports may stall a search and nothing else.
"""
