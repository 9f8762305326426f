"""What a user reads who mistyped a class, a key or a value: one line with what comes nearest and where the list is."""
