"""What HAProxy finds in a request's body, and the buffers that it takes."""
