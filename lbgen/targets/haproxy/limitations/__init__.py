"""What HAProxy cannot do for a fleet, and what it costs."""
