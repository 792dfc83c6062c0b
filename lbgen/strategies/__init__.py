"""The strategies: one file each, with parameters, purpose and how it chooses."""
