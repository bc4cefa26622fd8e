"""Statements about torchvision."""

import io
import warnings

from claimed.claim import claim, raised


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
