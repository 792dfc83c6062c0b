"""Routes as locations."""
