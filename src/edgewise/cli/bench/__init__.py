"""`edgewise bench`: measurements, with JSON as the last line.

What is measured is in `edgewise.bench`.
"""
