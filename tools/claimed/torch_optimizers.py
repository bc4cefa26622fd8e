"""Statements about torch: optimizers, schedules, loss scaling and averages."""

import warnings
from typing import Any

import torch

from claimed.claim import claim, in_source, raised


@claim(
    "torch",
    "docs/tricks/no_bias_decay.md",
    "torch refuses a weight in two groups, and ignores one in none.",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.zeros(1))
    groups = [{"params": [weight]}, {"params": [weight]}]
    return raised(lambda: torch.optim.SGD(groups), ValueError)


@claim(
    "torch",
    "template/**/optimizer.py.jinja",
    "torch refuses Nesterov without momentum.",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.zeros(1))
    return raised(lambda: torch.optim.SGD([weight], nesterov=True), ValueError)


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "Build the scheduler first, then load: a new scheduler",
)
def _() -> object:
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
    from torch.optim.swa_utils import update_bn

    norm = torch.nn.BatchNorm1d(1).requires_grad_(False)
    norm.running_mean.fill_(7)
    update_bn([torch.zeros(4, 1)], torch.nn.Sequential(norm))
    assert norm.running_mean.item() == 0
    return "a mean of 7 became 0"


@claim("torch", "docs/tricks/freeze.md", "AdamW decays it, and momentum moves it.")
def _() -> object:
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
    "docs/tricks/schedule.md",
    "`OneCycleLR(total_steps=...)` counts optimizer steps, and raises an error after the last. "
    "`OneCycleLR` also cycles the momentum",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=4)
    momenta = set()
    for _ in range(4):
        optimizer.step()
        scheduler.step()
        momenta.add(optimizer.param_groups[0]["momentum"])
    assert len(momenta) > 1
    return raised(scheduler.step, ValueError)


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "`SequentialLR` stores the number of steps of each part, so a run cannot get more epochs. "
    "`ReduceLROnPlateau` cannot be a part.",
)
def _() -> object:
    schedules = torch.optim.lr_scheduler
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    def make(end: int, last: Any) -> Any:
        return schedules.SequentialLR(
            optimizer, [schedules.ConstantLR(optimizer), last], [end]
        )

    short = make(2, schedules.CosineAnnealingLR(optimizer, 10))
    longer = make(4, schedules.CosineAnnealingLR(optimizer, 20))
    longer.load_state_dict(short.state_dict())
    seen = longer._milestones, longer._schedulers[1].T_max
    assert seen == ([2], 10)
    raised(lambda: make(2, schedules.ReduceLROnPlateau(optimizer)), ValueError)
    return f"4 and 20 steps became {seen}"


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "With the default `threshold`, a loss that falls by less than a ten-thousandth counts as "
    "stalled.",
)
def _() -> object:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    bad = []
    for loss in (1.0, 0.99985, 0.9998, 0.99971, 0.99966):
        scheduler.step(loss)
        bad.append(scheduler.num_bad_epochs)
    assert bad == [0, 0, 1, 0, 1], bad
    return bad


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "Call `optimizer.step()` before `scheduler.step()`",
)
def _() -> object:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler.step()
    return str(caught[0].message)[:80]


@claim(
    "torch",
    "docs/tricks/layerwise_lr.md",
    "`OneCycleLR` and `SWALR` need a list of rates.",
)
def _() -> object:
    groups = [
        {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate}
        for rate in (0.1, 1)
    ]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    schedules = (
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 2.0, total_steps=9),
        torch.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=1),
    )
    for scheduler in schedules:
        optimizer.step()
        scheduler.step()
        scheduler.step()
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates[0] == rates[1], rates
    return "one number gives all groups the same rate"


@claim(
    "torch",
    "docs/tricks/layerwise_lr.md",
    'The keys of a group are `params` and `lr`. `{"model": …}` is a KeyError.',
)
def _() -> object:
    return raised(lambda: torch.optim.SGD([{"model": []}]), KeyError)


@claim(
    "torch",
    "docs/tricks/no_bias_decay.md",
    "`params` of a group must be a list. A generator is empty at its second use.",
)
def _() -> object:
    layer = torch.nn.Linear(2, 2)
    group = {"params": layer.parameters()}
    assert len(torch.optim.SGD([group]).param_groups[0]["params"]) == 2
    group = {"params": layer.parameters()}
    assert len(list(group["params"])) == 2
    return raised(lambda: torch.optim.SGD(group["params"]), ValueError)


