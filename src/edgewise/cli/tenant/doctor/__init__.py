"""`edgewise tenant doctor`: what a cluster lacks to keep tenants apart, tried rather than guessed.

Begin with `command`; `pieces` looks at objects, `packets` sends some.
"""
