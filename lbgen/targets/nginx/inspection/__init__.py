"""What NGINX finds in a request: bodies, forms, the model."""
