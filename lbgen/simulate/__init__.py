"""What a strategy would do to a fleet: the model of servers, load and balancers."""
