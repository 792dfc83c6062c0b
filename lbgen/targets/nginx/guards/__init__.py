"""Who may call, from where, and how often."""
