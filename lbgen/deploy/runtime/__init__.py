"""Changing balancers while they run."""
