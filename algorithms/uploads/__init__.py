"""Methods in which clients decide when to upload."""
