"""Values, numbers and names in Envoy's spelling."""
