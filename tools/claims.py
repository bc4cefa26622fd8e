"""Statements of the documentation and the template about other libraries, each with its test.

    make claims
    make claims CLAIMS=h5py

Each statement is quoted from a file, and tests/repo/test_claims.py compares the quotes. Run it
with new releases: it prints each statement with the versions and what was seen, and exits with
code 1 if one no longer holds. Statements about GPUs need one, and are not here.
"""

import contextlib
import io
import os
import random
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Claim:
    """A statement about a library, quoted from a file."""

    libraries: str
    """Distributions, separated by spaces."""
    file: str
    quote: str
    test: Callable[[], object]
    """Returns what was seen; raises an AssertionError if the statement is wrong."""


CLAIMS: list[Claim] = []


def claim(libraries: str, file: str, quote: str) -> Callable[[Any], Any]:
    """Adds a statement to the list; the function below tests it."""

    def add(test: Callable[[], object]) -> Callable[[], object]:
        CLAIMS.append(Claim(libraries, file, quote, test))
        return test

    return add


def words(text: str) -> str:
    """Returns a text without line breaks and signs of comments and lists."""
    return " ".join(re.sub(r"(?m)^\s*(#|-|\*)\s", " ", text).split())


def read(file: str) -> str:
    """Returns the words of a file; `template/` is for all files below it with that end."""
    start, _, end = file.partition("/**/")
    paths = (ROOT / start).rglob(end) if end else [ROOT / file]
    return " ".join(words(path.read_text(encoding="utf-8")) for path in paths)


def raised(call: Callable[[], object], kind: type[BaseException] = Exception) -> str:
    """Calls a function that must raise an error, and returns the message."""
    try:
        call()
    except kind as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
    raise AssertionError("nothing was raised")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=300,
        check=False,
    )


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yields an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# torch: numbers and tensors


@claim(
    "torch",
    "docs/tricks/class_balance.md",
    "`torch.multinomial` draws from at most 2²⁴ images.",
)
def _() -> object:
    import torch

    torch.multinomial(torch.ones(2**24), 1)
    return raised(lambda: torch.multinomial(torch.ones(2**24 + 1), 1))


@claim(
    "torch",
    "docs/tricks/label_smoothing.md",
    "Other code spreads e over the C − 1 wrong classes, which equals e · C / (C − 1) in torch.",
)
def _() -> object:
    import torch
    from torch.nn import functional as F

    logits, classes, e = torch.randn(8, 5), 5, 0.1
    target = torch.arange(8) % 5
    other = torch.full((8, 5), e / (classes - 1))
    other[range(8), target] = 1 - e
    expected = F.cross_entropy(logits, other)
    got = F.cross_entropy(logits, target, label_smoothing=e * classes / (classes - 1))
    assert torch.allclose(expected, got)
    return f"difference {(expected - got).abs().item():.1e}"


@claim(
    "torch",
    "template/**/task.py.jinja",
    "torch's label_smoothing would use the weights of all classes",
)
def _() -> object:
    import torch
    from torch.nn import functional as F

    logits, target = torch.randn(1, 3), torch.tensor([0])
    options = {"label_smoothing": 0.1, "reduction": "sum"}
    one = F.cross_entropy(
        logits, target, weight=torch.tensor([1.0, 1.0, 1.0]), **options
    )
    two = F.cross_entropy(
        logits, target, weight=torch.tensor([1.0, 9.0, 1.0]), **options
    )
    assert not torch.isclose(one, two)
    return f"the weight of another class moves the loss {one.item():.3f} to {two.item():.3f}"


@claim(
    "torch",
    "docs/recipes/losses.md",
    "`torch.norm` works too, but is deprecated.",
)
def _() -> object:
    import torch

    assert "deprecated" in (torch.norm.__doc__ or "")
    return "its docstring says so"


@claim(
    "torch",
    "docs/recipes/tensors.md",
    "A slice with a negative step, such as a flipped array, has negative strides. "
    "torch has none: copy the array first.",
)
def _() -> object:
    import numpy as np
    import torch

    return raised(lambda: torch.from_numpy(np.arange(4)[::-1]), ValueError)


