"""A model of its own for every client, dropouts too."""
