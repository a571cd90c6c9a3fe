"""Small programs of their own that run beside the workloads.

`gateway` drives Envoy, `ping` answers clients that measure their distance.
"""
