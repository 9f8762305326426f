"""Streams from published traces: manifests, their images, their times."""
