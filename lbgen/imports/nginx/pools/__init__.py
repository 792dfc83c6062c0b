"""Upstreams and how they are called as pools."""
