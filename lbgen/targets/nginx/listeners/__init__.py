"""Listeners as `server` blocks."""
