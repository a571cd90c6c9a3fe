"""Knows Kubernetes, and nothing of Edgewise: one typed client.

Begin with `client`; `transport` and `connections` carry its requests.
"""
