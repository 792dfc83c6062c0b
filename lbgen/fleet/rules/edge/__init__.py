"""Rules about what faces clients."""
