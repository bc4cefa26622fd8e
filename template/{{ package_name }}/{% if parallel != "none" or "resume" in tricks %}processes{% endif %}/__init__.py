"""The processes of a run, and what they tell each other."""
