"""What a control plane needs: its programs' flags, certificates and first objects.

Begin with `programs`. All of it is pure but `pki` and `kubeconfigs`.
"""
