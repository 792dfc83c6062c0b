"""Pools as backends, and how requests go to their servers."""
