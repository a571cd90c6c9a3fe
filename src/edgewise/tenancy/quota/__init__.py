"""Who holds how much: exact amounts, the rules that move them, and the objects that hold them.

Begin with `plan`, which says the next write that is safe; `tree_quota` has what it sees.
"""
