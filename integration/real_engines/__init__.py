"""Inference engines as they are released, behind rendered files: ``python -m integration.real_engines``."""
