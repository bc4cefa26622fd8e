"""The recommended project beside the recipes that one would take instead.

All train torchvision's `resnet18` from the same weights on the same JPEG files for as many
epochs: a random part of an image, mirrored or not, AdamW, and a rate that falls to 0 along
a cosine. Each has its own parts for all that, and the loop that its documentation shows;
what they learned is evaluated by the same function. Images are loaded in this process.
"""

import contextlib
import importlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from loop import train_epoch
from measure import Row, import_train, interleave, render
from PIL import Image
from timm.data import create_dataset, create_loader
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader
from torch_tricks.catalogue import own_catalogue
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

SPEED = ["channels_last", "device_augment", "fused_optimizer"]
"""Tricks on top of the preset. To compile takes longer than this training."""
IMAGES, VAL_IMAGES = 1_536, 600
STORED_SIZE, SIZE = 96, 64
BATCH = 32
EPOCHS = 5
RATE, DECAY = 1e-3, 0.01
PART = (0.35, 1.0)
"""Share of an image that is cut out: the projects' own."""

Batch = tuple[Tensor, Tensor]


def measure_recipes() -> Iterator[Row]:
    """Trains an epoch of each in turn, and evaluates all at the end."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="bench-recipes-") as name:
        directory = Path(name)
        project = render(directory, "recommended_project", "recommended")
        train = import_train(project)
        tricks = [name for name, row in own_catalogue().items() if row.recommended]
        fast = import_train(
            render(
                directory,
                "fast_project",
                "custom",
                tricks=f"[{','.join(tricks + SPEED)}]",
            )
        )
        photos = directory / "photos"
        write_images(project, photos)
        runs = [begin(module, directory, photos) for module in (train, fast)]
        runs[1].model.load_state_dict(runs[0].model.state_dict())
        recipes = [
            recipe(runs[0], photos)
            for recipe in (TimmRecipe, TorchvisionRecipe, LightningRecipe)
        ]
        calls: list[Callable[[], None]] = [
            *(recipe.train_epoch for recipe in recipes),
            partial(train_epoch, fast, runs[1]),
            partial(train_epoch, train, runs[0]),
        ]
        all_times = interleave([calls], EPOCHS)
        models = [*(recipe.model for recipe in recipes), runs[1].model, runs[0].model]
        *others, ours = (train.evaluate(runs[0], model)["accuracy"] for model in models)
    names = ("timm's parts", "torchvision's recipe", "Lightning", "with speed tricks")
    for label, times, accuracy in zip(names, all_times, others, strict=True):
        yield Row(
            f"images, {label} / recommended",
            f"{IMAGES / times.ours:.0f}/s",
            f"{IMAGES / times.reference:.0f}/s",
            f"{1 / times.ratio:.3f}",
            f"{1 / times.cpu_ratio:.3f}",
        )
        yield Row(f"accuracy after {EPOCHS} epochs", f"{accuracy:.1%}", f"{ours:.1%}")


def write_images(project: Path, directory: Path) -> None:
    """Writes the shapes that the project draws as JPEG files, a folder for each class."""
    shapes = importlib.import_module(f"{project.name}.data.shapes").Shapes
    for split, count in (("train", IMAGES), ("val", VAL_IMAGES)):
        drawn = shapes(split == "train", STORED_SIZE)
        for index in range(count):
            image, target = drawn[index]
            folder = directory / split / drawn.names[target]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = image.permute(1, 2, 0).numpy()
            Image.fromarray(pixels).save(folder / f"{index}.jpg", quality=90)


def begin(train: ModuleType, directory: Path, photos: Path) -> Any:
    """Starts a run of a project."""
    settings = train.Settings(
        data="folder",
        data_dir=photos,
        image_size=SIZE,
        model="resnet18",
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=RATE,
        weight_decay=DECAY,
        num_workers=0,
        log_every=10**6,
        run_dir=directory / f"{train.__name__}_run",
        device="cpu",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        return train.make_run(settings)


class Recipe:
    """The input of a recipe: the model and its first weights, the files, the colours."""

    def __init__(self, run: Any, photos: Path) -> None:
        self.model = deepcopy(run.model).train()
        self.photos = photos
        self.colours = {
            name: tuple(getattr(run.data.preprocessing, name))
            for name in ("mean", "std")
        }
        self.epoch = 0

    def train_epoch(self) -> None:
        raise NotImplementedError


class TimmRecipe(Recipe):
    """The parts of timm's `train.py` that its package has."""

    def __init__(self, run: Any, photos: Path) -> None:
        super().__init__(run, photos)
        self.loader = create_loader(
            create_dataset("", str(photos), split="train"),
            input_size=(3, SIZE, SIZE),
            batch_size=BATCH,
            is_training=True,
            scale=PART,
            color_jitter=None,
            interpolation="bilinear",
            num_workers=0,
            device=torch.device("cpu"),
            **self.colours,
        )
        self.optimizer = create_optimizer_v2(
            self.model, opt="adamw", lr=RATE, weight_decay=DECAY
        )
        self.scheduler, _ = create_scheduler_v2(
            self.optimizer,
            sched="cosine",
            num_epochs=EPOCHS,
            step_on_epochs=False,
            updates_per_epoch=len(self.loader),
        )
        self.updates = 0

    def train_epoch(self) -> None:
        self.model.train()
        losses = AverageMeter()
        for images, targets in self.loader:
            loss = nn.functional.cross_entropy(self.model(images), targets)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.updates += 1
            losses.update(loss.item(), len(targets))
            self.scheduler.step_update(num_updates=self.updates, metric=losses.avg)


