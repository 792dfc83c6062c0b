"""Listeners, and the filters that requests go through."""
