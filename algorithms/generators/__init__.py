"""Generators on the server: what they draw, what they learn from."""
