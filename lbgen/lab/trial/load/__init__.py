"""What a trial sends, and what it measures."""
