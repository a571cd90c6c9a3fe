"""`edgewise bench placement`: a search on real nodes, as a user at a distance sees it.

Begin with `bench`; `figures` is pure.
"""
