"""Sessions over many clusters: the server's half of the domain.

`records` is what the hub stores, `joining` what a client's calls do, `choosing` where it goes.
"""