@claim(
    "torch numpy",
    "docs/recipes/tensors.md",
    "`torch.tensor` refuses such an array too, although it copies.",
)
def _() -> object:
    import numpy as np
    import torch

    return raised(lambda: torch.tensor(np.arange(4)[::-1]), ValueError)


@claim("torch", "docs/recipes/tensors.md", "`torch.tensor` always copies.")
def _() -> object:
    import torch

    x = torch.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.tensor(x).data_ptr() != x.data_ptr()
    return "another address"


@claim(
    "torch",
    "docs/recipes/training.md",
    "Since torch 2.0, gradients are then `None`, not zero.",
)
def _() -> object:
    import torch

    layer = torch.nn.Linear(1, 1)
    layer(torch.ones(1, 1)).sum().backward()
    torch.optim.SGD(layer.parameters()).zero_grad()
    assert layer.weight.grad is None
    return None


# torch: saving and loading


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`weights_only=True` refuses NumPy arrays, `Path` and dataclasses.",
)
def _() -> object:
    import numpy as np
    import torch

    @dataclass
    class Settings:
        lr: float = 0.1

    globals()["Settings"] = Settings
    Settings.__qualname__ = "Settings"
    for value in (np.zeros(2), Path("a"), Settings()):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        seen = raised(lambda f=file: torch.load(f, weights_only=True))
    return seen


@claim(
    "torch",
    "docs/recipes/saving.md",
    "It refuses other types, such as NumPy numbers: save `float(score)`.",
)
def _() -> object:
    import numpy as np
    import torch

    file = io.BytesIO()
    torch.save({"score": np.float32(1)}, file)
    file.seek(0)
    return raised(lambda: torch.load(file))


@claim("torch", "docs/tricks/resume.md", "`torch.load` verifies no checksums.")
def _() -> object:
    import torch

    file = io.BytesIO()
    torch.save(torch.zeros(1000), file)
    data = bytearray(file.getvalue())
    place = data.find(bytes(400)) + 200
    data[place] ^= 1
    loaded = torch.load(io.BytesIO(bytes(data)), weights_only=True)
    assert loaded.count_nonzero() == 1
    return "a flipped bit became a number"


@claim(
    "torch",
    "template/**/checkpoint*.py.jinja",
    "torch.load(weights_only=True) refuses arrays.",
)
def _() -> object:
    import numpy as np
    import torch

    file = io.BytesIO()
    torch.save(np.random.get_state(legacy=False), file)
    file.seek(0)
    return raised(lambda: torch.load(file, weights_only=True))


@claim(
    "torch",
    "template/**/files.py.jinja",
    "torch.save() raises a RuntimeError from the OSError of the file.",
)
def _() -> object:
    seen = python("""
        import resource, signal, tempfile, torch
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with tempfile.TemporaryFile() as file:
            try:
                torch.save(torch.zeros(100_000), file)
            except RuntimeError as error:
                print(type(error.__context__).__name__, error.__context__)
    """)
    assert seen.stdout.startswith("OSError"), seen
    return seen.stdout.strip()


# torch: data loaders


@claim(
    "torch",
    "docs/tricks/resume.md",
    "`iter()` of a loader draws from torch's global generator unless the loader has its own.",
)
def _() -> object:
    import torch
    from torch.utils.data import DataLoader

    def moves(**options: Any) -> bool:
        before = torch.get_rng_state()
        iter(DataLoader([1, 2, 3], **options))
        return not torch.equal(before, torch.get_rng_state())

    assert moves() and not moves(generator=torch.Generator())
    return None


