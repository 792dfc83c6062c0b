"""How long an engine's steps take."""
