"""The training loops of rendered projects against bare loops that do the same work."""

import contextlib
import copy
import importlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from measure import Row, import_train, interleave, render
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.transforms import v2

BOUND = 1.03
CPU = torch.device("cpu")
WINDOW = 2
"""Micro-batches per optimizer step of the full project."""
REPETITIONS = 12
"""Epochs that each start is timed for."""
EPOCHS = 1000
"""More than are trained, so that the learning rate never gets to 0."""
FULL = (
    "seeding, resume, grad_clipping, schedule, lr_scaling, no_bias_decay, l1, ema, swa, mixup, "
    "augmentation, label_smoothing, class_balance, distillation, early_stopping, prefetcher, "
    "amp, accumulation, activation_checkpointing, channels_last, fused_optimizer, "
    "device_augment, hdf5, freeze, pretrained, timm, layerwise_lr, bilinear_pooling"
)
"""Everything that there is, less what is new: of that, `FullLoop` does nothing yet."""
WITHOUT = {"class_balance": "none", "activation_checkpointing": False}
"""Settings that switch off parts of the full project outside of the loop."""


def measure_loops() -> Iterator[Row]:
    """Compares steps of about 1 to 2 ms and of 40 ms, and counts reads of the device."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="bench-loop-") as directory:
        chosen = {
            "minimal": {"preset": "minimal"},
            "everything": {"preset": "custom", "parallel": "dp", "tricks": f"[{FULL}]"},
        }
        trains = {
            name: import_train(render(Path(directory), f"{name}_project", **answers))
            for name, answers in chosen.items()
        }
        for preset, bare in (("minimal", BareLoop), ("everything", FullLoop)):
            for name, size, steps, starts in (
                ("small", {"image_size": 8, "batch_size": 4}, 50, 10),
                ("large", {"image_size": 32, "batch_size": 64}, 10, 4),
            ):
                yield compare(trains[preset], bare, size, steps, starts, name)
        yield count_reads(trains["minimal"], "minimal")
        yield count_reads(trains["everything"], "everything", swa_start=1.0)
        yield count_reads(trains["everything"], "everything, averaging", swa_start=0.0)


def compare(
    train: ModuleType,
    bare_loop: type["BareLoop"],
    size: dict[str, int],
    steps: int,
    starts: int,
    name: str,
) -> Row:
    """Trains both loops from the same weights on the same batches, an epoch at a time."""
    options = {}
    if bare_loop is FullLoop:
        size = size | {"batch_size": size["batch_size"] // WINDOW}
        # Half of the repetitions average.
        options = {
            "accumulation_steps": WINDOW,
            "swa_start": REPETITIONS / 2 / EPOCHS,
        } | WITHOUT
    batches = steps * options.get("accumulation_steps", 1)
    groups = start_loops(train, [bare_loop], starts, batches, **size, **options)
    (times,) = interleave(groups, REPETITIONS)
    return Row(
        f"loop, {train.__name__.split('_')[0]}, {name} step / by hand",
        f"{times.ours / steps * 1e3:.3f} ms",
        f"{times.reference / steps * 1e3:.3f} ms",
        f"{times.ratio:.3f}",
        f"{times.cpu_ratio:.3f}",
        f"<= {BOUND}",
        times.ratio <= BOUND,
    )


def start_loops(
    train: ModuleType,
    others: Sequence[type["BareLoop"]],
    starts: int,
    batches: int,
    **options: Any,
) -> Iterator[list[Callable[[], None]]]:
    """Yields the calls that train an epoch, ours first, of loops that start alike.

    After as many epochs as were called, all must have the same weights and metrics.
    """
    for _ in range(starts):
        with tempfile.TemporaryDirectory(prefix="bench-run-") as directory:
            run = make_run(train, Path(directory), batches, **options)
            loops = [loop(run) for loop in others]
            calls = [
                partial(train_epoch, train, run),
                *(loop.train_epoch for loop in loops),
            ]
            for call in calls:
                call()
            yield calls
        metrics = [
            (line["train_loss"], line["train_accuracy"])
            for line in run.progress.history
        ]
        weights = run.model.state_dict()
        for loop in loops:
            torch.testing.assert_close(loop.model.state_dict(), weights, rtol=0, atol=0)
            # A few units in the last place: the sums are taken in another order.
            torch.testing.assert_close(loop.metrics, metrics, rtol=1e-6, atol=0)


def train_epoch(train: ModuleType, run: Any) -> None:
    """Trains one epoch of a project, without its evaluation."""
    torch.manual_seed(run.progress.epoch)  # Of dropout and of mixup.
    # The bar of a run whose errors go to no terminal is not drawn.
    with contextlib.redirect_stderr(io.StringIO()):
        train.train_epoch(run)


def make_run(train: ModuleType, directory: Path, steps: int, **options: Any) -> Any:
    """Starts a run whose loader is a list of batches: loading would hide the loop."""
    settings = train.Settings(
        epochs=EPOCHS,
        num_workers=0,
        run_dir=directory,
        log_every=EPOCHS * steps,  # The loops by hand print nothing.
        **{"device": "cpu"} | options,
    )
    make_loader = train.make_train_loader

    def make_batches(*arguments: Any) -> list[tuple[Tensor, Tensor]]:
        return list(islice(make_loader(*arguments), steps))

    torch.manual_seed(0)
    with (
        mock.patch.object(train, "make_train_loader", make_batches),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        return train.make_run(settings)


def normalize(images: Tensor) -> Tensor:
    """Maps uint8 images as the project does those of the built-in shapes."""
    return (images.float() / 255 - 0.5) / 0.5


def schedule_of(run: Any) -> Callable[[int], float]:
    """Returns the learning rate of each step, as a share of the highest."""
    package = type(run).__module__.partition(".")[0]
    set_rates = importlib.import_module(f"{package}.optim.optimizer").set_rates
    unit = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    factor = [run.plateau.factor] if hasattr(run, "plateau") else []
    settings = [run.settings] if factor or hasattr(run, "swa") else []

    def share(step: int) -> float:
        set_rates(unit, *settings, step, run.total_steps, *factor)
        return unit.param_groups[0]["lr"]

    return share


class BareLoop:
    """The loop as one writes it without a template."""

    def __init__(self, run: Any) -> None:
        self.settings = run.settings
        self.device = run.device
        self.batches = run.train_loader
        self.model = copy.deepcopy(run.model)
        own = dict(zip(run.model.parameters(), self.model.parameters()))
        groups = [
            {
                "params": [own[weight] for weight in group["params"]],
                "weight_decay": group["weight_decay"],
                "lr": group["lr"],
                "fused": group["fused"],
            }
            for group in run.optimizer.param_groups
        ]
        self.optimizer = torch.optim.AdamW(groups)
        self.scheduler = LambdaLR(self.optimizer, schedule_of(run))
        self.metrics: list[tuple[float, float]] = []
        """Mean loss and accuracy of each epoch."""

    def train_epoch(self) -> None:
        torch.manual_seed(len(self.metrics))
        self.model.train()
        total_loss = torch.zeros((), device=self.device)
        total_correct = torch.zeros((), device=self.device)
        total_images = 0
        for images, targets in self.batches:
            images, targets = images.to(self.device), targets.to(self.device)
            logits = self.model(normalize(images))
            loss = F.cross_entropy(logits, targets)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.scheduler.step()
            total_loss += loss.detach()
            total_correct += (logits.argmax(dim=1) == targets).sum()
            total_images += len(targets)
        mean_loss = total_loss.item() / len(self.batches)
        self.metrics.append((mean_loss, total_correct.item() / total_images))


class FullLoop(BareLoop):
    """The same with every trick that has to do with the loop, but for class weights.

    Half of the tricks of the preset change the model, the settings or what comes after
    an epoch, which is neither here nor there. Batches are moved and mirrored by the
    project's own function, which takes its numbers from the seed of the epoch.
    """

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        classes = run.model.classifier.out_features
        self.mix = v2.RandomChoice(
            [
                v2.MixUp(alpha=self.settings.mixup_alpha, num_classes=classes),
                v2.CutMix(alpha=self.settings.cutmix_alpha, num_classes=classes),
            ]
        )
        self.ema = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
        self.average = AveragedModel(self.model)
        self.average_start = run.swa.start
        self.sampler, self.augment = run.sampler, run.data.augment
        package = type(run).__module__.partition(".")[0]
        self.project = importlib.import_module(f"{package}.epoch_augmentation")
        self.amp_dtype = run.amp_dtype
        self.mixed = run.amp_dtype is not None
        self.path = run.directory / "bare.pt"
        self.step = 0

    def train_epoch(self) -> None:
        torch.manual_seed(len(self.metrics))
        self.model.train()
        total_loss = torch.zeros((), device=self.device)
        total_correct = torch.zeros((), device=self.device)
        total_images = 0
        epoch, stream = len(self.metrics), self.project.AUGMENT_STREAM
        seed = self.project.derive_seed(self.sampler.seed, epoch, stream)
        generator = torch.Generator().manual_seed(seed)
        numbers, place = self.augment.draw(self.sampler.length, generator), 0
        batches = iter(self.batches)
        while window := list(islice(batches, self.settings.accumulation_steps)):
            window_images = sum(len(batch.targets) for batch in window)
            for batch in window:
                images = batch.inputs.to(self.device)
                targets = batch.targets.to(self.device)
                drawn = numbers[place : place + len(images)]
                place += len(images)
                images = normalize(self.augment(images, drawn))
                images, targets = self.mix(images, targets)
                images = images.contiguous(memory_format=torch.channels_last)
                with torch.autocast(self.device.type, self.amp_dtype, self.mixed):
                    logits = self.model(images).float()
                    smoothing = self.settings.label_smoothing
                    loss = F.cross_entropy(logits, targets, reduction="sum")
                    spread = -logits.log_softmax(dim=1).mean(dim=1).sum()
                    loss = (1 - smoothing) * loss + smoothing * spread
                (loss / window_images).backward()
                total_loss += loss.detach()
                predicted = logits.argmax(dim=1, keepdim=True)
                total_correct += targets.gather(1, predicted).sum()
            with torch.no_grad():
                for weight in self.model.parameters():
                    if weight.ndim >= 2:
                        weight.grad.add_(weight.sgn(), alpha=self.settings.l1)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
            total_images += window_images
            self.step += 1
            self.scheduler.step()
            self.ema.update_parameters(self.model)
            if self.step > self.average_start:
                self.average.update_parameters(self.model)
            if self.step % self.settings.checkpoint_every == 0:
                self.save()
        self.save()
        mean_loss = total_loss.item() / total_images
        self.metrics.append((mean_loss, total_correct.item() / total_images))

    def save(self) -> None:
        """Saves as much as the project does, as safely."""
        checkpoint = {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "ema": self.ema.state_dict(),
            "average": self.average.state_dict(),
            "random": torch.get_rng_state(),
        }
        aside = self.path.with_suffix(".tmp")
        with aside.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.path)


class HostReads(TorchDispatchMode):
    """Counts the values that leave a device, for each of which the host has to wait.

    The meta device serves on any machine: it computes nothing, and what is not counted
    here PyTorch refuses to read from it, so that no read goes unseen.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        source = args[0] if args else None
        if isinstance(source, Tensor) and source.device.type == self.device.type:
            if func is torch.ops.aten._local_scalar_dense.default:
                self.count += 1
                return 1.0  # Which is finite, and true.
            if kwargs.get("device") == CPU:
                self.count += 1
                return torch.ones_like(source, **kwargs)
        return func(*args, **kwargs)


