"""Every speed as a ratio to a floor that is measured in the same run.

A folder for each domain; what several of them need is here.
"""
