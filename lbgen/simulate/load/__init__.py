"""The load: who asks for how much, and when."""
