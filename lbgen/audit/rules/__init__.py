"""The audit's rules, a module per theme."""
