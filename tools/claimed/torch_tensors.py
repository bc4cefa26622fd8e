"""Statements about torch: tensors, losses and autograd."""

import math
import operator
import warnings
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from claimed.claim import claim, raised


@claim(
    "torch",
    "docs/tricks/class_balance.md",
    "`torch.multinomial` draws from at most 2²⁴ images.",
)
def _() -> object:
    torch.multinomial(torch.ones(2**24), 1)
    return raised(lambda: torch.multinomial(torch.ones(2**24 + 1), 1))


@claim(
    "torch",
    "docs/tricks/label_smoothing.md",
    "Other code spreads e over the C − 1 wrong classes, which equals e · C / (C − 1) in torch.",
)
def _() -> object:
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
    assert "deprecated" in (torch.norm.__doc__ or "")
    return "its docstring says so"


@claim(
    "torch",
    "docs/recipes/tensors.md",
    "A slice with a negative step, such as a flipped array, has negative strides. "
    "torch has none: copy the array first.",
)
def _() -> object:
    return raised(lambda: torch.from_numpy(np.arange(4)[::-1]), ValueError)


@claim(
    "torch numpy",
    "docs/recipes/tensors.md",
    "`torch.tensor` refuses such an array too, although it copies.",
)
def _() -> object:
    return raised(lambda: torch.tensor(np.arange(4)[::-1]), ValueError)


@claim("torch", "docs/recipes/tensors.md", "`torch.tensor` always copies.")
def _() -> object:
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
    layer = torch.nn.Linear(1, 1)
    layer(torch.ones(1, 1)).sum().backward()
    torch.optim.SGD(layer.parameters()).zero_grad()
    assert layer.weight.grad is None
    return None


@claim(
    "numpy",
    "docs/recipes/tensors.md",
    "In NumPy, a flip is a view.",
)
def _() -> object:
    x = np.arange(4)
    assert np.shares_memory(np.flip(x), x)
    return None


@claim(
    "torch numpy",
    "docs/recipes/tensors.md",
    "int32 and float32 give float32, where NumPy gives float64.",
)
def _() -> object:
    a, b = torch.ones(1, dtype=torch.int32), torch.ones(1)
    seen = (a + b).dtype, (a.numpy() + b.numpy()).dtype
    assert seen == (torch.float32, np.float64), seen
    return seen


@claim(
    "torch",
    "docs/recipes/tensors.md",
    "Matrix products, convolutions, in-place results and assignments by index do not promote.",
)
def _() -> object:
    x, y = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2).double()
    raised(lambda: x @ y)
    raised(lambda: F.conv2d(x, y))
    raised(lambda: x.int().add_(0.5))
    return raised(lambda: operator.setitem(x, [0], y))


@claim(
    "torch",
    "docs/recipes/losses.md",
    "If the norm is not finite, clipping makes all gradients zero or NaN",
)
def _() -> object:
    weight = torch.nn.Parameter(torch.zeros(3))
    seen = []
    for first in (torch.inf, torch.nan):
        weight.grad = torch.tensor([first, 1.0, -1.0])
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert all(x == 0 or math.isnan(x) for x in weight.grad.tolist())
        seen.append(weight.grad.tolist())
    return seen


@claim(
    "torch",
    "docs/recipes/losses.md",
    "Torch's norms handle this.",
)
def _() -> object:
    norms = torch.linalg.vector_norm, torch.linalg.norm, torch.linalg.matrix_norm
    for norm in (
        *norms,
        lambda x: F.pairwise_distance(x, x),
        lambda x: torch.cdist(x, x),
    ):
        x = torch.zeros(2, 2, requires_grad=True)
        norm(x).sum().backward()
        assert x.grad is not None and x.grad.isfinite().all(), norm
    return "gradients at zero are finite"


@claim(
    "torch",
    "docs/recipes/speed.md",
    "`nn.ReLU(inplace=True)` after a convolution or batch-norm saves the memory of one activation, "
    "because their backward pass does not need their output. If a backward pass needs an "
    "overwritten tensor, autograd raises.",
)
def _() -> object:
    def backward(layer: torch.nn.Module) -> None:
        x = torch.randn(2, 3, 4, 4, requires_grad=True)
        torch.nn.ReLU(inplace=True)(layer(x)).sum().backward()

    backward(torch.nn.Conv2d(3, 3, 1))
    backward(torch.nn.BatchNorm2d(3))
    return raised(lambda: backward(torch.nn.Sigmoid()))


