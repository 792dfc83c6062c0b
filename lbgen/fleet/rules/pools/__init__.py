"""Rules about pools and their servers."""
