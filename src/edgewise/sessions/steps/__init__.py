"""The steps of a session's plan, in the order in which `plan` calls them.

Each takes the Draft and decides one thing; all are pure.
"""
