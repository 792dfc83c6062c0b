"""From configurations that others wrote to a fleet file, and what of them it does not say."""
