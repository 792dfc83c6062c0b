"""Locations as routes."""
