"""A project's training beside those of timm, torchvision and Lightning, data and all.

All train `cnn` from the same weights on the same images of MNIST, cropped at random, for as
many epochs, with AdamW at the same highest rate, a warm-up and a cosine. Each does so in
its own way, with what its documentation shows: the parts of timm's `train.py`, the loop of
torchvision's reference recipe, and Lightning's trainer. The project has `recommended` and
the tricks that make steps shorter. Only training is timed, and not what is imported.
"""

import copy
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import torch
from images import begin
from lightning.pytorch import LightningModule, Trainer
from measure import Row, import_train, render
from PIL import Image
from timm.data import create_loader
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

TRICKS = (
    *("seeding", "resume", "prefetcher", "amp"),
    *("device_augment", "channels_last", "fused_optimizer"),
)
IMAGES, EPOCHS, BATCH = 10_240, 3, 128
STEPS = IMAGES // BATCH * EPOCHS
WARM_UP = STEPS // 20
RATE, DECAY = 1e-3, 0.05
PADDING = 3
"""Pixels by which images are moved at most."""
SEEDS = 3


class Contest(NamedTuple):
    """What all train on."""

    images: list[Image.Image]
    targets: list[int]
    mean: Sequence[float]
    std: Sequence[float]


class Images(Dataset[tuple[Any, int]]):
    """Images that are changed one by one, as torchvision's folders are."""

    def __init__(
        self, contest: Contest, transform: Callable[[Any], Any] | None
    ) -> None:
        self.contest = contest
        self.transform = transform

    def __len__(self) -> int:
        return len(self.contest.targets)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.contest.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, self.contest.targets[index]


