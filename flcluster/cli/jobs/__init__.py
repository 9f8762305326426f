"""Many runs from one command: what they are, how much they train, and their processes."""
