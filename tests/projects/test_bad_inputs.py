"""Wrong input and broken files end in one line with the remedy, and damage nothing.

Each row of a table adds arguments to a short, good command, and has a phrase of the error
that the command must end with. The paths are in `world`, which has a file for each fault.
"""

import json
import os
import shlex
import shutil
import struct
import zlib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from parts import few_of
from PIL import Image
from rendering import render
from subsets import ROOT
from training import WITHOUT_TRACKERS, make_digits
from zygote import Zygote

COMMANDS = {
    "train.py": "--data folder --data-dir folder --image-size 8 --epochs 1 "
    "--batch-size 4 --num-workers 0 --device cpu --run-dir out",
    "evaluate.py": "run/model.pt --device cpu",
    "predict.py": "--weights run/model.pt --device cpu",
    "convert.py": "out --data folder --data-dir folder --image-size 8",
    "export.py": "run/model.pt",
    "features.py": "--weights run/model.pt --device cpu folder/val/a",
    "latency.py": "--weights run/model.pt --device cpu",
    "calibrate.py": "run/model.pt --device cpu",
    "errors.py": "run/model.pt --device cpu",
}
COMMANDS["sweep.py"] = COMMANDS["cross_validate.py"] = COMMANDS["train.py"]
"""Good arguments of each command. A row may repeat a flag: its last value counts."""

NO_GPU = "cuda" if not torch.cuda.is_available() else "mps"
LONG = "x" * 300
NO_TEXT = os.fsdecode(b"\xff")
"""A file name that is no UTF-8."""

