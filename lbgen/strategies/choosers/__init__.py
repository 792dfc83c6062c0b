"""How balancers choose, in the way that each of the targets really does; imported only to simulate."""
