"""How clients reach pods: routes, seats, public ports and TURN.

Begin with `route`: what operator and gateway agree on. Knows no domain.
"""