@claim(
    "torch",
    "docs/recipes/data.md",
    "Since torch 1.9, each worker seeds `random`, torch and NumPy's global generator.",
)
def _() -> object:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Draws(Dataset[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[float, float, float]:
            return random.random(), np.random.rand(), torch.rand(()).item()

    rows = list(DataLoader(Draws(), num_workers=2, batch_size=1))
    for one, two in zip(*rows, strict=True):
        assert one.item() != two.item()
    return "two workers drew other numbers from each"


# torch: models and optimizers


@claim(
    "torch",
    "docs/tricks/no_bias_decay.md",
    "torch refuses a weight in two groups, and ignores one in none.",
)
def _() -> object:
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    groups = [{"params": [weight]}, {"params": [weight]}]
    return raised(lambda: torch.optim.SGD(groups), ValueError)


@claim(
    "torch",
    "template/**/optimizer.py.jinja",
    "torch refuses Nesterov without momentum.",
)
def _() -> object:
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    return raised(lambda: torch.optim.SGD([weight], nesterov=True), ValueError)


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "Build the scheduler first, then load: a new scheduler",
)
def _() -> object:
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    optimizer.param_groups[0]["lr"] = 0.3  # Of a loaded state.
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    rate = optimizer.param_groups[0]["lr"]
    assert rate != 0.3
    return f"the rate was 0.3, and became {rate}"


@claim(
    "torch",
    "docs/tricks/amp.md",
    '`GradScaler("cuda")` without a GPU disables itself with a warning.',
)
def _() -> object:
    import torch

    assert not torch.cuda.is_available()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaler = torch.amp.GradScaler("cuda")
    assert not scaler.is_enabled() and caught
    return str(caught[0].message)[:80]


@claim(
    "torch",
    "docs/tricks/ema.md",
    "torch's `AveragedModel` copies all buffers, and with `use_buffers` rounds the count of "
    "batches down.",
)
def _() -> object:
    import torch
    from torch.optim.swa_utils import AveragedModel

    norm = torch.nn.BatchNorm1d(1)
    ema = AveragedModel(norm, use_buffers=True)
    for _ in range(3):
        norm(torch.randn(4, 1))
        ema.update_parameters(norm)
    count = ema.module.num_batches_tracked.item()
    plain = AveragedModel(norm)
    norm(torch.randn(4, 1))
    plain.update_parameters(norm)
    assert torch.equal(plain.module.running_mean, norm.running_mean)
    assert count < 3 and isinstance(count, int)
    return f"after 3 batches the average counts {count}"


@claim(
    "torch",
    "docs/tricks/freeze.md",
    "torch's `update_bn` resets frozen batch-norm",
)
def _() -> object:
    import torch
    from torch.optim.swa_utils import update_bn

    norm = torch.nn.BatchNorm1d(1).requires_grad_(False)
    norm.running_mean.fill_(7)
    update_bn([torch.zeros(4, 1)], torch.nn.Sequential(norm))
    assert norm.running_mean.item() == 0
    return "a mean of 7 became 0"


@claim("torch", "docs/tricks/freeze.md", "AdamW decays it, and momentum moves it.")
def _() -> object:
    import torch

    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.zeros(1)
    torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1).step()
    assert weight.item() < 1
    other = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([other], lr=0.1, momentum=0.9)
    for gradient in (1.0, 0.0):
        other.grad = torch.full((1,), gradient)
        before = other.item()
        optimizer.step()
    assert other.item() != before
    return f"with a gradient of zero: 1 to {weight.item():.2f}, and {before} to {other.item():.2f}"


@claim(
    "torch",
    "docs/tricks/l1.md",
    "AdamW divides the gradient by its size.",
)
def _() -> object:
    import torch

    steps = []
    for scale in (1.0, 1000.0):
        weight = torch.nn.Parameter(torch.zeros(1))
        weight.grad = torch.full((1,), scale)
        torch.optim.AdamW([weight], lr=0.1, weight_decay=0).step()
        steps.append(weight.item())
    assert abs(steps[0] - steps[1]) < 1e-6
    return f"gradients of 1 and 1,000: steps {steps[0]:.4f} and {steps[1]:.4f}"


@claim(
    "torch",
    "docs/tricks/sync_bn.md",
    "`torch.nn.SyncBatchNorm` is for GPUs only.",
)
def _() -> object:
    seen = python("""
        import torch, torch.distributed as dist
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        torch.nn.SyncBatchNorm(2)(torch.zeros(4, 2))
    """)
    assert seen.returncode
    return seen.stderr.strip().splitlines()[-1][:90]


