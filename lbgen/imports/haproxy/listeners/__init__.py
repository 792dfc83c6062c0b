"""Frontends and their rules as listeners."""
