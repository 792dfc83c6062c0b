"""NGINX and HAProxy configuration that others wrote, as directives and sections with their places."""
