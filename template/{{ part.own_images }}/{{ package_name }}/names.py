"""Names that look the same are one name: https://unicode.org/reports/tr15/."""

import unicodedata


def plain(name: str) -> str:
    """Returns a name composed (NFC), with plain spaces and no invisible characters."""
    if not name.isascii():
        name = "".join(char for char in name if unicodedata.category(char) != "Cf")
        name = unicodedata.normalize("NFC", name)
    return " ".join(name.split())
