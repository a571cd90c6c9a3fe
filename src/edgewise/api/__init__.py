"""The typed objects of every API group, and the CRDs that are generated from them.

Begin with `sessions`; `schema` and `crd` turn a type into a CRD.
"""
