"""What changes the weights: the optimizer, its rates, and the tricks around its steps."""
