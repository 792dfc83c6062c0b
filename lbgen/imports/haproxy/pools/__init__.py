"""Backends and their servers as pools."""
