"""Names that look the same are one name: https://unicode.org/reports/tr15/."""

import unicodedata


def plain(name: str) -> str:
    """Returns a name composed (NFC), with plain spaces and no invisible characters."""
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFC", shown).split())
