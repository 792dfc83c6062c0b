"""Access logs as the load."""
