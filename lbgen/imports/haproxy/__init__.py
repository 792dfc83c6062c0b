"""HAProxy configurations as drafts of fleets."""
