"""Methods in rounds, with a server."""
