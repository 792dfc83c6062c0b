"""What NGINX cannot do for a fleet."""
