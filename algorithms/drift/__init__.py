"""Clusters that follow clients whose data drift."""
