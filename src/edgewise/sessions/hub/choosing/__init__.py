"""Which location a client gets, and the text that says why.

Begin with `ranking`. `ledger` and `public_ports` know who has room, `degraded` who does badly.
"""
