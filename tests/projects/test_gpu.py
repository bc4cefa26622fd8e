"""The covering array on a CUDA device.

A machine with a GPU need not have Copier: TORCH_TRICKS_RENDERED names a directory that
`python tests/support/rendering.py DIRECTORY` has filled.
"""

import json
import math
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from processes import call, call_any

NO_ERRORS = (
    # Of torch itself, up to 2.8: as it saves sharded checkpoints.
    "TypedStorage is deprecated",
    # Of torchvision 0.29, as it decodes images.
    "The image decoding",
    # Up to 2.13: as it compiles for a GPU that could do with less precision.
    "TensorFloat32 tensor cores",
    # Of torch 2.11, as it imports its compiler.
    "`torch.jit.script_method` is deprecated",
)

RENDERED = os.environ.get("TORCH_TRICKS_RENDERED")

ANSWER = re.compile(r"^(?:- |parallel: )(\w+)$", re.MULTILINE)
"""A trick, or the form of `parallel`, in the answers file of a project."""

if RENDERED:
    files = sorted(Path(RENDERED).glob("*/.copier-answers.yml"))
    TRICKS = {
        path.parent.name: set(ANSWER.findall(path.read_text(encoding="utf-8")))
        for path in files
    }
else:
    import rendering
    from subsets import subsets_for_gpu

    SUBSETS = {str(subset): subset for subset in subsets_for_gpu()}
    TRICKS = {row: subset.chosen for row, subset in SUBSETS.items()}

ROWS = list(TRICKS)

FLAGS = ("--device", "cuda", "--image-size", 16, "--num-workers", 2, "--log-every", 1)


@cache
def cuda_is_available() -> bool:
    """Asks another process, because CUDA does not survive in the forks of this one."""
    program = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return call_any(sys.executable, "-c", program).returncode == 0


pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def cuda():
    if not cuda_is_available():
        pytest.skip("torch.cuda finds no device")


@pytest.fixture
def project_of(tmp_path):
    """Renders a row, or returns where it has been rendered."""

    def project(row: str) -> Path:
        if RENDERED:
            return Path(RENDERED, row).absolute()
        return rendering.render_subset(tmp_path / f"project {row}", SUBSETS[row])

    return project


def rows_with(*tricks: str) -> list[str]:
    rows = [row for row in ROWS if TRICKS[row].issuperset(tricks)]
    assert rows, f"no row has {tricks}"
    return rows


def python(directory: Path, *arguments: object) -> str:
    """Runs Python in a directory, with warnings as errors, and returns what it prints."""
    ignored = [word for begin in NO_ERRORS for word in ("-W", f"ignore:{begin}")]
    options = ("-W", "error", *ignored)
    return call(sys.executable, *options, *arguments, cwd=directory)


