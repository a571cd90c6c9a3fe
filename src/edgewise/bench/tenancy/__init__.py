"""How long tenants and their namespaces take, beside the same objects written by a plain client.

Begin with `establish`.
"""
