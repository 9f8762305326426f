"""Methods without a server."""
