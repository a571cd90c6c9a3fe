"""The gateway agent: tells real Envoy which seat lives at which pod, by delta ADS."""
