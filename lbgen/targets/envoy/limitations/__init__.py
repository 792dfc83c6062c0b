"""What Envoy cannot do for a fleet."""
