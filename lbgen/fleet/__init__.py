"""Reading: from YAML text to a checked fleet."""
