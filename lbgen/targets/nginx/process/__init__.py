"""NGINX as a program: how it is called, and how it checks files."""
