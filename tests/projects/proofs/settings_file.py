"""Settings from a file, which flags on the command line override."""

from collections.abc import Callable
from pathlib import Path

import pytest
from leaf_diseases.errors import UserError
from leaf_diseases.settings import Settings
from test_settings_file import parse

Parse = Callable[..., Settings]


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("a.toml", "epoch = 3", "there is no setting epoch"),
        ("a.toml", "epochs = 0", "epochs: Input should be greater than 0"),
        (
            "a.toml",
            "image_size = [0, 8]",
            r"\(image_size: 0: Input should be greater than 0\)",
        ),
        ("a.toml", "epochs = ", "TOMLDecodeError"),
        ("a.toml", None, "FileNotFoundError"),
        ("config.json", "{}", "KeyError: 'settings'"),
        ("config.json", '{"settings": {"epoch": 3}}', "there is no setting epoch"),
        ("config.json", '{"settings": 3}', "AttributeError"),
        ("config.json", "[]", "TypeError"),
    ],
)
def test_wrong_files_are_refused_by_name(
    parse: Parse, tmp_path: Path, name: str, text: str | None, cause: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=f"settings from {path}: .*{cause}"):
        parse("--settings", path)
