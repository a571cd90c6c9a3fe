"""Pods and other objects that a domain makes: as seen, named and given up.

Pure values and small indexes; begin with `pods_seen`. Knows no domain.
"""
