"""Container images without a registry: built from packages, stored and loaded.

Begin with `building`.
"""
