"""What the controller runtime costs, beside a bare client.

Begin with `bench`.
"""
