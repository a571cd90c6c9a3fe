"""The pods of a template that no session has: kept warm, cleaned and handed on.

The same rooms as for sessions; the rules are in `plan`.
"""