@claim(
    "torch timm",
    "docs/tricks/sync_bn.md",
    "torch's `convert_sync_batchnorm` drops the activation in timm's batch-norm.",
)
def _() -> object:
    import torch
    from timm.layers import BatchNormAct2d

    norm = BatchNormAct2d(2).eval()
    x = torch.randn(4, 2, 3, 3)
    layer = torch.nn.SyncBatchNorm.convert_sync_batchnorm(norm)
    assert norm(x).min() == 0 and layer(x).min() < 0
    return f"the smallest output of 0 becomes {layer(x).min().item():.2f}"


@claim(
    "torch",
    "docs/tricks/activation_checkpointing.md",
    "In a recomputed block, batch-norm updates its running statistics twice",
)
def _() -> object:
    import torch
    from torch.utils.checkpoint import checkpoint

    norm = torch.nn.BatchNorm1d(1)
    x = torch.randn(4, 1, requires_grad=True)
    checkpoint(norm, x, use_reentrant=False).sum().backward()
    assert norm.num_batches_tracked.item() == 2
    return "one batch is counted as 2"


@claim(
    "torch",
    "docs/tricks/summary.md",
    "torch's `FlopCounterMode` has no formula for fused attention on a CPU, and counts 11,271 M "
    "for `vit_b_16`.",
)
def _() -> object:
    import torch
    import torchvision
    from torch.utils.flop_counter import FlopCounterMode

    model = torchvision.models.vit_b_16().eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 224, 224))
    count = counter.get_total_flops() / 2 / 1e6
    assert round(count) == 11271, count
    return f"{count:,.0f} M multiplications"


@claim(
    "torch",
    "docs/tricks/latency.md",
    "`torch.utils.benchmark.Timer` uses one thread by default, and gives no 99th percentile.",
)
def _() -> object:
    from torch.utils import benchmark

    timer = benchmark.Timer("1 + 1")
    measured = timer.timeit(10)
    assert measured.num_threads == 1
    assert not [name for name in dir(measured) if "99" in name or "percentile" in name]
    return f"{measured.num_threads} thread"


@claim(
    "torch",
    "docs/tricks/channels_last.md",
    "`view`, and `torch.nn.utils.parameters_to_vector`, may refuse such tensors.",
)
def _() -> object:
    import torch

    x = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    return raised(lambda: x.view(-1), RuntimeError)


@claim(
    "torch",
    "docs/tricks/export.md",
    "`torch.export` treats a dimension of 1 as a constant: do not trace with a batch of one "
    "image.",
)
def _() -> object:
    import torch

    batch = torch.export.Dim("batch")

    def trace(size: int) -> object:
        x = torch.zeros(size, 3)
        return torch.export.export(
            torch.nn.Linear(3, 2), (x,), dynamic_shapes=({0: batch},)
        )

    trace(2)
    with contextlib.redirect_stderr(io.StringIO()):
        return raised(lambda: trace(1))


@claim(
    "torch",
    "docs/recipes/environment.md",
    "**Trap:** without a GPU, `get_device_name()` raises: check `is_available()` first.",
)
def _() -> object:
    import torch

    return raised(lambda: torch.cuda.get_device_name())


@claim(
    "torch",
    "template/**/parallel.py.jinja",
    "The threads of DataParallel do not inherit it",
)
def _() -> object:
    import threading

    import torch

    seen = []

    def look() -> None:
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))

    with torch.autocast("cpu", torch.float16):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert not seen[0][0]
    return "autocast is off in a new thread"


# torch: processes


@claim(
    "torch",
    "docs/several-processes.md",
    "torchrun sets `OMP_NUM_THREADS=1` unless you set it.",
)
def _() -> object:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    with folder() as place:
        (place / "a.py").write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*command, "--nproc-per-node=2", place / "a.py"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
    assert done.stdout.split() == ["1", "1"], done.stdout
    return done.stdout.split()


@claim(
    "torch",
    "docs/several-processes.md",
    "torchrun gives a process 30 seconds to end, or the seconds in "
    "`TORCH_ELASTIC_SHUTDOWN_TIMEOUT`.",
)
def _() -> object:
    import inspect

    from torch.distributed.launcher import api

    default = '"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"'
    assert default in inspect.getsource(api)
    return default


