"""The programs that make up Kubernetes: found, downloaded or built.

Begin with `finding`; versions are in `pins`.
"""
