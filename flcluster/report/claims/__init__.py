"""What papers say, held against what was measured: claims, verdicts by a rule, and the page of results."""
