"""Selection of the images with the highest priorities in an evaluation."""

import math
from typing import Any, NamedTuple

from torch import Tensor

from .errors import UserError
from .mistakes import SECTIONS, keep, priorities
from .task import Criterion, Task


class Candidate(NamedTuple):
    """An image, its priority, and its output."""

    priority: float
    position: int
    """Index of the image in the evaluation."""
    output: int
    """The output with this priority."""
    kept: Tensor


class Shortlist:
    """Keeps the images with the highest priorities, in constant memory.

    Args:
        criterion: module that gets the outputs and targets of all images.
        count: images in each section.
    """

    def __init__(self, criterion: Criterion, task: Task, count: int) -> None:
        self.task = task
        self.count = count
        self.images = 0
        self.sections: list[list[Candidate]] = [[] for _ in SECTIONS]
        self.totals = [0] * len(SECTIONS)
        """Number of candidates for each section."""
        criterion.register_forward_hook(self.note)

    def note(self, _criterion: Any, arguments: tuple[Tensor, ...], _sums: Any) -> None:
        """Updates the candidates by a batch."""
        outputs, targets = arguments
        if not outputs.isfinite().all():
            raise UserError(
                "the model returns outputs that are not finite: pass weights of a "
                "run that has not diverged"
            )
        kept = keep(outputs)
        for number, values in enumerate(priorities(self.task, outputs, targets)):
            highest, places = (part.cpu() for part in values.max(dim=1))
            self.totals[number] += int((highest > -math.inf).sum())
            order = highest.argsort(descending=True, stable=True)[: self.count]
            new = [
                Candidate(
                    highest[row].item(),
                    self.images + row,
                    int(places[row]),
                    kept[row].to("cpu", copy=True),  # A view would keep the batch.
                )
                for row in order.tolist()
                if highest[row] > -math.inf
            ]
            # The sort is stable: earlier images come first.
            every = sorted(self.sections[number] + new, key=lambda each: -each.priority)
            self.sections[number] = every[: self.count]
        self.images += len(targets)
