"""From rendered files to a running balancer: what would change, and the change itself."""