REFUSED = {
    # Wrong flags, a few of each kind. A project's own tests try all bounds.
    ("train.py", 2): {
        "--batch-size 0": "error: batch_size: Input should be greater than 0",
        "--batch-size four": "--batch-size",
        "--batch-size": "--batch-size",
        "--batch-size 10000000000000000000": "than or equal to 1048576",
        "--epoch-steps 10000000000000000000": "than or equal to 1048576",
        "--num-workers 10000000000000000000": "than or equal to 1024",
        "--lr inf": "error: lr: Input should be a finite number",
        "--optimizer adam": "--optimizer",
        "--schedule step --step-share 0.05": "--step-share must be above --warmup-share",
        "--pretrained --init-weights run/model.pt": "exclude each other: pass one of them",
        "--deterministic yes": "yes",
        "--settings": "--settings",
        "--batchsize 4": "Perhaps you meant: --batch-size",
        "stray": "Unrecognized options: stray",
    },
    ("train.py", 1): {
        "--data imagenet": "there is no data set imagenet: try --data",
        "--data-dir missing": "missing does not exist: check --data-dir",
        "--data-dir file": "put them into file/CLASS",
        "--data-dir loop": "loop does not exist: check --data-dir",
        f"--data-dir {LONG}": "does not exist: check --data-dir",
        "--data-dir folders/single": "is the only image of its kind, which cannot be in both splits",
        "--data csv --data-dir file": "cannot read file/labels.csv",
        "--data csv --data-dir csv/directory": "cannot read csv/directory/labels.csv",
        "--data csv --data-dir csv/bytes": "or write it in UTF-8",
        "--data csv --data-dir csv/no-rows": "lists no images",
        "--data csv --data-dir csv/missing": "images that are not in csv/missing (4): fix 0.png, 1.png",
        "--data csv --data-dir csv/one-split": "only in training: c; only in validation",
        "--data-dir folders/other-classes": "training needs images of all of them",
        "--data-dir folders/one-class": "classification needs two or more",
        "--data-dir folders/flat": "put them into folders/flat/train/CLASS",
        "--data hdf5 --data-dir empty": "empty holds no train*.h5: make the files",
        "--data hdf5 --data-dir h5/no-val": "no-val holds no val*.h5",
        "--data hdf5 --data-dir h5/text": "make it with convert.py",
        "--data hdf5 --data-dir h5/no-images": "make it with convert.py",
        "--data hdf5 --data-dir h5/bad-names": "make it with convert.py",
        "--data hdf5 --data-dir h5/number-of-names": "make it with convert.py",
        "--data hdf5 --data-dir h5/group": "make it with convert.py",
        "--data hdf5 --data-dir h5/float-images": "(6, 3, 8, 8) float32",
        "--data hdf5 --data-dir h5/empty": "make it with convert.py",
        "--data hdf5 --data-dir h5/few-targets": "5 targets, ",
        "--data hdf5 --data-dir h5/missing-shard": "bring the others back",
        "--data hdf5 --data-dir h5/foreign-shard": "is of another data set: remove it",
        "--teacher missing.pt": "there is no file missing.pt: pass the best.pt or model.pt of a",
        "--teacher file": "there is no config.json beside file that names its model",
        "--pretrained": "cnn has no pretrained weights: pass a --model of torchvision's",
        "--init-weights missing.pt": "there is no file missing.pt",
        "--init-weights file": "file is damaged, or holds more than tensors",
        "--init-weights weights/numbers.pt": "numbers.pt must hold one state dict, but",
        "--init-weights run/model.pt --model resnet18": "pass their --model",
        "--init-weights weights/foreign/pytorch_model.bin": "foreign/config.json, which",
        f"--init-weights {LONG}": "is damaged, or holds more than tensors",
        "--batch-size 1000": "pass a smaller one or add images",
        "--model resnet81": "try --model resnet18",
        "--model ''": "try --model cnn",
        f"--device {NO_GPU}": "pass --device cpu",
        "--device cuda:99": "pass --device cpu",
        "--device meta": "pass --device cpu",
        "--mlflow-uri http://ada:key@localhost": "has a password, which config.json would store",
        "--run-dir file": "pass another --run-dir",
        "--run-dir file/run": "pass another --run-dir",
        f"--run-dir {LONG}": "pass another --run-dir",
        "--run-dir run": "run holds a run: pass another --run-dir",
        "--run-dir ''": ". holds train.py: pass another --run-dir",
        "--run-dir . --resume auto": ". holds train.py: pass another --run-dir",
        "--resume missing.pt": "there is no file missing.pt: pass another",
        "--resume folder": "there is no checkpoint in folder: pass the directory of a run that has one",
        f"--resume {LONG}": "is damaged, or holds more than tensors",
        f"--settings {LONG}": "correct the file (OSError",
        f"--teacher {LONG}": "there is no file",
        "--resume CHECKPOINT --epochs 2 --max-steps 1": "pass a larger --max-steps",
    },
    # Without a network, where torchvision tries to download missing files.
    ("offline train.py", 1): {
        "--data mnist --data-dir empty": "check the network, or put its files there",
        "--data mnist --data-dir mnist/truncated": "check the network, or put its files",
        "--data cifar10 --data-dir cifar10": "check the network, or put its files",
        "--model resnet18 --pretrained": "or put the file at torch/hub/checkpoints",
    },
    ("evaluate.py", 2): {
        "--batch-size 0": "error: batch_size: Input should be greater than 0",
        "--batch-size many": "--batch-size",
        "--batch-size 10000000000000000000": "than or equal to 1048576",
        "--split tests": "--split",
        "more.pt": "more.pt",
    },
    ("evaluate.py", 1): {
        "--data shapes": "not learned circle, cross, ring: name other images",
        "--data-dir missing": "missing does not exist: check --data-dir",
        "--data-dir folders/other-classes": "not learned d: name other images",
        "--config configs/no-model.json": "pass the config.json of the run",
        "--config configs/settings.json": "pass the config.json of the run",
    },
    ("predict.py", 2): {
        "folder/val/a --top 0": "error: top: Input should be greater than 0",
        "folder/val/a --format xml": "--format",
        "folder/val/a --weights": "--weights",
    },
    ("predict.py", 1): {
        "": "pass an image, or a directory of images",
        "missing.png": "there is no image missing.png",
        f"{LONG}": "there is no image x",
        "empty": "empty holds no images: pass another directory",
        "folders/corrupt/train/a": "unreadable: fix or remove folders/corrupt",
        "folders/bomb/train/a/0.png": "unreadable: fix or remove folders/bomb",
        "folder/val/a --weights missing/model.pt": "there is no file missing/model.pt",
        "folder/val/a --weights folder --config run/config.json": "there is no file folder",
        "folder/val/a --weights weights/truncated.pt --config run/config.json": "damaged",
        "folder/val/a --weights weights/other.pt --config run/config.json": "of another",
        "folder/val/a --config missing.json": "pass the config.json of the run",
        "folder/val/a --config configs/foreign.json": "pass the config.json of the run",
        "folder/val/a --config configs/list.json": "pass the config.json of the run",
        "folder/val/a --config configs/types.json": "pass the config.json of the run",
        "folder/val/a --config configs/negative-size.json": "pass the config.json of the run",
        "folder/val/a --config configs/other-model.json": "check the model and its outputs",
        "folder/val/a --config configs/no-such-model.json": "there is no model",
        "folder/val/a --config configs/other-classes.json": "2 of another shape: classifier.",
    },
    ("convert.py", 2): {
        "--shards 0": "error: shards: Input should be greater than 0",
        "--shards two": "--shards",
        "--val-share 1": "error: val_share: Input should be less than 1",
        "more": "more",
    },
    ("convert.py", 1): {
        "--shards 8": "pass fewer",
        "--data-dir missing": "missing does not exist: check --data-dir",
        "--data-dir folders/corrupt": "0.png is no readable image: fix or remove it",
        "--data hdf5 --data-dir h5/text": "HDF5 files need no conversion",
    },
    ("export.py", 2): {
        "--formats": "error: formats: Tuple should have at least 1 item",
        "--formats tflite": "--formats",
    },
    ("export.py", 1): {
        "--output-dir file/out": "cannot make file/out: pass another --output-dir (Not a",
    },
    # Of scripts that share most of their code with others, a few of each.
    ("", 2): {
        "features.py --batch-size 0": "error: batch_size: Input should be greater than 0",
        "features.py --batch-size 10000000000000000000": "than or equal to 1048576",
        "latency.py --batch-sizes 10000000000000000000": "than or equal to 1048576",
        "latency.py --seconds 0": "error: seconds: Input should be greater than 0",
        "latency.py --batch-sizes 0": "batch_sizes: 0: Input should be greater than 0",
        "errors.py --count 0": "error: count: Input should be greater than 0",
        "sweep.py --trials 0": "error: trials: Input should be greater than 0",
        "cross_validate.py --folds 1": "folds: Input should be greater than or equal to 2",
    },
    ("", 1): {
        "features.py missing.png": "there is no image missing.png",
        "features.py --layers nothing": "no layer nothing with a tensor",
        "latency.py --weights missing/model.pt": "there is no file missing/model.pt",
        "latency.py --model cnn": "pass --weights of a run, or --model",
        "calibrate.py --data-dir missing": "missing does not exist: check --data-dir",
        "errors.py --output missing/page.html": "there is no directory missing: create",
        "sweep.py --resume auto": "the same command resumes the sweep: leave",
        "cross_validate.py": "error: pass --folds, such as 5",
        "cross_validate.py --folds 2 --group-column x": "pass --data csv",
    },
    # Commands without the good arguments.
    ("bare", 2): {
        "train.py --resume auto": "--resume auto needs --run-dir: pass that too",
        "evaluate.py": "best.pt of its best evaluation",
        "export.py": "best.pt of its best evaluation",
        "predict.py folder/val/a": "--weights",
        "convert.py": "New directory for the files",
    },
    ("bare", 1): {
        "evaluate.py missing/model.pt": "there is no file missing/model.pt: pass the best",
        "evaluate.py missing.pt --config run/config.json": "there is no file",
        "latency.py": "pass --weights of a run, or --model",
        "convert.py folder": "folder exists: pass a new directory",
        "convert.py ''": "exists: pass a new directory",
        "convert.py file/out": "cannot make file/out.unfinished (Not a directory)",
        f"convert.py {LONG} --data folder --data-dir folder": "cannot make x",
    },
    # In a project without tricks, where the code differs.
    ("minimal train.py", 2): {
        "--mixup-alpha=1": "Unrecognized options: --mixup-alpha=1",
        "--resume auto": "--resume",
        "--accumulation-steps 2": "--accumulation-steps",
    },
    ("minimal train.py", 1): {
        "--data hdf5": "or torch-tricks list for a trick that reads it",
        "--model timm:x": "no timm models: torch-tricks add timm",
        "--run-dir run": "holds a run: pass another --run-dir",
        "--run-dir file/run": "pass another --run-dir",
        "--run-dir ''": ". holds train.py: pass another --run-dir",
        "--data-dir folders/corrupt": "train/a/0.png is no readable image",
        "--data-dir folders/corrupt --num-workers 2": "is no readable image",
    },
    ("minimal evaluate.py", 1): {
        "--data-dir folders/corrupt-val": "0.png is no readable image",
    },
}
"""By script and status: what is added to its good arguments, and what the line says."""

