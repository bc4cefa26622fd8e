"""What changes the weights: the optimizer, its rates, and what goes with its steps."""
