"""How long tenants, their namespaces and their pods take, beside the same objects written by a
plain client.

Begin with `bench`, which runs the others; `bare` has the floors.
"""
