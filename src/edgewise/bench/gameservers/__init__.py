"""What game servers cost: allocations beside bare patches.

Begin at `allocate.py`.
"""