@claim(
    "torch",
    "docs/recipes/tensors.md",
    "`torch.compile` breaks the graph.",
)
def _() -> object:
    def count(x: Any) -> Any:
        return x.relu() * len(torch.nonzero(x))

    breaks = torch._dynamo.explain(count)(torch.ones(3)).graph_break_count
    assert breaks > 0
    return f"{breaks} breaks"


@claim(
    "torch",
    "docs/recipes/tensors.md",
    "pass `antialias=True`, which averages over the area of a new pixel, as Pillow does.",
)
def _() -> object:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(256, size=(64, 64)).astype(np.float32)
    pillow = np.asarray(
        Image.fromarray(pixels).resize((16, 16), Image.Resampling.BILINEAR)
    )
    x = torch.from_numpy(pixels)[None, None]
    ours = F.interpolate(x, (16, 16), mode="bilinear", antialias=True)[0, 0].numpy()
    without = F.interpolate(x, (16, 16), mode="bilinear")[0, 0].numpy()
    assert abs(ours - pillow).max() < 0.01 < abs(without - pillow).max()
    return f"differences of {abs(ours - pillow).max():.4f} and {abs(without - pillow).max():.0f} levels"


@claim(
    "torch",
    "docs/recipes/environment.md",
    "On a machine without a GPU, a CUDA build returns `cuda`, and the first tensor raises.",
)
def _() -> object:
    assert torch.version.cuda and not torch.cuda.is_available()
    device = torch.accelerator.current_accelerator()
    assert device is not None and device.type == "cuda"
    assert torch.accelerator.current_accelerator(check_available=True) is None
    return raised(lambda: torch.zeros(1, device=device))


@claim(
    "torch",
    "docs/recipes/models.md",
    "To average the running statistics over as many images as before, pass the momentum "
    "1 − (1 − m)^(1/k) for k micro-batches.",
)
def _() -> object:
    whole = torch.nn.BatchNorm1d(1, momentum=0.1)
    parts = torch.nn.BatchNorm1d(1, momentum=1 - (1 - 0.1) ** (1 / 4))
    x = torch.full((8, 1), 3.0)
    for _ in range(10):
        whole(x)
        for part in x.chunk(4):
            parts(part)
    assert torch.allclose(whole.running_mean, parts.running_mean)
    return f"{whole.running_mean.item():.4f} and {parts.running_mean.item():.4f}"


@claim(
    "torch",
    "docs/tricks/distillation.md",
    '`kl_div(reduction="mean")` also divides by the number of classes. `"batchmean"` divides by one '
    "micro-batch.",
)
@claim(
    "torch",
    "docs/tricks/distillation.md",
    "`kl_div` takes the logarithm of the model's probabilities first, then the teacher's.",
)
def _() -> object:
    ours, theirs = torch.randn(4, 5).log_softmax(1), torch.randn(4, 5).softmax(1)
    total = (theirs * (theirs.log() - ours)).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean = F.kl_div(ours, theirs, reduction="mean")
    assert torch.isclose(mean, total / 20)
    assert torch.isclose(F.kl_div(ours, theirs, reduction="batchmean"), total / 4)
    return None


@claim(
    "torch",
    "docs/tricks/class_balance.md",
    '`cross_entropy` with `weight` and `reduction="mean"` divides by the sum of the weights for '
    "classes, but by the number of images for mixed targets.",
)
def _() -> object:
    weight, target = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 2, 2])
    logits, mixed = torch.randn(4, 3), F.one_hot(target, 3).float()
    total = F.cross_entropy(logits, target, weight, reduction="sum")
    by_class = F.cross_entropy(logits, target, weight)
    by_image = F.cross_entropy(logits, mixed, weight)
    assert torch.isclose(by_class, total / weight[target].sum())
    assert torch.isclose(by_image, total / 4)
    return f"{by_class.item():.3f} and {by_image.item():.3f}"


@claim(
    "torch",
    "docs/tricks/class_balance.md",
    "With a smoothing of 0.1 this happens above a ratio of 19 to 1 for two classes, and 91 to 1 for "
    "ten.",
)
def _() -> object:
    def rare_wins(classes: int, ratio: float) -> bool:
        """Whether the best logits for images of class 0 predict the rare class 1."""
        logits = torch.zeros(1, classes, requires_grad=True)
        weight = torch.ones(classes)
        weight[1] = ratio
        optimizer = torch.optim.LBFGS([logits], max_iter=500, tolerance_change=1e-12)

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            target = torch.tensor([0])
            value = F.cross_entropy(logits, target, weight, label_smoothing=0.1)
            value.backward()
            return value

        optimizer.step(loss)
        return logits.argmax().item() == 1

    for classes, limit in ((2, 19), (10, 91)):
        assert not rare_wins(classes, limit - 0.5)
        assert rare_wins(classes, limit + 0.5)
    return None


