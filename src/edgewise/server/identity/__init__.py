"""Who calls, and what they may do: API tokens, client tokens, OIDC.

Begin with `authenticator`; `permissions` is the table of who may do what.
"""
