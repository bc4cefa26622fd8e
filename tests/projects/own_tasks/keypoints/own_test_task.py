"""The task: what is learned, measured and printed."""

import pytest
import torch
from torchvision.transforms import v2

from leaf_diseases.data.own_data import draw_points
from leaf_diseases.settings import Settings
from leaf_diseases.targets import parse_label
from leaf_diseases.task import Criterion, PredictionOptions, Task, derive

AT = ((3, 4), (5, 2))


def sharp_logits(*points: tuple[float, float]) -> torch.Tensor:
    return torch.stack([50.0 * draw_points([p], 8, 8)[0] for p in points])


def test_points_are_found_where_they_are() -> None:
    targets = draw_points(AT, 8, 8)[None].float()
    loss, sums = Criterion()(sharp_logits(AT[0], (2, 2))[None], targets)
    metrics = derive({"loss": loss, **sums}, 1)
    assert metrics["error"] == pytest.approx(1.5)  # The second is three pixels away.
    assert metrics["found"] == 0.5
    named = Task(["green", "red"]).interpret(sharp_logits(*AT), PredictionOptions())
    for (name, x, y), (expected, place) in zip(named, zip(("green", "red"), AT)):
        assert name == expected
        assert (x, y) == pytest.approx(place, abs=1e-3)


def test_points_outside_do_not_count() -> None:
    targets = draw_points([AT[0], (99, 99)], 8, 8)[None].float()
    logits = sharp_logits(*AT)[None].requires_grad_()
    loss, sums = Criterion()(logits, targets)
    assert sums["points"] == 1
    [gradient] = torch.autograd.grad(loss, logits)
    assert not gradient[0, 1].any()


def test_points_move_with_their_image() -> None:
    """A channel of the image is the map, and is the map after each transform."""
    maps = draw_points([(8, 20), (24, 9)], 32, 32)
    image = torch.cat([maps, maps[:1]]) * 255
    moves = [
        v2.RandomResizedCrop(16, (0.35, 1.0), interpolation=0),
        v2.RandomHorizontalFlip(),
    ]
    for _ in range(20):
        moved, target = v2.Compose(moves)(image, maps)
        assert torch.equal(moved[:2] > 0, target > 0)


def test_both_points_are_read() -> None:
    assert parse_label(["3 4; 10.5 12"], Settings()) == ((3, 4), (10.5, 12))
    for cell in ("3 4", "3 4; 5", "a b; 1 2"):
        with pytest.raises(ValueError):
            parse_label([cell], Settings())
