"""A fleet written out: shown, digested, documented."""
