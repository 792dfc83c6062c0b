"""What the command line says of itself: examples, the reference, completion."""