def measure_recipes() -> Iterator[Row]:
    """Trains with each in turn, from several seeds."""
    data_dir = os.environ.get("TORCH_TRICKS_MNIST")
    if data_dir is None:
        yield Row("recipes: left out, TORCH_TRICKS_MNIST names no directory of MNIST's")
        return
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    others = {
        "timm": train_with_timm,
        "torchvision's recipe": train_with_torchvision,
        "Lightning": train_with_lightning,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", *others)}
    right: dict[str, list[float]] = {name: [] for name in seconds}
    with tempfile.TemporaryDirectory(prefix="bench-recipes-") as directory:
        tricks = f"[{','.join(TRICKS)}]"
        project = render(Path(directory), "recipes_project", "custom", tricks=tricks)
        train = import_train(project)
        for seed in range(SEEDS):
            run = start(train, Path(directory, str(seed)), Path(data_dir), seed)
            contest = contest_of(run)
            model = copy.deepcopy(run.model)
            for name, call in {
                "ours": partial(train_project, train, run),
                **{
                    name: partial(other, copy.deepcopy(model), contest)
                    for name, other in others.items()
                },
            }.items():
                torch.manual_seed(seed)
                began = time.perf_counter()
                trained = call()
                seconds[name].append(time.perf_counter() - began)
                right[name].append(train.evaluate(run, trained)["accuracy"])
    for name in others:
        ratios = [a / b for a, b in zip(seconds["ours"], seconds[name])]
        shares = " and ".join(
            f"{100 * statistics.fmean(right[which]):.1f} %" for which in ("ours", name)
        )
        yield Row(
            f"MNIST, {shares} right / {name}",
            *(
                f"{IMAGES * EPOCHS / statistics.median(seconds[which]):,.0f}/s"
                for which in ("ours", name)
            ),
            f"{1 / statistics.median(ratios):.2f}",
        )


def start(train: ModuleType, directory: Path, data_dir: Path, seed: int) -> Any:
    """Starts a run of the project on some of the images."""
    load_data = train.load_data

    def load_some(*arguments: Any, **options: Any) -> Any:
        data = load_data(*arguments, **options)
        stored = data.train.dataset
        stored.images = stored.images[:IMAGES]
        stored.targets = stored.targets[:IMAGES]
        return data

    with mock.patch.object(train, "load_data", load_some):
        return begin(
            train,
            directory,
            data="mnist",
            data_dir=data_dir,
            seed=seed,
            epochs=EPOCHS,
            lr=RATE,
            weight_decay=DECAY,
            checkpoint_every=10**6,
        )


def contest_of(run: Any) -> Contest:
    """Returns the images of a run as others would have read them from files."""
    stored = run.data.train.dataset
    pixels = stored.images.permute(0, 2, 3, 1).numpy()
    preprocessing = run.data.preprocessing
    return Contest(
        [Image.fromarray(image) for image in pixels],
        [int(target) for target in stored.targets],
        preprocessing.mean,
        preprocessing.std,
    )


def train_project(train: ModuleType, run: Any) -> nn.Module:
    """Trains as `main` does, but for evaluation and the lines that it prints."""
    while run.epoch < EPOCHS:
        run.history.append(train.train_epoch(run))
        run.epoch, run.batch = run.epoch + 1, 0
        run.totals = type(run.totals)(run.device)
    return run.model


def train_with_timm(model: nn.Module, contest: Contest) -> nn.Module:
    """Does what timm's `train.py` does on a CPU, without its log."""
    loader = create_loader(
        Images(contest, None),
        input_size=(3, *contest.images[0].size),
        batch_size=BATCH,
        is_training=True,
        use_prefetcher=False,
        train_crop_mode="rkrc",
        scale=(1.0, 1.0),
        ratio=(1.0, 1.0),
        hflip=0.0,
        color_jitter=None,
        num_workers=0,
        mean=contest.mean,
        std=contest.std,
        persistent_workers=False,
        device=torch.device("cpu"),
    )
    loader.dataset.transform.transforms.insert(0, v2.Pad(PADDING))
    optimizer = create_optimizer_v2(model, opt="adamw", lr=RATE, weight_decay=DECAY)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=STEPS, warmup_t=WARM_UP, t_in_epochs=False
    )
    loss_function, step = nn.CrossEntropyLoss(), 0
    for _ in range(EPOCHS):
        model.train()
        losses = AverageMeter()
        for images, targets in loader:
            loss = loss_function(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.update(loss.item(), images.size(0))
            step += 1
            scheduler.step_update(num_updates=step, metric=losses.avg)
    return model


def plain_loader(contest: Contest) -> DataLoader[tuple[Tensor, int]]:
    """Returns torch's loader of images that torchvision crops one by one."""
    transform = v2.Compose(
        [
            v2.RandomCrop(contest.images[0].size, padding=PADDING),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(contest.mean, contest.std),
        ]
    )
    return DataLoader(Images(contest, transform), BATCH, shuffle=True, drop_last=True)


def warm_up_and_cosine(optimizer: torch.optim.Optimizer) -> SequentialLR:
    """Returns the schedule of torchvision's recipe, by steps."""
    parts = [
        LinearLR(optimizer, start_factor=0.01, total_iters=WARM_UP),
        CosineAnnealingLR(optimizer, T_max=STEPS - WARM_UP),
    ]
    return SequentialLR(optimizer, parts, milestones=[WARM_UP])


def train_with_torchvision(model: nn.Module, contest: Contest) -> nn.Module:
    """Does what its reference recipe does, which reads loss and accuracy of each step."""
    loader = plain_loader(contest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    scheduler = warm_up_and_cosine(optimizer)
    criterion = nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        model.train()
        total_loss = total_right = 0.0
        for images, targets in loader:
            logits = model(images)
            loss = criterion(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total_loss += loss.item()
            total_right += (logits.argmax(dim=1) == targets).sum().item()
    return model


class TrainedModule(LightningModule):
    """The module of Lightning's first page, with a schedule."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.criterion = nn.CrossEntropyLoss()

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=RATE, weight_decay=DECAY)
        schedule = {"scheduler": warm_up_and_cosine(optimizer), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, targets = batch
        loss = self.criterion(self.model(images), targets)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss


def train_with_lightning(model: nn.Module, contest: Contest) -> nn.Module:
    """Trains without bar, files and summary, which cost time."""
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(TrainedModule(model), plain_loader(contest))
    return model
