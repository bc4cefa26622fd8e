"""Checkpoints, for resuming runs."""
