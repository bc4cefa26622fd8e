"""Augmentation of whole batches on their device."""

import pytest
import torch
from leaf_diseases.data.datasets import load_data
from leaf_diseases.data.device_augment import BatchAugment, WholeBatches, keep_on_device
from leaf_diseases.run import Run
from leaf_diseases.settings import Settings, replace
from leaf_diseases.targets import TARGET_DTYPE
from test_device_augment import changed, settings
from torch import Tensor
from torchvision.transforms import v2

COLOUR = (124, 116, 104)


def rectangles(found: Tensor) -> Tensor:
    """Returns area, rows, first row and first column of what is erased in images."""
    erased = (found == torch.tensor(COLOUR)[:, None, None]).all(dim=1)
    rows, columns = erased.any(dim=2).int(), erased.any(dim=1).int()
    area = erased.sum(dim=(1, 2))
    assert torch.equal(area, rows.sum(dim=1) * columns.sum(dim=1))
    described = [area, rows.sum(dim=1), rows.argmax(dim=1), columns.argmax(dim=1)]
    return torch.stack(described).float()


def test_rectangles_are_those_of_torchvision() -> None:
    # So small that some rectangles do not fit, and torchvision draws them anew.
    stored = torch.full((1500, 3, 6, 9), 255, dtype=torch.uint8)
    augment = BatchAugment((0, 0), False, 1.0, COLOUR)
    found = rectangles(changed(augment, stored))
    assert found[1].max() < 6
    numbers = augment.draw(1).fill_(0.999)  # The largest, which does not fit.
    assert torch.equal(augment(stored[:1], numbers), stored[:1])
    erase = v2.RandomErasing(1.0, value=list(COLOUR))
    expected = rectangles(torch.stack([erase(image) for image in stored]))
    for ours, theirs in zip(found, expected):
        deviation = (ours.var() / 1500 + theirs.var() / 1500).sqrt()
        assert abs(ours.mean() - theirs.mean()) < 4 * deviation
        assert ours.std() == pytest.approx(theirs.std().item(), rel=0.1)


def test_targets_are_kept_with_the_images(run: Run) -> None:
    """The device meta would not take them from another one."""
    dataset, device = run.data.train, torch.device("meta")
    assert isinstance(dataset, WholeBatches)
    keep_on_device(dataset, run.val_loader, device)
    kept, targets = dataset.__getitems__([9, 0, 9])
    assert kept.device == targets.device == device
    assert (kept.shape, targets.shape) == ((3, 3, 8, 8), (3,))
    assert targets.dtype == TARGET_DTYPE


def test_policies_need_images_that_are_read_anew(settings: Settings) -> None:
    with pytest.raises(ValueError, match="reads them once: add --augment none"):
        replace(settings, augment="trivial", data_on_device=True)
    policy = load_data(replace(settings, augment="trivial")).train
    assert not isinstance(policy, WholeBatches)
    assert len(torch.stack([policy[0][0] for _ in range(20)]).unique(dim=0)) > 1
