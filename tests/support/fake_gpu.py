"""Trains a project on a GPU that is not there, and tells what its loop did with it.

Tensors of a GPU are fake: torch's FakeTensorMode knows their shapes, types and layouts,
by the rules of CUDA and of its autocast, and computes nothing. Those of the CPU are real.

Run it in a project, as `fake_gpu.py SETTINGS`, where SETTINGS is a JSON object of which
those are taken that the project has. The last line is a JSON object, `Findings`.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration, checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

SCRIPT = str(Path(__file__))

CPU, DEVICE = torch.device("cpu"), torch.device("cuda:0")

aten, prim = torch.ops.aten, torch.ops.prim

COPIES = (aten._to_copy.default, aten.copy_.default)

RUN = {
    "data": "shapes",
    "image_size": 16,
    "epochs": 2,
    "batch_size": 6,
    "num_workers": 0,
    "device": str(DEVICE),
    "log_every": 10**6,
}


@dataclass
class Findings:
    """Observations in two epochs, each with an evaluation."""

    batches: dict[str, int] = field(default_factory=dict)
    """Batches of each pass over images, such as `train_batches 0`, the pass of the first epoch.
    Windows are counted for `train_windows`."""
    waits: list[tuple[str, int, str]] = field(default_factory=list)
    """Waits of the CPU for the GPU: the pass, the number of its batch from 0, and the operation
    with its place. Nothing is noted outside of the passes."""
    copies: dict[str, int] = field(default_factory=dict)
    """Copies to the GPU in each pass that nothing waits for."""
    steps: int = 0
    """Optimizer steps."""
    losses: set[str] = field(default_factory=set)
    """Types of the losses, and of the tensors that they are computed from."""
    convolutions: set[str] = field(default_factory=set)
    """Types of the images that convolutions get."""
    layouts: dict[str, list[bool]] = field(default_factory=dict)
    """Whether images, and what belongs to convolutions, are in channels_last."""
    streams: int = 0
    """How many were made."""


class FakeGPU(TorchDispatchMode):
    """Gives what happens on a GPU to FakeTensorMode, and notes what waits for it."""

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = project
        self.found = Findings()
        self.place: tuple[str, int] | None = None
        self.fake = FakeTensorMode()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") == CPU and engine_asks():
            kwargs = kwargs | {"device": DEVICE}  # What it was told to be the CPU.
        if not any(map(is_on_gpu, tree_leaves((args, kwargs)))):
            return func(*args, **kwargs)
        if func is prim.device.default and engine_asks():
            return CPU  # Then it looks for no streams.
        if func is aten._local_scalar_dense.default:
            self.note("read")
            return 0.0 if args[0].is_floating_point() else 1
        if func is aten._fused_sgd_.default:
            return None  # FakeTensorMode does not know it. It changes no shapes.
        with self.fake:
            args, kwargs = tree_map_only(Tensor, faked, (args, kwargs))
            result = func(*args, **kwargs)
        if func in COPIES:
            self.note_copy(func, args, kwargs, result)
        if func is aten._log_softmax.default:
            self.found.losses.add(str(args[0].dtype))
        if func is aten.convolution.default:
            self.found.convolutions.add(str(args[0].dtype))
        return result

    def note_copy(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        """Notes a copy to the CPU, which waits, or from it, which may do without."""
        source = args[1] if func is aten.copy_.default else args[0]
        if source.device == DEVICE and result.device == CPU:
            self.note("copy to the CPU")
        elif source.device == CPU and result.device == DEVICE and source.ndim:
            if not (kwargs.get("non_blocking") or args[2:3] == (True,)):
                self.note("blocking copy")
            elif self.place is not None:
                name, _ = self.place
                self.found.copies[name] = self.found.copies.get(name, 0) + 1

    def note(self, what: str) -> None:
        """Notes what waits, and the line of the project that does it."""
        if self.place is None:
            return
        for frame, line in walk_stack(sys._getframe()):
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(self.project):
                name = path.relative_to(self.project)
                what += f", {name}:{line} {frame.f_code.co_name}"
                break
        self.found.waits.append((*self.place, what))

    def watched(self, name: str, batches: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that yields the same batches, and notes which is in use."""

        def watched_batches(*args: Any) -> Iterator[Any]:
            passes = sum(other.startswith(name) for other in self.found.batches)
            key, count = f"{name} {passes}", 0
            self.place = (key, count)
            for batch in batches(*args):
                yield batch
                count += 1
                self.place = (key, count)
            self.place = None
            self.found.batches[key] = count

        return watched_batches

    def note_layouts(self, name: str, tensors: list[Tensor]) -> None:
        """Notes the layouts of tensors whose shape leaves a choice."""
        last = [
            tensor.is_contiguous(memory_format=torch.channels_last)
            for tensor in tensors
            if tensor.ndim == 4 and tensor.shape[1] > 1 and tensor.shape[2] > 1
        ]
        self.found.layouts.setdefault(name, []).extend(last)


def engine_asks() -> bool:
    """Returns whether autograd's engine runs, and no block that is computed again."""
    if torch._C._current_graph_task_id() == -1:
        return False
    frames = walk_stack(sys._getframe())
    return all(frame.f_code.co_filename != checkpoint.__file__ for frame, _ in frames)


def is_on_gpu(argument: Any) -> bool:
    """Returns whether an operator with such an argument runs on the GPU."""
    if isinstance(argument, torch.device):
        return argument == DEVICE
    return isinstance(argument, FakeTensor)


