"""Configurations of Envoy, read back."""
