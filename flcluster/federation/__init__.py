"""What a method may ask for: rows of models, tables of them, training and scoring over all ranks."""
