"""What a seat is made of besides its pod: objects of its own, and its routes.

`manifests.py` makes the objects, `routes.py` the routes that lead to it.
"""
