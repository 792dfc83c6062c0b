"""Trials: the rendered configuration on the real programs, before mock GPU servers, beside a prediction."""
