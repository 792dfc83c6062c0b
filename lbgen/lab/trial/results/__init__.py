"""What a trial found: compared, explained, shown."""
