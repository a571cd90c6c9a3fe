"""Tenants, their trees of namespaces, and their quota.

Begin at `domain`; `controller` lists the steps of one tree, which is one key of the queue.
"""
