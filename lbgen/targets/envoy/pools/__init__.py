"""Pools as clusters, and how requests go to their servers."""
