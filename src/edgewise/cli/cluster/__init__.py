"""`edgewise cluster` and `edgewise token`: which clusters there are, and who may use them.

Begin with `commands`.
"""
