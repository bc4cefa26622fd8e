"""Statements about torch: models, compilation, profiling, and what was read in its sources."""

import contextlib
import io
import signal
import warnings
from pathlib import Path
from typing import Any

import torch

from claimed.claim import claim, folder, in_source, printed, python, raised


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
    x = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    return raised(lambda: x.view(-1), RuntimeError)


@claim(
    "torch",
    "docs/tricks/export.md",
    "`torch.export` treats a dimension of 1 as a constant: do not trace with a batch of one "
    "image.",
)
def _() -> object:
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
    return raised(lambda: torch.cuda.get_device_name())


@claim(
    "torch",
    "template/**/parallel.py.jinja",
    "The threads of DataParallel do not inherit it",
)
def _() -> object:
    import threading

    seen = []

    def look() -> None:
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))

    with torch.autocast("cpu", torch.float16):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert not seen[0][0]
    return "autocast is off in a new thread"


@claim(
    "torch",
    "docs/tricks/activation_checkpointing.md",
    "Pass `use_reentrant=False`. Otherwise there are no gradients behind frozen layers.",
)
def _() -> object:
    from torch.utils.checkpoint import checkpoint

    def trains(reentrant: bool) -> bool:
        frozen, block, head = (torch.nn.Linear(2, 2) for _ in range(3))
        frozen.requires_grad_(False)
        x = frozen(torch.ones(1, 2))
        head(checkpoint(block, x, use_reentrant=reentrant)).sum().backward()
        return block.weight.grad is not None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = trains(True), trains(False)
    assert seen == (False, True)
    return seen


@claim(
    "torch",
    "docs/tricks/compile.md",
    "`model.compile()` works in place, so names have no `_orig_mod.`.",
)
@claim(
    "torch",
    "template/**/loading.py.jinja",
    "torch.compile adds `_orig_mod.`",
)
def _() -> object:
    model = torch.nn.Linear(1, 1)
    model.compile(backend="eager")
    model(torch.ones(1, 1))
    wrapped = torch.compile(model, backend="eager")
    assert list(model.state_dict()) == ["weight", "bias"]
    assert list(wrapped.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    return list(wrapped.state_dict())


@claim(
    "torch",
    "docs/tricks/compile.md",
    "Batches of one image or none, and on a CPU those of fewer than 16, are compiled on their own.",
)
@claim(
    "torch",
    "docs/tricks/latency.md",
    "A compiled model that meets a second batch size is compiled for any size.",
)
@claim(
    "torch",
    "template/**/compilation.py.jinja",
    "By default, torch would compile a static batch size, and again at the first short batch.",
)
@claim(
    "torch",
    "docs/tricks/compile.md",
    "The number of images is a symbol: a short last batch then compiles nothing again",
)
def _() -> object:
    def compilations(mark: bool) -> list[int]:
        counts, count = [], 0

        def backend(graph: Any, inputs: Any) -> Any:
            nonlocal count
            count += 1
            return graph.forward

        torch._dynamo.reset()
        model = torch.compile(torch.nn.Conv2d(3, 4, 3), backend=backend)
        for size in (32, 20, 24, 7, 1):
            x = torch.ones(size, 3, 8, 8)
            if mark:
                torch._dynamo.maybe_mark_dynamic(x, 0)
            model(x)
            counts.append(count)
        return counts

    plain, marked = compilations(False), compilations(True)
    assert (plain, marked) == ([1, 2, 2, 3, 4], [1, 1, 1, 2, 3]), (plain, marked)
    return f"after batches of 32, 20, 24, 7 and 1: {plain}, and {marked} if marked"


@claim(
    "torch",
    "docs/tricks/profiler.md",
    "On a machine without a GPU, torch built for CUDA prints an error to stderr, unless "
    "`KINETO_LOG_LEVEL=99` is set.",
)
def _() -> object:
    code = """
        import torch
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            torch.ones(1) + 1
    """
    loud, quiet = python(code).stderr, python(code, KINETO_LOG_LEVEL="99").stderr
    assert "ERROR" in loud and "ERROR" not in quiet, (loud, quiet)
    return next(line for line in loud.splitlines() if "ERROR" in line)[-110:]


@claim(
    "torch",
    "template/**/profiling.py.jinja",
    "Python crashes if it exits during a trace, as on Ctrl-C.",
)
def _() -> object:
    done = python("""
        import torch
        profiler = torch.profiler.profile()
        profiler.start()
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
        raise SystemExit(130)
    """)
    assert done.returncode == -signal.SIGSEGV, done.returncode
    return f"exit code {done.returncode}"


@claim(
    "torch",
    "docs/tricks/cudnn_benchmark.md",
    "torch times up to ten (`torch.backends.cudnn.benchmark_limit`).",
)
def _() -> object:
    assert torch.backends.cudnn.benchmark_limit == 10
    return torch.backends.cudnn.benchmark_limit


@claim(
    "torch",
    "docs/tricks/channels_last.md",
    "`load_state_dict` keeps the layout of the model. With `assign=True`, `load_state_dict` uses "
    "the layout of the file.",
)
def _() -> object:
    layout = torch.channels_last
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=layout)
    state = torch.nn.Conv2d(3, 4, 3).state_dict()
    model.load_state_dict(state)
    kept = model.weight.is_contiguous(memory_format=layout)
    model.load_state_dict(state, assign=True)
    assigned = model.weight.is_contiguous(memory_format=layout)
    assert (kept, assigned) == (True, False)
    return kept, assigned


