"""Processes of a run, and communication between them."""
