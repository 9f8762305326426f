"""Runs as one page: a file that opens from disk without a network, or served while a run goes on."""
