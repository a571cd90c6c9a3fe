"""The HTTP API: thin handlers over one replica.

Begin with `app`, which puts the routes together.
"""
