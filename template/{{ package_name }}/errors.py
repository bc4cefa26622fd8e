"""Errors that the user can mend."""


class UserError(Exception):
    """Something is wrong outside the code; the message says what to do about it."""
