"""`edgewise tenant`: tenants as an administrator works with them, and trees as anybody sees them.

Begin with `commands`; `reading` turns words of the command line into parts of objects.
"""
