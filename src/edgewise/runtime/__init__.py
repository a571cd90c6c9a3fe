"""A controller runtime: write `reconcile`, and leave the rest to it.

Start at `controller` and `manager`; docs/how-to/write-a-controller.md shows both at work.
"""
