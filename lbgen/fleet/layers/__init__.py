"""Fleet files over one another, with values from the command line and the environment."""
