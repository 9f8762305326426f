"""Parts of the loop that trains and scores plain classifiers: batches, optimisers' steps, losses and hits."""