# torchvision


@claim(
    "torchvision",
    "docs/tricks/timm.md",
    "torchvision has some eighty networks for classification, timm more than a thousand.",
)
def _() -> object:
    import timm
    import torchvision

    ours = len(torchvision.models.list_models(torchvision.models))
    theirs = len(timm.list_models())
    assert 75 <= ours <= 90 and theirs > 1000
    return f"{ours} and {theirs:,}"


@claim(
    "torchvision",
    "docs/recipes/images.md",
    "`torchvision.io.decode_image` reads a file without Pillow, but is deprecated since "
    "torchvision 0.29, in favour of TorchCodec.",
)
def _() -> object:
    import torch
    import torchvision
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "jpeg")
    data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torchvision.io.decode_image(data)
    assert any("TorchCodec" in str(w.message) for w in caught), caught
    return str(caught[0].message)[:80]


@claim(
    "torchvision",
    "docs/tricks/video.md",
    "torchvision's `io.read_video` is gone since 0.28.",
)
def _() -> object:
    import torchvision

    assert not hasattr(torchvision.io, "read_video")
    return None


@claim(
    "torchvision",
    "docs/tricks/device_augment.md",
    "torchvision's transforms crop and mirror a whole batch alike.",
)
def _() -> object:
    import torch
    from torchvision.transforms import v2

    torch.manual_seed(0)
    x = torch.arange(100.0).reshape(1, 1, 10, 10).repeat(8, 1, 1, 1)
    out = v2.Compose([v2.RandomCrop(5), v2.RandomHorizontalFlip()])(x)
    assert (out == out[:1]).all()
    return "eight equal images stay equal"


@claim(
    "torchvision",
    "docs/tricks/augmentation.md",
    "torchvision's rotations with a `fill` darken the edge of the image",
)
def _() -> object:
    import torch
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F

    white = torch.full((3, 32, 32), 200, dtype=torch.uint8)
    turned = F.rotate(
        white, 20, interpolation=InterpolationMode.BILINEAR, fill=[200.0] * 3
    )
    assert turned.min() < 200
    return f"a grey of 200 filled with 200 has {turned.min().item()}"


@claim(
    "torchvision",
    "docs/tasks/your-own-task.md",
    "`tv_tensors.KeyPoints` transforms coordinates, but needs torchvision 0.23 and the size of "
    "the image.",
)
def _() -> object:
    import torch
    from torchvision import tv_tensors

    return raised(lambda: tv_tensors.KeyPoints(torch.zeros(1, 2)), TypeError)


@claim(
    "torchvision",
    "docs/recipes/images.md",
    "The older `torchvision.transforms.ToTensor` does not scale an int32 array either, and "
    "keeps int32.",
)
def _() -> object:
    import numpy as np
    import torch
    from torchvision.transforms import ToTensor

    out = ToTensor()(np.full((2, 2, 3), 255, dtype=np.int32))
    assert out.dtype == torch.int32 and out.max() == 255
    return str(out.dtype)


# timm and segmentation_models_pytorch


@claim(
    "segmentation_models_pytorch timm",
    "docs/tricks/smp.md",
    "Encoders are 76 of the library's own",
)
def _() -> object:
    import segmentation_models_pytorch as smp

    names = smp.encoders.get_encoder_names()
    assert len(names) == 76, len(names)
    return f"{len(names)} names"


@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    "Names that begin with `timm-` are deprecated: use `tu-`.",
)
def _() -> object:
    import segmentation_models_pytorch as smp

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        smp.encoders.get_encoder("timm-mobilenetv3_small_100", weights=None)
    texts = [str(w.message) for w in caught]
    assert any("deprecated" in text and "tu-" in text for text in texts), texts
    return texts[0][:90]


@claim(
    "timm",
    "docs/guides/fine-tune.md",
    "has more than a thousand models.",
)
def _() -> object:
    import timm

    assert len(timm.list_models()) > 1000
    return f"{len(timm.list_models()):,}"


