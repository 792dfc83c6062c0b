"""Commands that predict and measure: simulations, sizes, trials."""
