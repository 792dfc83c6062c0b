"""Configurations of NGINX, read: our own, and those that somebody else wrote."""
