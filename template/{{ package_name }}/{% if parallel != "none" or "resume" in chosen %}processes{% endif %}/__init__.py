"""The processes of a run, and the communication between them."""