class TorchvisionRecipe(Recipe):
    """The steps of torchvision's references for classification, by its own transforms."""

    def __init__(self, run: Any, photos: Path) -> None:
        super().__init__(run, photos)
        self.loader = make_loader(photos, self.colours)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=RATE, weight_decay=DECAY
        )
        self.scheduler = CosineAnnealingLR(self.optimizer, T_max=EPOCHS)

    def train_epoch(self) -> None:
        self.model.train()
        total_loss, correct = 0.0, 0
        for images, targets in self.loader:
            logits = self.model(images)
            loss = nn.functional.cross_entropy(logits, targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            # Its log reads both of each step.
            total_loss += loss.item()
            correct += (logits.argmax(1) == targets).sum().item()
        self.scheduler.step()


def make_loader(photos: Path, colours: dict[str, Any]) -> DataLoader[Batch]:
    """Returns the loader of torchvision's references."""
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, scale=PART),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(**colours),
        ]
    )
    dataset = ImageFolder(photos / "train", transform)
    return DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True)


class LightningRecipe(Recipe):
    """A module whose optimization is Lightning's own, with nothing that costs speed."""

    def __init__(self, run: Any, photos: Path) -> None:
        super().__init__(run, photos)
        self.loader = make_loader(photos, self.colours)
        self.module = TrainedModule(self.model, EPOCHS * len(self.loader))
        self.trainer = Trainer(
            barebones=True, accelerator="cpu", devices=1, max_epochs=0
        )

    def train_epoch(self) -> None:
        self.trainer.fit_loop.max_epochs += 1
        self.trainer.fit(self.module, self.loader)


class TrainedModule(LightningModule):
    def __init__(self, model: nn.Module, steps: int) -> None:
        super().__init__()
        self.model = model
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=RATE, weight_decay=DECAY
        )
        self.scheduler = CosineAnnealingLR(self.optimizer, T_max=steps)

    def configure_optimizers(self) -> dict[str, Any]:
        # Those that there are, as each epoch is a training of its own to Lightning.
        schedule = {"scheduler": self.scheduler, "interval": "step"}
        return {"optimizer": self.optimizer, "lr_scheduler": schedule}

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        images, targets = batch
        return nn.functional.cross_entropy(self.model(images), targets)
