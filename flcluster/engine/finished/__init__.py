"""What is made of a run once it is over: its models, predictions, exported files."""
