"""The statements about other libraries in tools/claimed/ are in the documentation."""

from pathlib import Path

import claims
import pytest
from claimed.claim import Claim, read, words

QUOTES = [(claim.file, claim.quote) for claim in claims.CLAIMS]
QUOTES += [(file, quote) for file, quote, _ in claims.NOT_RUN]


@pytest.mark.parametrize("file", sorted({file for file, _ in QUOTES}))
def test_each_quote_is_in_its_file(file):
    text = read(file)
    quotes = [quote for of, quote in QUOTES if of == file]
    assert [quote for quote in quotes if words(quote) not in text] == []


def test_a_statement_that_no_longer_holds_is_named(monkeypatch, capsys):
    def fails() -> object:
        assert 1 + 1 == 3

    quote = Path(__file__).name
    wrong = Claim("numpy", "README.md", quote, fails)
    monkeypatch.setattr(claims, "CLAIMS", [wrong])
    assert claims.main([quote]) == 1
    assert f"WRONG  {quote}\n       README.md; numpy " in capsys.readouterr().out
