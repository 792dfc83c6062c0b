"""Commands about balancers: rendered, deployed, watched."""
