"""The error that ends a command early."""


class Refusal(Exception):
    """A command that cannot be carried out; the message is one line with the remedy."""
