"""Checkpoints, from which a stopped run goes on."""