@claim(
    "torch",
    "docs/tricks/class_balance.md",
    "With a smoothing of 0.1, it does from a weight of 19.",
)
def _() -> object:
    for weight, wins in ((18.5, False), (19.5, True)):
        # The best probability for images without the label: the smoothed target is 0.05.
        probability = weight * 0.05 / (weight * 0.05 + 0.95)
        logit = torch.tensor(probability).logit().requires_grad_()
        F.binary_cross_entropy_with_logits(
            logit, torch.tensor(0.05), pos_weight=torch.tensor(weight)
        ).backward()
        assert abs(logit.grad.item()) < 1e-5 and (probability > 0.5) == wins
    return None


@claim(
    "torch",
    "template/**/l1.py.jinja",
    "As in torch, the subgradient of an absolute value is 0 at 0.",
)
def _() -> object:
    x = torch.tensor([0.0, -2.0], requires_grad=True)
    x.abs().sum().backward()
    assert x.grad.tolist() == [0, -1]
    return x.grad.tolist()


@claim(
    "torch",
    "docs/tricks/label_smoothing.md",
    "With e = 0.1 and ten classes the loss stays above 0.5.",
)
def _() -> object:
    target = torch.full((10,), 0.01)
    target[0] += 0.9
    least = F.cross_entropy(target.log(), torch.tensor(0), label_smoothing=0.1).item()
    assert least > 0.5
    return f"the least is {least:.3f}"


@claim(
    "torch",
    "docs/tasks/regression.md",
    "In bfloat16, outputs between 1 and 2 standard deviations would be multiples of 1/128.",
)
@claim(
    "torch",
    "template/**/float32_head.py.jinja",
    "bfloat16 has only 128 steps from 1 to 2.",
)
def _() -> object:
    values = torch.linspace(1, 2, 10_000).bfloat16().unique().float()
    assert len(values) == 129 and (values * 128).frac().abs().max() == 0
    return f"{len(values) - 1} steps"


@claim("torch", "template/**/float32_head.py.jinja", "The meta device has no autocast.")
def _() -> object:
    return raised(lambda: torch.autocast("meta"))


@claim(
    "torch",
    "docs/tricks/amp.md",
    "`torch.autocast` computes matrix products and convolutions in 16 bits.",
)
@claim("torch", "docs/tricks/amp.md", "Outputs in 16 bits have three digits.")
def _() -> object:
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.ones(1, 1, 2, 2)
        seen = (x @ x).dtype, F.conv2d(x, x).dtype, x.sum().dtype, (x * x).dtype
    assert seen == (torch.bfloat16, torch.bfloat16, torch.float32, torch.float32)
    assert torch.finfo(torch.float16).eps > 0.0005
    return "sums and elementwise products stay in float32"


@claim(
    "torch",
    "docs/tricks/bilinear_pooling.md",
    "The gradient of √|y| is infinite at zero",
)
def _() -> object:
    y = torch.zeros(1, requires_grad=True)
    y.abs().sqrt().backward()
    assert not y.grad.isfinite().item()
    return f"torch computes {y.grad.item()}"


@claim(
    "torch",
    "docs/tricks/bilinear_pooling.md",
    "In float16, products of features above 256 overflow.",
)
def _() -> object:
    x = torch.tensor([255.0, 256.0]).half()
    assert (x * x).tolist() == [65024, float("inf")]
    return (x * x).tolist()


@claim(
    "torch",
    "docs/tricks/device_augment.md",
    "`images[rows]` is ten times slower than `index_select`.",
)
def _() -> object:
    from torch.utils.benchmark import Timer

    images = torch.zeros(5000, 3, 32, 32, dtype=torch.uint8)
    rows = torch.randint(5000, (128,))
    names = {"images": images, "rows": rows}
    slow, fast = (
        Timer(code, globals=names).blocked_autorange(min_run_time=0.5).median
        for code in ("images[rows]", "images.index_select(0, rows)")
    )
    assert slow > 5 * fast, (slow, fast)
    return f"{slow / fast:.1f} times"