@claim(
    "timm",
    "docs/tricks/timm.md",
    "Swin and MobileViT fail on an empty batch",
)
def _() -> object:
    import timm
    import torch

    timm.create_model("vit_tiny_patch16_224")(torch.zeros(0, 3, 224, 224))
    for name, size in (("swin_tiny_patch4_window7_224", 224), ("mobilevit_xxs", 256)):
        model = timm.create_model(name)
        seen = raised(lambda m=model, s=size: m(torch.zeros(0, 3, s, s)))
    return seen


@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    "`mit_b0` and other transformers fail on an empty batch",
)
def _() -> object:
    import segmentation_models_pytorch as smp
    import torch

    model = smp.Unet("mit_b0", encoder_weights=None)
    return raised(lambda: model(torch.zeros(0, 3, 64, 64)))


@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    '`smp.Unet("resnet34")` itself downloads weights.',
)
def _() -> object:
    import inspect

    import segmentation_models_pytorch as smp

    default = inspect.signature(smp.Unet).parameters["encoder_weights"].default
    assert default == "imagenet"
    return f"encoder_weights={default!r}"


# Data: h5py, Pillow


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "Close the inherited handle before you open the file in a worker: otherwise HDF5 returns the "
    "same descriptor.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import os, h5py
            path = {str(place / "a.h5")!r}
            with h5py.File(path, "w") as file:
                file["x"] = range(10)
            def descriptors():
                links = (os.path.join("/proc/self/fd", n) for n in os.listdir("/proc/self/fd"))
                return sorted(os.path.basename(x) for x in links
                              if os.path.exists(x) and os.readlink(x) == path)
            file = h5py.File(path, "r")
            before = descriptors()
            if os.fork() == 0:
                again = h5py.File(path, "r")
                print(before == descriptors(), flush=True)
                os._exit(0)
            os.wait()
        """)
    assert seen.stdout.split() == ["True"], seen.stdout + seen.stderr
    return "a fork that opens the file again has no second descriptor"


@claim(
    "h5py",
    "docs/tricks/hdf5.md",
    "with h5py 3.16 on Linux, 48,000 reads of two such workers were right.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import os, h5py, numpy as np
            path = {str(place / "a.h5")!r}
            rows = np.arange(1000 * 64).reshape(1000, 64)
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=rows, chunks=(10, 64))
            images = h5py.File(path, "r")["x"]
            images[0]
            for seed in range(2):
                if os.fork() == 0:
                    random = np.random.default_rng(seed)
                    order = random.integers(1000, size=24_000)
                    wrong = sum(not (images[int(i)] == rows[i]).all() for i in order)
                    print(wrong, flush=True)
                    os._exit(0)
            os.wait(), os.wait()
        """)
    assert seen.stdout.split() == ["0", "0"], seen
    return "no wrong row"


@claim("h5py", "docs/tricks/hdf5.md", "A handle cannot be pickled for spawned workers.")
def _() -> object:
    import pickle

    import h5py

    with folder() as place, h5py.File(place / "a.h5", "w") as file:
        return raised(lambda: pickle.dumps(file), TypeError)


@claim(
    "pillow",
    "docs/tricks/folders.md",
    "Of TIFFs with several pages, and of animations, only the first page is read.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    file = io.BytesIO()
    pages = [Image.new("L", (2, 2), value) for value in (10, 20)]
    pages[0].save(file, "tiff", save_all=True, append_images=pages[1:])
    seen = int(np.asarray(Image.open(file))[0, 0])
    assert seen == 10
    return f"the first page has {seen}"


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow has turned a TIFF already.",
)
def _() -> object:
    from PIL import Image

    file = io.BytesIO()
    image = Image.new("L", (4, 2))
    image.save(file, "tiff", tiffinfo={274: 6})
    opened = Image.open(file)
    opened.load()
    assert opened.size == (2, 4)
    return f"(4, 2) with orientation 6 is {opened.size}"


