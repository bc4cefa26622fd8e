"""The processes of a run, and what passes between them."""
