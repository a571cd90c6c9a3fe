"""What the API server itself refuses in the namespaces of tenants, with or without an operator.

Begin with `writing`, which says how a policy is made; `POLICIES` in `all_policies` has them all.
"""
