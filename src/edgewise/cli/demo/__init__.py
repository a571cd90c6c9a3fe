"""`edgewise demo`: the product at work, from nothing to gone.

Begin with `play`, the acts of it.
"""
