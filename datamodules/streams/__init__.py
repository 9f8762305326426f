"""Streams of samples that drift."""