def train(row: str, project: Path, run: Path, *flags: object) -> list[dict]:
    """Trains on the GPU and returns the lines of metrics, which must be finite."""
    swa = ("--swa-start", 0.5) if "swa" in TRICKS[row] else ()
    python(project, "train.py", *FLAGS, *swa, "--run-dir", run, *flags)
    text = (run / "metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert math.isfinite(line["train_loss"])
        assert math.isfinite(line["val_loss"])
    return lines


@pytest.mark.parametrize("row", ROWS)
def test_a_row_trains(row, project_of, tmp_path):
    lines = train(row, project_of(row), tmp_path / "run", "--epochs", 2)
    assert lines[-1]["val_loss"] < lines[0]["train_loss"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("row", rows_with("amp"))
def test_mixed_precision(row, dtype, project_of, tmp_path):
    flags = ("--amp-dtype", dtype, "--epochs", 2)
    lines = train(row, project_of(row), tmp_path / "run", *flags)
    assert lines[-1]["val_loss"] < lines[0]["train_loss"]


TOOLS = {"evaluate", "predict", "features", "export", "latency"}


@pytest.mark.parametrize("row", rows_with(*TOOLS))
def test_a_run_is_used(row, project_of, tmp_path):
    """By all scripts, on the device that each chooses."""
    from PIL import Image

    project, run = project_of(row), tmp_path / "run"
    lines = train(row, project, run, "--epochs", 2)
    weights, photo = run / "model.pt", tmp_path / "photo.png"
    found = json.loads(python(project, "evaluate.py", weights, "--json"))
    values = {name.removeprefix("val_"): value for name, value in lines[-1].items()}
    shared = found.keys() & values.keys()
    assert "loss" in shared
    for name in shared:
        assert found[name] == pytest.approx(values[name], rel=1e-2, abs=1e-3), name
    if "calibration" in TRICKS[row]:
        python(project, "calibrate.py", weights)
    if "errors" in TRICKS[row]:
        python(project, "errors.py", weights)
    Image.effect_noise((40, 30), 50).convert("RGB").save(photo)
    for script in ("predict.py", "features.py"):
        python(tmp_path, project / script, photo, "--weights", weights)
    # Exporters warn of what they do.
    python(tmp_path, "-W", "default", project / "export.py", weights)
    python(tmp_path, project / "latency.py", "--weights", weights, "--seconds", 0.2)


COMPARE_BATCHES = """
import torch
from leaf_diseases.data.datasets import load_data
from leaf_diseases.data.loaders import make_val_loader
from leaf_diseases.data.prefetcher import prefetch
from leaf_diseases.settings import Settings

device = torch.device("cuda")
settings = Settings(image_size=16, batch_size=100, num_workers=2)
loader = make_val_loader(load_data(settings).val, settings, device)
assert loader.pin_memory
count = 0
for plain, fetched in zip(list(loader), prefetch(loader, device), strict=True):
    for name in ("inputs", "targets"):
        copy = getattr(fetched, name)
        assert copy.device.type == "cuda"
        assert torch.equal(getattr(plain, name), copy.cpu())
    count += len(plain.inputs)
assert count == len(loader.dataset)
"""


# Loaders with ranks need a process group; the prefetcher is the same.
@pytest.mark.parametrize(
    "row", [row for row in rows_with("prefetcher") if not TRICKS[row] & {"ddp", "fsdp"}]
)
def test_prefetched_batches_are_the_loaders(row, project_of):
    python(project_of(row), "-c", COMPARE_BATCHES)


@pytest.mark.parametrize("row", rows_with("seeding", "resume"))
def test_a_deterministic_run_resumes_to_equal_bits(row, project_of, tmp_path):
    project = project_of(row)
    flags = ("--deterministic", "--epochs", 2, "--checkpoint-every", 20)
    if "cudnn_benchmark" in TRICKS[row]:
        flags += ("--no-cudnn-benchmark",)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(row, project, whole, *flags, "--keep-checkpoints", 99)
    # In the middle of the first epoch, which has 63 or 64 optimizer steps.
    [middle] = whole.glob("checkpoints/step-00000020*")
    train(row, project, resumed, *flags, "--resume", middle)
    weights = sorted(path.name for path in whole.glob("*.pt"))
    assert "model.pt" in weights
    for name in weights:
        assert (whole / name).read_bytes() == (resumed / name).read_bytes(), name


TRAIN_MODEL = """
import sys
from contextlib import nullcontext
from pathlib import Path

sys.path[:0] = [".", "tests"]
import torch
import train
from leaf_diseases.data.transforms import TransformedDataset
from leaf_diseases.models import networks
from leaf_diseases.settings import Settings
from small_world import build_linear_model
from torch import nn


def build_norm_model(name, outputs, example):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * (example.shape[-1] - 2) ** 2, outputs),
    )


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
load_data = train.load_data


def load_plain(settings, **options):
    data = load_data(settings, **options)
    prepared = data.preprocessing.transform(), data.preprocessing
    plain = {"train": TransformedDataset(data.train.dataset, *prepared)}
    if hasattr(data, "augment"):
        plain["augment"] = type(data.augment)()
    return data._replace(**plain)


train.load_data = load_plain
networks.build_model = {"linear": build_linear_model, "norm": build_norm_model}[sys.argv[2]]
flags = {"image_size": 8, "max_steps": 70, "num_workers": 0}
settings = Settings(device="cuda", run_dir=Path(sys.argv[1]), **flags)
group = nullcontext()
if hasattr(train, "process_group"):
    group = train.process_group(settings.device, settings.timeout)
with group:
    train.main(settings)
"""
"""Draws nothing after its first weights, so that all can be compared."""


def train_model(model: str, project: Path, run: Path, *launcher: object) -> dict:
    """Trains into the second epoch, and returns the weights on the CPU."""
    import torch

    script = run.with_suffix(".py")
    script.write_text(TRAIN_MODEL, encoding="utf-8")
    python(project, *launcher, script, run, model)
    return torch.load(run / "model.pt", map_location="cpu", weights_only=True)


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_one_gpu_does_the_same_with_and_without_ranks(form, project_of, tmp_path):
    import torch

    plain = train_model("linear", project_of("seeding"), tmp_path / "none")
    ranks = train_model("linear", project_of(f"seeding-{form}"), tmp_path / form)
    torch.testing.assert_close(ranks, plain, rtol=1e-9, atol=1e-12)


def train_on_one_and_two(model, project, directory):
    """Returns the weights of the same run on one GPU and on two."""
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("torch.cuda finds fewer than two devices")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    one = train_model(model, project, directory / "one")
    return one, train_model(model, project, directory / "two", *launcher)


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_two_gpus_follow_one(form, project_of, tmp_path):
    import torch

    one, two = train_on_one_and_two("linear", project_of(f"seeding-{form}"), tmp_path)
    torch.testing.assert_close(two, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["ddp", "fsdp"])
def test_batch_norm_on_two_gpus_is_that_of_one(form, project_of, tmp_path):
    """Into the second epoch, with weights of float32: Adam amplifies rounding."""
    import torch

    project = project_of(f"seeding-sync_bn-{form}")
    one, two = train_on_one_and_two("norm", project, tmp_path)
    torch.testing.assert_close(two, one, rtol=1e-2, atol=1e-3)