@claim(
    "h5py",
    "docs/recipes/data.md",
    "`swmr=True`, for a file that another process writes, needs mode `r`; in other modes h5py "
    "warns and ignores it.",
)
def _() -> object:
    import h5py

    with folder() as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with h5py.File(place / "a.h5", "w", swmr=True) as file:
            assert not file.swmr_mode
    assert caught
    return str(caught[0].message)[:80]


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow would clip: all values from 255 to 65535 would be white.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    grey = Image.fromarray(np.array([[100, 255, 30000]], dtype=np.uint16))
    seen = np.asarray(grey.convert("L")).tolist()
    assert seen == [[100, 255, 255]], seen
    return f"100, 255, 30000 become {seen[0]}"


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow reads the upper 8 bits of colours: the others are unknown.",
)
def _() -> object:
    import struct
    import zlib

    from PIL import Image

    def chunk(name: bytes, data: bytes) -> bytes:
        whole = name + data
        return (
            struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))
        )

    rows = b"\0" + struct.pack(">3H", 0x1234, 0x00FF, 0xFF00)
    png = b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">2I5B", 1, 1, 16, 2, 0, 0, 0)
    )
    png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    image = Image.open(io.BytesIO(png))
    assert image.mode == "RGB" and image.getpixel((0, 0)) == (0x12, 0, 0xFF)
    return image.getpixel((0, 0))


@claim(
    "pillow",
    "docs/recipes/images.md",
    "a cast without clipping wraps around, and Pillow refuses three channels of floats.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    return raised(lambda: Image.fromarray(np.zeros((2, 2, 3), np.float32)), TypeError)


@claim(
    "pillow",
    "docs/data.md",
    "JPEG (`.jpg`, `.jfif`), PNG, WebP, TIFF, BMP, GIF, AVIF, JPEG 2000, PPM and TGA.",
)
def _() -> object:
    from PIL import Image, features

    Image.init()
    for name in (
        "jpg",
        "jfif",
        "png",
        "webp",
        "tif",
        "bmp",
        "gif",
        "avif",
        "jp2",
        "ppm",
        "tga",
    ):
        assert Image.EXTENSION[f".{name}"] in Image.OPEN, name
    assert (
        features.check("avif") and features.check("webp") and features.check("jpg_2000")
    )
    return None


# Metrics


@claim(
    "scikit-learn",
    "docs/tasks/regression.md",
    "If all targets are the same, `r2` is 1 for exact predictions and else 0, as in "
    "scikit-learn.",
)
def _() -> object:
    from sklearn.metrics import r2_score

    seen = r2_score([3, 3, 3], [3, 3, 3]), r2_score([3, 3, 3], [3, 3, 4])
    assert seen == (1, 0), seen
    return seen


@claim(
    "scikit-learn",
    "template/**/class_metrics.py",
    "As in scikit-learn, the balanced accuracy is the mean recall of classes with images.",
)
def _() -> object:
    from sklearn.metrics import balanced_accuracy_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = balanced_accuracy_score([0, 0, 1], [0, 2, 1])
    assert seen == 0.75, seen
    return seen


@claim(
    "scikit-learn",
    "docs/tricks/metrics.md",
    "A class without images counts with 0 if it is predicted, as in scikit-learn.",
)
def _() -> object:
    from sklearn.metrics import f1_score

    seen = f1_score([0, 0, 1], [0, 2, 1], average="macro", zero_division=0)
    assert abs(seen - (2 / 3 + 1 + 0) / 3) < 1e-12, seen
    return f"{seen:.4f}"


@claim(
    "scikit-learn",
    "docs/tasks/multilabel.md",
    "the average precision is that of scikit-learn for the numbers of the bins.",
)
def _() -> object:
    import torch
    from sklearn.metrics import average_precision_score

    path = "template/{{ task_is.multilabel }}/{{ package_name }}/average_precision.py"
    module = runpy.run_path(str(ROOT / path))
    logits, there = torch.randn(2000, 1) / 10 + 7, torch.rand(2000, 1) < 0.05
    ours = module["average_precisions"](module["count_scores"](logits, there)).item()
    bins = module["bin_of"](logits)
    theirs = average_precision_score(there[:, 0], bins[:, 0])
    exact = average_precision_score(there[:, 0], logits[:, 0])
    assert abs(ours - theirs) < 1e-6
    return f"{ours:.4f}, and {exact:.4f} of the logits"


# Trackers and search


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "The sampler of Optuna 5 avoids values near running trials.",
)
def _() -> object:
    import inspect

    import optuna

    sampler = inspect.signature(optuna.samplers.TPESampler).parameters
    assert sampler["constant_liar"].default is True
    return "constant_liar=True"


