"""Clients that differ in their labels."""
