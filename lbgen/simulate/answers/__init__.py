"""Answers: one question over several seeds, its conclusion, and its forms as text, JSON and pictures."""