@claim(
    "optuna",
    "docs/tricks/sweep.md",
    "Optuna samples the next settings near good ones (TPE).",
)
def _() -> object:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.create_study().sampler
    assert type(sampler).__name__ == "TPESampler"
    return type(sampler).__name__


@claim(
    "tensorboard torch",
    "docs/tricks/tensorboard.md",
    "TensorBoard smooths curves, and keeps 10 images and 500 histograms of a tag.",
)
def _() -> object:
    from tensorboard.plugins.histogram import histograms_plugin
    from tensorboard.plugins.image import images_plugin

    plugins = images_plugin, histograms_plugin
    found = [plugin._DEFAULT_DOWNSAMPLING for plugin in plugins]
    assert found == [10, 500], found
    return found


@claim(
    "mlflow-skinny",
    "docs/tricks/mlflow.md",
    "MLflow refuses to change a parameter.",
)
def _() -> object:
    with folder() as place:
        seen = python(f"""
            import mlflow
            mlflow.set_tracking_uri("sqlite:///{place}/a.db")
            with mlflow.start_run():
                mlflow.log_param("lr", 1)
                mlflow.log_param("lr", 2)
        """)
    assert (
        seen.returncode
        and "changing" in seen.stderr.lower()
        or "Changing" in seen.stderr
    )
    return [line for line in seen.stderr.splitlines() if "hanging" in line][-1][:90]


@claim(
    "wandb",
    "docs/tricks/wandb.md",
    "W&B drops a step below the last one",
)
def _() -> object:
    with folder() as place:
        seen = python(
            f"""
            import wandb
            run = wandb.init(mode="offline", dir={str(place)!r})
            run.log({{"a": 1}}, step=5)
            run.log({{"a": 2}}, step=4)
            run.log({{"a": 3}}, step=6)
            run.finish()
            """,
            WANDB_SILENT="false",
        )
    # A bar for each point of the curve.
    points = re.findall(r"wandb: a (\S+)\n", seen.stderr)[0]
    assert len(points) == 2, seen.stderr
    return "two of the steps 5, 4 and 6 are kept"


# Command line and others


@claim(
    "numpy",
    "docs/recipes/tensors.md",
    "In NumPy, a flip is a view.",
)
def _() -> object:
    import numpy as np

    x = np.arange(4)
    assert np.shares_memory(np.flip(x), x)
    return None


@claim(
    "torch",
    "docs/resuming.md",
    "SIGUSR1, SIGUSR2 and SIGXCPU kill torchrun itself.",
)
def _() -> object:
    seen = []
    with folder() as place:
        (place / "a.py").write_text(
            "import time; print('up', flush=True); time.sleep(60)"
        )
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            process = subprocess.Popen(
                [*command, "--nproc-per-node=1", str(place / "a.py")],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            try:
                assert process.stdout is not None and process.stdout.readline()
                process.send_signal(number)
                seen.append(process.wait(20))
                assert seen[-1] == -number, seen
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    return f"exit codes {seen}"


def main(words_asked: list[str]) -> int:
    """Tests the statements whose file, quote or library contains one of the words."""
    wrong = 0
    for each in CLAIMS:
        text = f"{each.libraries} {each.file} {each.quote}".lower()
        if words_asked and not any(word.lower() in text for word in words_asked):
            continue
        versions = ", ".join(f"{n} {version(n)}" for n in each.libraries.split())
        try:
            seen = each.test()
            state = "holds"
        except Exception as error:  # noqa: BLE001 - of any library
            state, wrong = "WRONG", wrong + 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            seen = f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})"
        print(f"{state}  {each.quote}\n       {each.file}; {versions}", flush=True)
        if seen is not None:
            print(f"       seen: {seen}", flush=True)
    print(f"{wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
