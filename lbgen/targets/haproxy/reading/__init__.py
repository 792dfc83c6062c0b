"""Configurations of HAProxy, read: our own, and those that somebody else wrote."""
