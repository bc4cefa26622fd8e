"""Loading weights."""

import pytest
import torch
from leaf_diseases.models.loading import strip_prefixes


@pytest.mark.parametrize("prefix", ["model.", "module.backbone."])
def test_another_prefix_is_taken_off_and_printed(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {name: torch.zeros(1) for name in ("conv.weight", "fc.weight", "fc.bias")}
    found = {prefix + name: weight for name, weight in own.items()}
    found["loss.weight"] = torch.zeros(1)
    assert strip_prefixes(found, own).keys() > own.keys()
    said = f"removed {prefix.removeprefix('module.')} from the names of weights\n"
    assert capsys.readouterr().err == said
    # Of two networks it is not known which is meant, and others do not fit.
    both = found | {f"other.{name}": weight for name, weight in own.items()}
    for names in (both, {"a.conv.weight": torch.zeros(1)}):
        assert not own.keys() & strip_prefixes(names, own).keys()