GOOD = [
    "train.py --data-dir folders/modes",
    "train.py --data-dir folders/no-val",
    "train.py --data-dir folders/corrupt",
    "train.py --data-dir folders/modes --num-workers 2",
    "train.py --data-dir folders/other-files",
    "train.py --data-dir folders/names",
    "train.py --data-dir folders/directory",
    "train.py --batch-size 1 --image-size 16",
    "train.py --run-dir logs",
    "evaluate.py",
    "evaluate.py --split train --batch-size 1",
    "evaluate.py --data-dir folders/one-class",
    "evaluate.py --data-dir folders/modes --split all",
    "evaluate.py --data-dir folders/corrupt",
    "predict.py folders/modes",
    "predict.py folders/other-files/train/a",
    "predict.py folders/names/train/\N{CAT FACE}",
    "predict.py --top 1000 folder/val/a/0.png",
    "predict.py --format csv folders/names/train/\N{CAT FACE}",
    "predict.py --format json folders/names/train/\N{CAT FACE}",
    "convert.py --data-dir folders/modes",
    "convert.py --data-dir folders/names",
    "convert.py --data-dir folders/names/train --split-seed 1",
]

ROWS = [
    (f"{script} {row}".strip(), status, says)
    for (script, status), table in REFUSED.items()
    for row, says in table.items()
]


