"""The one kind of error a user is meant to read: what is wrong, where, and what to do."""


class UserError(Exception):
    """A mistake in configuration, data or files; the command line prints the message alone and exits with 2."""
