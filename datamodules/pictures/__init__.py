"""Pictures of who holds what."""