def some_of(rows: list[Any]) -> list[Any]:
    """Marks three of four rows for a share of the proof. Neighbours are of one kind."""
    return few_of(rows, *range(0, len(rows), 4))


@pytest.fixture(scope="module")
def world(tmp_path_factory, zygote, folder):
    """A project, and beside its files all those that the rows name."""
    world = render(tmp_path_factory.mktemp("bad") / "world", {"preset": "everything"})
    shutil.copytree(folder, world / "folder")
    zygote.output(world, *complete(world, "train.py --run-dir run"))
    (world / "empty").mkdir()
    (world / "file").write_text("not what you think\n")
    (world / "loop").symlink_to("loop")
    (world / "logs").mkdir()
    (world / "logs" / "log.txt").write_text("kept by a batch system\n")
    make_folders(world / "folder", world / "folders")
    make_lists(world / "folder", world / "csv")
    make_hdf5(world / "h5")
    make_downloads(world)
    make_weights(world)
    return world


@pytest.fixture(scope="module")
def minimal(tmp_path_factory, world):
    """A project of the practices alone that has the same files beside it."""
    practices = ["folders", "csv", "evaluate", "predict"]
    answers = {"preset": "custom", "parallel": "none", "tricks": practices}
    minimal = render(tmp_path_factory.mktemp("minimal") / "x", answers)
    for name in ("folder", "folders", "file", "run"):
        (minimal / name).symlink_to(world / name)
    return minimal


def make_folders(good: Path, folders: Path) -> None:
    def broken(name: str) -> Path:
        return shutil.copytree(good, folders / name)

    first = Path("train/a/0.png")
    png = (good / first).read_bytes()
    shutil.rmtree(broken("no-val") / "val")
    (broken("other-classes") / "val" / "c").rename(folders / "other-classes/val/d")
    broken("one-class")
    for path in [*(folders / "one-class").glob("*/[bc]")]:
        shutil.rmtree(path)
    for name in ("b/0.png", "c/0.png", "c/1.png"):
        (folders / "single" / name).parent.mkdir(parents=True, exist_ok=True)
        (folders / "single" / name).write_bytes(png)
    for split in ("train", "val"):
        (folders / "flat" / split).mkdir(parents=True)
        (folders / "flat" / split / "0.png").write_bytes(png)
    (broken("corrupt") / first).write_bytes(png[:20] + b"damage" + png[26:])
    shutil.copy(folders / "corrupt" / first, broken("corrupt-val") / "val/a/0.png")
    # A header that promises far more pixels than fit into memory.
    bomb = png[:16] + struct.pack(">II", 50_000, 50_000) + png[24:29]
    bomb += struct.pack(">I", zlib.crc32(bomb[12:])) + png[33:]
    (broken("bomb") / first).write_bytes(bomb)
    (broken("directory") / first).unlink()
    (folders / "directory" / first).mkdir()
    broken("other-files")
    for place in ("train", "train/a", "val/b"):
        (folders / "other-files" / place / "notes.txt").write_text("no image")
        (folders / "other-files" / place / ".DS_Store").write_bytes(b"\0")
    names = broken("names")
    (names / first).rename(names / first.with_name(f"{NO_TEXT}.png"))
    for split in ("train", "val"):
        (names / split / "a").rename(names / split / "\N{CAT FACE}")
        (names / split / "b").rename(names / split / NO_TEXT)
    modes = broken("modes") / "train" / "a"
    image = Image.effect_noise((8, 8), 50).convert("RGB")
    image.convert("RGBA").save(modes / "transparent.png")
    image.save(modes / "moving.gif", save_all=True, append_images=[image.rotate(90)])
    image.resize((1, 1)).save(modes / "one-pixel.png")
    image.resize((300, 2)).save(modes / "flat.png")


