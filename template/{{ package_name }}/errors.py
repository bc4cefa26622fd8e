"""Errors that the user can mend."""


class UserError(Exception):
    """Something is wrong outside the code; the message says what to do about it."""


def one_line(error: Exception) -> str:
    """Returns the message of an error in one line."""
    # From a data loading process the message comes after its whole traceback.
    message = str(error).rpartition("UserError: ")[2]
    # What another library said, which is quoted, may take several lines.
    return " ".join(message.split())
