"""The models, and their weights on disk."""
