"""Parts of local training by Lightning's Trainer: what travels, what is kept from it, what keeps it quiet."""
