"""Errors that the user can mend."""


class UserError(Exception):
    """A wrong input or environment; the message names the remedy."""


def one_line(error: Exception) -> str:
    """Returns the message of an error in one line."""
    # From a data loading process the message comes after its whole traceback.
    message = str(error).rpartition("UserError: ")[2]
    # A quoted message of another library may take several lines.
    return " ".join(message.split())
