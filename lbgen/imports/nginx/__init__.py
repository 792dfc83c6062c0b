"""NGINX configurations as drafts of fleets."""
