"""Listeners as frontends."""
