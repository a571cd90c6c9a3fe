"""What the enforcer is called, and the mark that it leaves. It imports nothing, on purpose."""

# Its name among the programs of a cluster, and that of its certificate.
ENFORCER = "network-policies"
# There while a node may have rules, also those of a policy that is gone.
MARK = "policies-enforced"
