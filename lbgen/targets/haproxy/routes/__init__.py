"""Routes as rules of frontends."""