def make_lists(good: Path, lists: Path) -> None:
    files = sorted(path.relative_to(good) for path in good.glob("train/*/*.png"))
    rows = [f"../../folder/{file},{file.parent.name}" for file in files]
    for name, lines in {
        "no-rows": ["path,label"],
        "missing": ["path,label", *rows, *(f"{index}.png,a" for index in range(4))],
        "one-split": ["path,label,split", f"{rows[0]},val", f"{rows[-1]},train"],
    }.items():
        (lists / name).mkdir(parents=True)
        text = "".join(f"{line}\n" for line in lines)
        (lists / name / "labels.csv").write_text(text, encoding="utf-8")
    (lists / "directory" / "labels.csv").mkdir(parents=True)
    (lists / "bytes").mkdir()
    (lists / "bytes" / "labels.csv").write_bytes(bytes(range(256)))


def make_hdf5(h5: Path) -> None:
    """Writes data sets of which the first training file is broken."""
    name = "train-00000-of-00001.h5"
    rng = np.random.default_rng(0)

    def write(directory: str, file_name: str = name, **changes: object) -> None:
        """Writes a good file of 6 images, apart from what is changed or None."""
        path = h5 / directory / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "images": rng.integers(256, size=(6, 3, 8, 8), dtype=np.uint8),
            "targets": np.arange(6) % 3,
            "names": json.dumps(["a", "b", "c"]),
            "source": "folder",
            "image_size": 8,
        } | changes
        with h5py.File(path, "w") as file:
            for key in ("images", "targets"):
                if isinstance(content[key], str):
                    file.create_group(key)
                elif content[key] is not None:
                    file[key] = content[key]
            for key in ("names", "source", "image_size"):
                if content[key] is not None:
                    file.attrs[key] = content[key]

    def both(directory: str, **changes: object) -> Path:
        write(directory, name.replace("train", "val"))
        write(directory, **changes)
        return h5 / directory / name

    (both("no-val").with_name(name.replace("train", "val"))).unlink()
    both("text").write_text("no HDF5")
    both("no-images", images=None)
    both("bad-names", names="a, b, c")
    both("number-of-names", names="3")
    both("group", images="group")
    both("float-images", images=np.zeros((6, 3, 8, 8), np.float32))
    both("empty", images=np.zeros((0, 3, 8, 8), np.uint8), targets=np.arange(0))
    both("few-targets", targets=np.arange(5) % 3)
    both("missing-shard").rename(h5 / "missing-shard" / "train-00000-of-00002.h5")
    both("foreign-shard")
    write("foreign-shard", "train-00001.h5", names=json.dumps(["x", "y", "z"]))


def make_downloads(world: Path) -> None:
    """Writes files of MNIST, of which the training images end early, and one of CIFAR-10."""
    raw = make_digits(world / "mnist" / "truncated") / "MNIST" / "raw"
    images = raw / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-99])
    batches = world / "cifar10" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    (batches / "data_batch_1").write_bytes(b"not what you think")


