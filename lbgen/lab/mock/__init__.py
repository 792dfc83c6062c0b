"""Mock GPU servers."""
