"""One edge cloud out of ordinary Kubernetes clusters, for workloads that belong to somebody.

Begin with `operator` and `server`, the programs, or with a domain such as `sessions`.
"""

__version__ = "0.1.0"
