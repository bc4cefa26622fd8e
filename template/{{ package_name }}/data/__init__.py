"""Data, from files to batches."""
