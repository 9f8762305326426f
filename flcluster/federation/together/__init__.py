"""Many clients in one pass: their models stacked as rows, trained and scored side by side."""
