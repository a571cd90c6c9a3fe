"""`edgewise local`: clusters on this machine.

Begin with `commands`; some commands have a file of their own.
"""
