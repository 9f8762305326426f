"""How good models are: of plain classifiers what they tell right, of other modules what they log."""
