"""Processes of a run: who may write, who is still there, how one ends."""
