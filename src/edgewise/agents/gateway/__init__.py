"""The gateway agent: tells real Envoy which seat lives at which pod, by delta ADS.

Begin with `agent`; `table` holds the routes, `ads` talks to Envoy.
"""
