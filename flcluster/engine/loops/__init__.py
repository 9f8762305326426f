"""How a run advances: upload by upload, or round by round and phase by phase; and what is taken back."""
