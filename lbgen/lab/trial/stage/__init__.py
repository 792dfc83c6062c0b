"""Where a trial runs: its servers, its balancers, its addresses."""
