"""From finished runs to tables, figures and studies. The engine imports nothing of it."""
