"""The optimizer, its learning rates, and everything that runs at its steps."""