def faked(tensor: Tensor) -> Tensor:
    """Returns a fake in the place of a tensor of the CPU; call it in FakeTensorMode."""
    if isinstance(tensor, FakeTensor):
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def register_devices() -> None:
    """Lets gradients be computed on a GPU that is not there.

    In the place of CUDA's guard torch has one that does nothing; it takes it by itself in
    FakeTensorMode. The engine of autograd asks the accelerator for its streams: here one
    that has none, and not CUDA, which would look for a driver.
    """
    module = backend_registration._DummyBackendModule()
    module.is_available = lambda: False
    backend_registration._setup_privateuseone_for_python_backend("absent", module)
    torch._C._ensureCUDADeviceGuardSet()
    # Else torch.tensor(..., device=...) would go to the GPU unseen.
    torch._C._set_only_lift_cpu_tensors(True)


@contextmanager
def patched(gpu: FakeGPU) -> Iterator[None]:
    """Puts what asks a driver, and no operator, out of the way. A stream orders nothing."""
    state, move = torch.get_rng_state(), nn.Module.to

    def move_once(model: nn.Module, *to: Any, **options: Any) -> nn.Module:
        # Fake weights refuse to move, even to where they are.
        there = any(isinstance(weight, FakeTensor) for weight in model.parameters())
        return model if there else move(model, *to, **options)

    names = ("_lazy_init", "Stream", "current_stream", "stream", "set_rng_state")
    with (
        mock.patch.object(torch.accelerator, "is_available", lambda: False),  # No pins.
        mock.patch.multiple(
            torch.cuda,
            get_device_name=lambda *_: "fake",
            get_rng_state=lambda *_: state,
            is_bf16_supported=lambda *_: True,
            **dict.fromkeys(names, mock.DEFAULT),
        ) as mocks,
        mock.patch.object(
            torch.cuda.amp.common, "amp_definitely_not_available", lambda: False
        ),
        mock.patch.object(nn.Module, "to", move_once),
        mock.patch.object(Tensor, "record_stream"),
    ):
        yield
        gpu.found.streams = mocks["Stream"].call_count


def main(wanted: dict[str, Any]) -> None:
    from leaf_diseases import environment

    environment.choose_device = torch.device  # Before train.py imports it.
    import train

    warnings.filterwarnings("ignore", "'pin_memory' argument")
    register_devices()
    gpu = FakeGPU(Path.cwd())
    with tempfile.TemporaryDirectory() as directory, patched(gpu), gpu:
        settings = make_settings(wanted, Path(directory))
        watch(gpu, train)
        train.main(settings)
    print(json.dumps(asdict(gpu.found), default=sorted))


def make_settings(wanted: dict[str, Any], directory: Path) -> Any:
    """Returns those of the settings that the project has, with a teacher if it has one."""
    from leaf_diseases.data import datasets, transforms
    from leaf_diseases.models import networks
    from leaf_diseases.settings import Settings

    fields, sides = Settings.model_fields, (RUN["image_size"],) * 2
    model = fields["model"].default
    values = RUN | wanted | {"model": model, "run_dir": directory / "run"}
    if "teacher" in fields:
        prepared = transforms.Preprocessing(sides, sides, *[(0.5,) * 3] * 2)
        outputs = len(datasets.Shapes(False, sides).names)
        teacher = networks.build_model(model, outputs, prepared)
        torch.save(teacher.state_dict(), directory / "teacher.pt")
        values |= {"teacher": directory / "teacher.pt", "teacher_model": model}
    return Settings(**{name: values[name] for name in fields.keys() & values.keys()})


def watch(gpu: FakeGPU, train: ModuleType) -> None:
    """Lets the run be watched that is made next: its passes, losses and layouts."""
    from leaf_diseases import evaluation
    from leaf_diseases.models import weights

    train.write_samples = lambda *_: None
    for name in ("save_checkpoint", "save_weights"):
        for module in (train, weights):
            setattr(module, name, lambda *_: None)  # There is nothing to be saved.
    evaluation.write_report = lambda *_: None  # Fake numbers have no pictures.
    windows = hasattr(train, "train_windows")  # They read train_batches.
    trained = "train_windows" if windows else "train_batches"
    for module, name in (
        (train, trained),
        (evaluation, "plain_inputs"),
        (evaluation, "on_device"),
    ):
        if hasattr(module, name):
            setattr(module, name, gpu.watched(name, getattr(module, name)))
    make_run, backward = train.make_run, Tensor.backward

    def make_watched_run(*args: Any) -> Any:
        run = make_run(*args)
        if hasattr(run, "event_files"):
            run.event_files.add_epoch = lambda *_: None
        watch_layouts(gpu, run)
        return run

    def note_loss(loss: Tensor, *args: Any, **kwargs: Any) -> None:
        gpu.found.losses.add(str(loss.dtype))
        backward(loss, *args, **kwargs)

    train.make_run, Tensor.backward = make_watched_run, note_loss


def watch_layouts(gpu: FakeGPU, run: Any) -> None:
    """Notes the layouts of images, and at each step of gradients, momenta and averages."""

    def note_images(model: nn.Module, inputs: tuple[Tensor]) -> None:
        gpu.note_layouts("images", [inputs[0]])

    def note_gradients(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        weights = run.model.parameters()
        gpu.note_layouts("gradients", [w.grad for w in weights if w.grad is not None])

    def note_state(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        gpu.found.steps += 1
        states = [list(state.values()) for state in optimizer.state.values()]
        gpu.note_layouts("momenta", tree_leaves(states))
        for name, part in vars(run).items():
            average = getattr(part, f"{name}_model", None)
            if isinstance(average, nn.Module):
                gpu.note_layouts(name, list(average.parameters()))

    run.model.register_forward_pre_hook(note_images)
    run.optimizer.register_step_pre_hook(note_gradients)
    run.optimizer.register_step_post_hook(note_state)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