def make_weights(world: Path) -> None:
    weights, configs = world / "weights", world / "configs"
    weights.mkdir()
    configs.mkdir()
    good = (world / "run" / "model.pt").read_bytes()
    (weights / "truncated.pt").write_bytes(good[: len(good) // 2])
    torch.save({0: torch.zeros(2)}, weights / "numbers.pt")
    torch.save({"layer.weight": torch.zeros(2, 2)}, weights / "other.pt")
    (weights / "foreign").mkdir()
    shutil.copy(world / "run" / "model.pt", weights / "foreign" / "pytorch_model.bin")
    (weights / "foreign" / "config.json").write_text('{"architectures": []}')
    config = json.loads((world / "run" / "config.json").read_text())
    cnn, names = config["settings"], config["names"]
    preprocessing = config["preprocessing"]
    for name, content in {
        "foreign": {"architectures": ["BertModel"]},
        "list": [1, 2, 3],
        "types": {"settings": [], "names": 3, "preprocessing": []},
        "no-model": config | {"settings": {}},
        "settings": config | {"settings": cnn | {"batch_size": "many"}},
        "negative-size": config
        | {"preprocessing": preprocessing | {"crop_size": [-8, 8]}},
        "other-model": config
        | {
            "settings": cnn | {"model": "squeezenet1_1"},
            "preprocessing": preprocessing
            | {"resize_size": [32, 32], "crop_size": [32, 32]},
        },
        "no-such-model": config | {"settings": cnn | {"model": "nonsense"}},
        "other-classes": config | {"names": [*names, "d"]},
    }.items():
        (configs / f"{name}.json").write_text(json.dumps(content))


def complete(world: Path, row: str) -> list[str]:
    """Returns a row's command with what is good about it before what the row adds."""
    checkpoint = next(world.glob("run/checkpoints/*.pt"), "")
    place, *rest = shlex.split(row.replace("CHECKPOINT", str(checkpoint)))
    if place == "bare":
        return rest
    script, *more = rest if place in MADE else (place, *rest)
    command = [script, *shlex.split(COMMANDS[script])]
    # Trackers would write beside the run.
    if place != "minimal" and COMMANDS[script] == COMMANDS["train.py"]:
        command += WITHOUT_TRACKERS
    return [*command, *more]


def snapshot(world: Path) -> dict[str, object]:
    """Everything in a directory but Python's caches, with what changes if it is written."""
    found = {}
    for path in sorted(world.rglob("*")):
        if "__pycache__" not in path.parts:
            status = path.lstat()
            written = not path.is_dir() and (status.st_mtime_ns, status.st_ino)
            found[str(path.relative_to(world))] = written
    return found


def attempt(
    zygote: Zygote, project: Path, command: list[str], **environment: str
) -> tuple[CompletedProcess[str], set[str]]:
    """Runs a command and returns its outcome with what it made, which is removed.

    What was there before must be as it was.
    """
    before = snapshot(project)
    result = zygote.run(project, *command, environment=environment)
    after = snapshot(project)
    made = after.keys() - before.keys()
    for name in sorted(made, reverse=True):
        path = project / name
        path.rmdir() if path.is_dir() else path.unlink()
    assert {name: after.get(name) for name in before} == before
    return result, made


def errors(result: CompletedProcess[str]) -> str:
    """Returns what a command printed to standard error, but for what it left out."""
    lines = result.stderr.splitlines(keepends=True)
    return "".join(
        line
        for line in lines
        if not line.startswith("left out in ") and "opened images have" not in line
    )


def test_the_documentation_counts_them():
    for page in ("README.md", "docs/proof.md"):
        assert f"{len(ROWS)} bad inputs" in (ROOT / page).read_text(encoding="utf-8")


MADE = {
    # torchvision makes directories for what it is about to download.
    "offline": {
        *("empty/MNIST", "empty/MNIST/raw"),
        *("torch", "torch/hub", "torch/hub/checkpoints"),
    },
    "minimal": {"out", "out/config.json"},
}
"""What commands make before they see what is wrong."""

OFFLINE = {
    **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    "TORCH_HOME": "torch",
}


@pytest.mark.parametrize(("row", "status", "says"), some_of(ROWS))
def test_one_line(row, status, says, world, minimal, zygote):
    """A flag that is none, or of another type, tyro explains in a box."""
    place = row.split()[0]
    project = minimal if place == "minimal" else world
    environment = OFFLINE if place == "offline" else {}
    result, made = attempt(zygote, project, complete(world, row), **environment)
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    if status == 2:
        assert result.stderr.startswith(("╭", "error: "))
        assert says in " ".join(result.stderr.replace("│", " ").split())
    else:
        said = errors(result)
        assert says in said
        assert said.startswith("error: ")
        assert said.count("\n") == 1, result.stderr
    assert made <= MADE.get(place, set())


@pytest.mark.parametrize("row", some_of(GOOD))
def test_good_after_all(row, world, zygote):
    result, made = attempt(zygote, world, complete(world, row))
    assert (result.returncode, errors(result)) == (0, "")
    paged = "opened images have several pages" in result.stdout + result.stderr
    assert paged == ("folders/modes" in row)
    assert bool(made) == row.startswith(("train.py", "convert.py"))
