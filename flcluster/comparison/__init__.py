"""Many runs side by side, of a command or a script: which budget each has, and who makes which."""
