"""Server blocks as listeners."""
