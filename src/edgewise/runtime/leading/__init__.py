"""Which of several replicas acts: a Lease, and how its holder's death is known.

Begin with `leadership`.
"""
