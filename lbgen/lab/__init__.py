"""Mock GPU servers, load, and trials of the real proxies."""
