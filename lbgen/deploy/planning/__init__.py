"""What putting a fleet into effect would change."""
