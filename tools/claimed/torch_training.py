"""Statements about torch: models, optimizers, mixed precision and compilation."""

import contextlib
import io
import warnings

from claimed.claim import claim, python, raised


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
