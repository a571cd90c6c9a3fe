"""Requests for tenants and roles: stamped, decided once by somebody else, and then granted.

`policies` are what the API server itself refuses; `webhooks` stamp and ask what only a program can;
the controllers in `controller` grant.
"""