@claim(
    "torch",
    "docs/tricks/amp.md",
    "If a gradient overflows, the step is skipped and s is halved. After many good steps s is "
    "doubled.",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    scales = [scaler.get_scale()]
    for gradient in (torch.inf, 0.0, 0.0, 0.0):
        scaler.scale(weight * 0).backward()
        weight.grad.fill_(gradient)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert weight.item() == 1 and scales == [65536, 32768, 32768, 32768, 65536]
    assert torch.amp.GradScaler("cpu").get_growth_interval() == 2000
    return scales


@claim(
    "torch",
    "docs/tricks/grad_clipping.md",
    "With a loss scaler, call `unscale_` first. Otherwise the scaled gradient is clipped.",
)
def _() -> object:
    norms = []
    for unscale in (False, True):
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(weight * 2).backward()
        if unscale:
            scaler.unscale_(optimizer)
        norms.append(torch.nn.utils.clip_grad_norm_([weight], 1.0).item())
        scaler.step(optimizer)
        norms.append(weight.item())
    assert norms[0] == 131072 and norms[1] > 0.9999 and abs(norms[3]) < 1e-5, norms
    return f"a norm of {norms[0]:,.0f} and a step of {1 - norms[1]:.6f}, not 2 and 1"


@claim(
    "torch",
    "docs/tricks/fused_optimizer.md",
    "With a loss scaler, a fused optimizer is called after an overflow too, and skips the update by "
    "itself. In the first step of SGD, torch 2.7 to 2.15 then keeps an uninitialized momentum",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    weight.grad[0] = torch.inf
    torch.full((1000,), 7.0)  # Its memory is used next.
    scaler.step(optimizer)
    momentum = optimizer.state[weight]["momentum_buffer"]
    assert weight.eq(1).all() and momentum is not None and not momentum.eq(0).all()
    return f"the momentum begins with {momentum[1].item():.3g}"


@claim(
    "torch",
    "docs/tricks/fused_optimizer.md",
    "`load_state_dict` restores `fused` from the file.",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.ones(1))
    plain, fused = (torch.optim.AdamW([weight], fused=f) for f in (False, True))
    fused.load_state_dict(plain.state_dict())
    assert fused.param_groups[0]["fused"] is False
    return "fused=True became False"


@claim(
    "torch",
    "docs/tricks/fused_optimizer.md",
    "A fused kernel on a CPU ignores strides.",
)
def _() -> object:
    def step(layout: torch.memory_format) -> torch.Tensor:
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(4, 3, 2, 2))
        weight.grad = torch.randn(4, 3, 2, 2)
        weight.data = weight.data.to(memory_format=torch.channels_last)
        weight.grad = weight.grad.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.9, fused=True)
        momentum = torch.randn(4, 3, 2, 2).to(memory_format=layout)
        optimizer.state[weight]["momentum_buffer"] = momentum
        optimizer.step()
        return weight.detach()

    one, other = step(torch.channels_last), step(torch.contiguous_format)
    assert not torch.allclose(one, other)
    return "the same momentum in another layout gives other weights"


@claim(
    "torch",
    "docs/tricks/fused_optimizer.md",
    "By default torch uses `foreach` on a GPU and the plain form on a CPU.",
)
def _() -> object:
    from torch.optim.optimizer import _default_to_fused_or_foreach

    fused_and_foreach = _default_to_fused_or_foreach([torch.zeros(1)], False)
    assert fused_and_foreach == (False, False)
    return in_source(
        "torch.optim.optimizer", "p.device.type in foreach_supported_devices"
    )


@claim(
    "torch",
    "docs/guides/memory.md",
    "AdamW needs four numbers for each weight, gradient included: 16 bytes.",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.ones(100))
    weight.grad = torch.ones(100)
    optimizer = torch.optim.AdamW([weight])
    optimizer.step()
    tensors = [weight, weight.grad, *optimizer.state[weight].values()]
    size = sum(t.nbytes for t in tensors if t.numel() > 1) / 100
    assert size == 16
    return f"{size:.0f} bytes"


@claim(
    "torch",
    "docs/tricks/ema.md",
    "`update_parameters` waits for the GPU in every step, because it copies its count there, or "
    "reads the count there.",
)
def _() -> object:
    from torch.optim.swa_utils import AveragedModel

    averaged = AveragedModel(torch.nn.Linear(1, 1, device="meta"))
    assert averaged.n_averaged.device.type == "cpu"
    return in_source("torch.optim.swa_utils", "self.n_averaged.to(device)")


@claim(
    "torch",
    "docs/tricks/swa.md",
    "torch's `update_bn` waits for the GPU in each layer.",
)
@claim(
    "torch",
    "docs/tricks/swa.md",
    "A momentum of 1 / n for batch n gives the same means without a wait.",
)
def _() -> object:
    from torch.optim.swa_utils import update_bn

    batches = [torch.randn(4, 2) for _ in range(5)]
    theirs, ours = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    update_bn(batches, theirs)
    for number, batch in enumerate(batches, 1):
        ours.momentum = 1 / number
        ours(batch)
    assert torch.allclose(theirs.running_mean, ours.running_mean)
    assert torch.allclose(theirs.running_var, ours.running_var)
    wait = "exponential_average_factor = 1.0 / float(self.num_batches_tracked)"
    return in_source("torch.nn.modules.batchnorm", wait)


@claim(
    "torch",
    "docs/tricks/swa.md",
    "`SWALR` goes wrong if a run gets more epochs after averaging began.",
)
def _() -> object:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=4)
    for _ in range(8):
        optimizer.step()
        scheduler.step()
    before = optimizer.param_groups[0]["lr"]
    # A longer run begins its averaging later, at step 20 of the loaded state.
    longer = torch.optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=4)
    longer.load_state_dict(scheduler.state_dict())
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    longer.step()
    after = optimizer.param_groups[0]["lr"]
    assert before == 0.1 and after != 1.0, (before, after)
    return f"a rate of 1 becomes {after:.2f} in one step"


@claim(
    "torch",
    "docs/tricks/schedule.md",
    "`onecycle` | half a cosine from 1/25 to 1, and one to 1/250,000",
)
def _() -> object:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=100)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(99):
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    seen = rates[0], max(rates), rates[-1]
    assert all(
        abs(a / b - 1) < 1e-6 for a, b in zip(seen, (0.04, 1, 4e-6), strict=True)
    )
    return seen


@claim(
    "torch",
    "docs/tricks/muon.md",
    "torch's `Muon` (2.9 and later) accepts matrices only",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.zeros(2, 2, 3, 3))
    return raised(lambda: torch.optim.Muon([weight]), ValueError)


@claim(
    "torch",
    "template/**/muon.py",
    "torch refuses an empty list, but accepts an empty group.",
)
def _() -> object:
    torch.optim.AdamW([{"params": []}]).step()
    return raised(lambda: torch.optim.AdamW([]), ValueError)
