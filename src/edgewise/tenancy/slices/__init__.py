"""Slices: nodes that leave the shared ones for a tenant, and come back.

`plan` has the life of a slice, `claim_plan` that of a claim, `nodes` which nodes a slice may take.
"""
