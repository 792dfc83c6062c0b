"""Runs: balancers, the clock, and what is counted."""
