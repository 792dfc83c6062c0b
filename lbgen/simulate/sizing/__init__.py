"""How many servers an objective takes."""
