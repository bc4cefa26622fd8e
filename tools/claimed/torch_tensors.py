"""Statements about torch: tensors, losses and autograd."""

import warnings

from claimed.claim import claim, raised


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