def plain(
    optimizer: type[torch.optim.Optimizer], groups: Any, **options: Any
) -> torch.optim.Optimizer:
    """Makes an optimizer of several kernels instead of a fused one."""
    return optimizer(groups, **options | {"fused": False})


def count_reads(train: ModuleType, name: str, **options: Any) -> Row:
    """Counts what 20 more steps in an epoch read, so that its end does not count."""
    counts = []
    device = torch.device("meta")
    for steps in (20, 40):
        if hasattr(train.Settings, "accumulation_steps"):
            options = options | WITHOUT | {"accumulation_steps": WINDOW}
            steps *= WINDOW
        with (
            tempfile.TemporaryDirectory(prefix="bench-run-") as directory,
            # It knows no meta device; the casts of mixed precision stay on the device.
            mock.patch.object(
                torch, "autocast", lambda *_, **__: contextlib.nullcontext()
            ),
            mock.patch.object(train, "choose_device", lambda _: device),
            # Nor is there a fused kernel for it.
            mock.patch.object(torch.optim, "AdamW", partial(plain, torch.optim.AdamW)),
            HostReads(device) as reads,
        ):
            size = {"image_size": 8, "batch_size": 4}
            run = make_run(train, Path(directory), steps, **size, **options)
            assert len(run.train_loader) == steps
            reads.count = 0
            train.train_epoch(run)
        counts.append(reads.count)
    assert counts[0] > 0, "the end of an epoch reads the loss"
    per_step = (counts[1] - counts[0]) / 20
    return Row(
        f"host reads per step, {name}",
        f"{per_step:g}",
        "0",
        bound="0",
        holds=per_step == 0,
    )
