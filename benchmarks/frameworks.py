"""The minimal project's loop beside those of Ignite, Accelerate and Lightning.

All train the same model on the same batches in memory, with the same optimizer and
schedule, and end with the same weights. All keep a running loss and count the right
answers, and read both once an epoch. None logs, saves, evaluates or shows a bar.

Each framework has the loop that its documentation shows first, with what costs speed
turned off where it can be: the comments say what and how.
"""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from ignite.engine import Events, create_supervised_trainer
from lightning.pytorch import LightningModule, Trainer
from loop import BOUND, BareLoop, normalize, start_loops
from measure import Row, import_train, interleave, render
from torch import Tensor
from torch.nn import functional as F

Batch = tuple[Tensor, Tensor]
SIZE = {"image_size": 8, "batch_size": 4}
"""Steps of 1 to 2 ms: the shorter a step, the more of it is the loop."""
STEPS = 200
"""Each epoch is a training of its own to Lightning, whose beginning and end take as long
as one or two of these steps."""
STARTS = 6
REPETITIONS = 5


def measure_frameworks() -> Iterator[Row]:
    """Times the four and the bare loop in turn."""
    torch.set_num_threads(1)
    # Lightning says at each start what machine it has found, and what is deprecated.
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    loops = [IgniteLoop, AccelerateLoop, LightningLoop, BareLoop]
    with tempfile.TemporaryDirectory(prefix="bench-frameworks-") as directory:
        train = import_train(render(Path(directory), "frameworks_project", "minimal"))
        groups = start_loops(train, loops, STARTS, STEPS, **SIZE)
        ours, *others = interleave(groups, REPETITIONS)
    fastest = ours.ratio < min(times.ratio for times in others)
    for name, times in zip(
        ("minimal", "Ignite", "Accelerate", "Lightning"), (ours, *others), strict=True
    ):
        yield Row(
            f"loop of {name}, small step / by hand",
            f"{times.ours / STEPS * 1e3:.3f} ms",
            f"{times.reference / STEPS * 1e3:.3f} ms",
            f"{times.ratio:.3f}",
            f"{times.cpu_ratio:.3f}",
            bound=f"<= {BOUND}, fastest of the four" if times is ours else "",
            holds=times is not ours or (fastest and times.ratio <= BOUND),
        )


class FrameworkLoop(BareLoop):
    """Has what a framework is given, and the running sums of an epoch."""

    total_loss: Tensor
    total_correct: Tensor
    total_images: int

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        # A framework may look into a batch, and is given the plainest.
        self.batches = [(images, targets) for images, targets, *_ in self.batches]

    def begin_epoch(self) -> None:
        torch.manual_seed(len(self.metrics))
        self.model.train()
        self.total_loss = torch.zeros((), device=self.device)
        self.total_correct = torch.zeros((), device=self.device)
        self.total_images = 0

    def compute_loss(self, batch: Batch) -> Tensor:
        """Returns the loss of a batch that is on the device."""
        images, targets = batch
        logits = self.model(normalize(images))
        loss = F.cross_entropy(logits, targets)
        self.count(loss.detach(), logits, targets)
        return loss

    def count(self, loss: Tensor, logits: Tensor, targets: Tensor) -> None:
        self.total_loss += loss
        self.total_correct += (logits.argmax(dim=1) == targets).sum()
        self.total_images += len(targets)

    def end_epoch(self) -> None:
        mean_loss = self.total_loss.item() / len(self.batches)
        self.metrics.append((mean_loss, self.total_correct.item() / self.total_images))


class IgniteLoop(FrameworkLoop):
    """Ignite's own trainer, with events for what an owner adds to it."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.trainer = create_supervised_trainer(
            self.model,
            self.optimizer,
            F.cross_entropy,
            self.device,
            prepare_batch=prepare_batch,
            # By default each loss is read.
            output_transform=lambda images, targets, logits, loss: (
                loss.detach(),
                logits.detach(),
                targets,
            ),
        )
        self.trainer.add_event_handler(Events.EPOCH_STARTED, self.begin_epoch)
        self.trainer.add_event_handler(Events.ITERATION_COMPLETED, self.end_step)
        self.trainer.add_event_handler(Events.EPOCH_COMPLETED, self.end_epoch)

    def end_step(self) -> None:
        self.count(*self.trainer.state.output)
        self.scheduler.step()

    def train_epoch(self) -> None:
        self.trainer.run(self.batches, max_epochs=1)


def prepare_batch(batch: Batch, device: torch.device, non_blocking: bool) -> Batch:
    images, targets = batch
    return normalize(images.to(device)), targets.to(device)


class AccelerateLoop(FrameworkLoop):
    """The loop by hand, on what Accelerate has wrapped."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.accelerator = Accelerator(cpu=True)
        # Batches in a list are nothing that it could prepare.
        self.model, self.optimizer, self.scheduler = self.accelerator.prepare(
            self.model, self.optimizer, self.scheduler
        )

    def train_epoch(self) -> None:
        self.begin_epoch()
        for images, targets in self.batches:
            batch = images.to(self.device), targets.to(self.device)
            self.accelerator.backward(self.compute_loss(batch))
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
        self.end_epoch()


class LightningLoop(FrameworkLoop):
    """A module whose optimization is Lightning's own, as most are."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.module = TrainedModule(self)
        # Without all that Lightning knows to cost speed: bar, logger, checkpoints,
        # summary and validation before training.
        self.trainer = Trainer(
            barebones=True, accelerator="cpu", devices=1, max_epochs=0
        )

    def train_epoch(self) -> None:
        self.trainer.fit_loop.max_epochs += 1
        self.trainer.fit(self.module, Batches(self.batches))


class TrainedModule(LightningModule):
    def __init__(self, loop: LightningLoop) -> None:
        super().__init__()
        self.loop = loop
        self.model = loop.model

    def configure_optimizers(self) -> dict[str, Any]:
        schedule = {"scheduler": self.loop.scheduler, "interval": "step"}
        return {"optimizer": self.loop.optimizer, "lr_scheduler": schedule}

    def on_train_epoch_start(self) -> None:
        self.loop.begin_epoch()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self.loop.compute_loss(batch)

    def on_train_epoch_end(self) -> None:
        self.loop.end_epoch()


class Batches:
    """A list of batches, which as a list Lightning would take for several loaders."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)
