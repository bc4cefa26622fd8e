"""The statements about other libraries that tools/claims.py tests are in the documentation."""

from pathlib import Path

import claims
import pytest


@pytest.mark.parametrize("file", sorted({claim.file for claim in claims.CLAIMS}))
def test_each_quote_is_in_its_file(file):
    text = claims.read(file)
    quotes = [claim.quote for claim in claims.CLAIMS if claim.file == file]
    assert [quote for quote in quotes if claims.words(quote) not in text] == []


def test_a_statement_that_no_longer_holds_is_named(monkeypatch, capsys):
    def fails() -> object:
        assert 1 + 1 == 3

    quote = Path(__file__).name
    wrong = claims.Claim("numpy", "README.md", quote, fails)
    monkeypatch.setattr(claims, "CLAIMS", [wrong])
    assert claims.main([]) == 1
    assert f"WRONG  {quote}\n       README.md; numpy " in capsys.readouterr().out
