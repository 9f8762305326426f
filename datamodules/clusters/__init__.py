"""Clients in clusters: rotations, domains, writers."""