@claim(
    "torch",
    "docs/tricks/freeze.md",
    "`requires_grad_(False)` does not stop the statistics of batch-norm.",
)
def _() -> object:
    norm = torch.nn.BatchNorm1d(1).requires_grad_(False)
    norm(torch.tensor([[9.0], [11.0]]))
    assert norm.running_mean.item() == 1
    return f"a mean of 0 became {norm.running_mean.item():.0f}"


@claim(
    "torch",
    "docs/tricks/features.md",
    "An in-place ReLU overwrites the output of the layer before it. A hook must copy the output.",
)
def _() -> object:
    kept = []
    model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU(inplace=True))
    model[0].register_forward_hook(lambda layer, inputs, output: kept.append(output))
    model(torch.tensor([-1.0]))
    assert kept[0].item() == 0
    return "the hook kept 0, not -1"


@claim(
    "torch",
    "docs/tricks/seeding.md",
    "`torch.manual_seed` also seeds every GPU.",
)
@claim(
    "torch",
    "template/**/generators.py",
    "torch.manual_seed() would seed the GPUs too, which are not restored.",
)
def _() -> object:
    return in_source("torch.random", "torch.cuda.manual_seed_all(seed)")


@claim(
    "torch",
    "template/**/seeding.py.jinja",
    "Operations without one raise a RuntimeError.",
)
def _() -> object:
    done = printed("""
        import torch
        torch.use_deterministic_algorithms(True)
        try:
            torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
        except RuntimeError as error:
            print(str(error)[:70])
    """)
    assert "deterministic" in done
    return done


@claim(
    "torch",
    "template/**/latency.py.jinja",
    "Otherwise autocast would cache 16-bit weights over all passes.",
)
def _() -> object:
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        first = layer(x)
        layer.weight.add_(1)
        cached = torch.equal(layer(x), first)
    layer = torch.nn.Linear(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        first = layer(x)
        layer.weight.data.add_(1)
        trained = torch.equal(layer(x), first)
    assert trained
    return f"weights are cached: {trained}, and without gradients: {cached}"


@claim(
    "torch torchvision",
    "docs/tricks/l1.md",
    "The sum of absolute weights is large: 231,000 for a new ResNet-18, beside a loss of about 7.",
)
@claim(
    "torch torchvision",
    "docs/tricks/summary.md",
    "In float32, 128 images of `resnet50` keep 11 GB",
)
def _() -> object:
    from torchvision import models

    weights = [p for p in models.resnet18().parameters() if p.ndim > 1]
    total = sum(weight.abs().sum().item() for weight in weights)
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with torch.device("meta"):
        model = models.resnet50()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(torch.zeros(128, 3, 224, 224))
    size = sum(storage.nbytes() for storage in kept.values()) / 1e9
    assert abs(total - 231_000) < 1000 and 10.5 < size < 11.5, (total, size)
    return f"{total:,.0f}, and {size:.1f} GB"


@claim(
    "torch",
    "docs/tricks/compile.md",
    "torch needs a C++ compiler (`g++`, or `CXX`) on a CPU",
)
def _() -> object:
    with folder() as place:
        done = python(
            """
            import torch
            torch.compile(lambda x: x.sin() + 1)(torch.ones(9))
            """,
            PATH=str(place),
            CXX="",
            TORCHINDUCTOR_CACHE_DIR=str(place),
        )
    assert "compiler" in done.stderr.lower(), done.stderr[-500:]
    return next(line for line in done.stderr.splitlines() if "ompiler" in line)[:100]


# Read in the sources, as the statements need a GPU.


@claim(
    "torch",
    "template/**/compilation.py.jinja",
    "Triton compiles for Volta GPUs and later.",
)
def _() -> object:
    return in_source(
        "torch._inductor.exc", "Triton only supports devices of CUDA Capability >= 7.0"
    )


@claim("torch", "template/**/amp.py.jinja", "torch checks the current device.")
def _() -> object:
    return in_source(
        "torch.cuda",
        "device = torch.cuda.current_device() if "
        "torch.cuda.get_device_properties(device).major >= 8",
    )


@claim(
    "torch",
    "template/**/task.py.jinja",
    "F.cross_entropy on maps adds up in any order on CUDA.",
)
def _() -> object:
    return in_source(
        "torch", "* :class:`torch.nn.NLLLoss` when called on a CUDA tensor"
    )


@claim(
    "torch",
    "template/**/activation_checkpointing.py.jinja",
    "torch does not restore the random state of MPS: dropout would differ.",
)
def _() -> object:
    assert not hasattr(torch.mps, "_initialized")
    return in_source(
        "torch.utils.checkpoint", 'getattr(device_module, "_initialized", False)'
    )


@claim(
    "torch",
    "docs/guides/memory.md",
    "try `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py`.",
)
def _() -> object:
    library = Path(torch.__file__).parent / "lib" / "libc10_cuda.so"
    advice = b"try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert advice in library.read_bytes()
    return advice.decode()


@claim(
    "torch",
    "docs/tricks/pretrained.md",
    "Without internet access, put the file that the error names into `hub/checkpoints` below "
    "`TORCH_HOME` (`~/.cache/torch`).",
)
def _() -> object:
    seen = printed("import torch; print(torch.hub.get_dir())", TORCH_HOME="/a")
    assert seen == "/a/hub"
    return in_source("torch.hub", 'DEFAULT_CACHE_DIR = "~/.cache"')
