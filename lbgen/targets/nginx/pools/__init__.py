"""Pools as upstreams, and how requests go to their servers."""
