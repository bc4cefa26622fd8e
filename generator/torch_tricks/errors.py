"""Refusal: an error of the user, printed as one line."""


class Refusal(Exception):
    """A command cannot run. The message is one line with the remedy."""
