"""Statements about torchvision."""

import io
import warnings

from claimed.claim import claim, in_source, raised


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


@claim(
    "torchvision",
    "docs/tricks/augmentation.md",
    "TrivialAugment moves images by up to 32 pixels, so one in 54 images of 28 pixels moves out of "
    "sight, and one in 217 images of 32 pixels.",
)
def _() -> object:
    from torchvision.transforms import v2

    operations = v2.TrivialAugmentWide._AUGMENTATION_SPACE
    shares = {}
    for size in (28, 32):
        gone = 0
        for name in ("TranslateX", "TranslateY"):
            shifts = operations[name][0](31, size, size)
            gone += sum(int(shift) >= size for shift in shifts.tolist())
        shares[size] = 31 * len(operations) / gone
    assert shares == {28: 54.25, 32: 217}, shares
    return shares


@claim(
    "torchvision",
    "template/**/transforms.py.jinja",
    "torchvision's `v2` moves only targets that are `tv_tensors`.",
)
@claim(
    "torchvision",
    "docs/tasks/your-own-task.md",
    "Targets as `tv_tensors.Mask` of shape (H, W) or (maps, H, W): torchvision transforms them with "
    "the image.",
)
def _() -> object:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    image = tv_tensors.Image(torch.tensor([[[1, 2]]], dtype=torch.uint8))
    plain, flat = torch.tensor([[1, 2]]), tv_tensors.Mask(torch.tensor([[1, 2]]))
    maps = tv_tensors.Mask(torch.tensor([[[1, 2]], [[3, 4]]]))
    flip = v2.RandomHorizontalFlip(p=1.0)
    seen = [x.tolist() for x in flip(image, plain, flat, maps)]
    assert seen == [[[[2, 1]]], [[1, 2]], [[2, 1]], [[[2, 1]], [[4, 3]]]], seen
    return "a plain tensor beside an image stays"


@claim(
    "torchvision",
    "docs/tasks/your-own-task.md",
    "If torchvision makes a mask smaller, it shifts the mask by up to half a pixel.",
)
@claim(
    "torchvision",
    "template/**/mask_transforms.py.jinja",
    "torchvision's own transforms use the upper left corner: a smaller mask would be shifted against "
    "its image.",
)
def _() -> object:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional as F

    mask = tv_tensors.Mask(torch.arange(9).expand(1, 9, 9))
    seen = F.resize(mask, [3, 3])[0, 0].tolist()
    assert seen == [0, 3, 6], seen
    return f"of 0 to 8, {seen} are kept; the centres are 1, 4 and 7"


@claim(
    "torchvision",
    "template/**/image_files.py.jinja",
    "The same pixels as Pillow's in two thirds of the time.",
)
def _() -> object:
    import numpy as np
    import torch
    import torchvision
    from PIL import Image

    pixels = np.random.default_rng(0).integers(256, size=(333, 477, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "jpeg", quality=80)
    data = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = torchvision.io.decode_jpeg(data).permute(1, 2, 0).numpy()
    assert (ours == np.asarray(Image.open(file))).all()
    return "equal pixels; the time is measured by make bench"


@claim(
    "torchvision",
    "docs/tricks/pretrained.md",
    "`model.fc = nn.Linear(512, n)` fits two of torchvision's models.",
)
@claim(
    "torchvision",
    "docs/tricks/pretrained.md",
    "`resnet18` gives `resnet34` 122 of its 218 tensors.",
)
def _() -> object:
    import torch
    from torchvision import models

    names = []
    for name in models.list_models(models):
        if name.startswith("regnet"):  # Does not work on `meta`.
            continue
        weights = (
            {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        )
        with torch.device("meta"):
            last = getattr(models.get_model(name, **weights), "fc", None)
        if isinstance(last, torch.nn.Linear) and last.in_features == 512:
            names.append(name)
    assert names == ["resnet18", "resnet34"], names
    small, large = models.resnet18().state_dict(), models.resnet34().state_dict()
    fit = sum(large[n].shape == w.shape for n, w in small.items() if n in large)
    assert (fit, len(large)) == (122, 218), (fit, len(large))
    return names


@claim(
    "torchvision",
    "docs/tricks/features.md",
    "A layer that is called several times, such as `relu` in torchvision's ResNets, has its last "
    "output.",
)
@claim(
    "torchvision",
    "docs/tricks/features.md",
    "`nn.Sequential(*list(model.children())[:-1])` loses the operations in `forward`, such as "
    "`torch.flatten` in a ResNet.",
)
def _() -> object:
    import torch
    from torchvision import models

    model = models.resnet18().eval()
    calls = []
    model.layer1[0].relu.register_forward_hook(lambda *_: calls.append(1))
    x = torch.zeros(1, 3, 32, 32)
    model(x)
    assert len(calls) == 2
    cut = torch.nn.Sequential(*list(model.children())[:-1])(x)
    assert cut.shape == (1, 512, 1, 1)
    return f"two calls of a relu; the cut model gives {tuple(cut.shape)}"


@claim(
    "torchvision",
    "docs/tricks/bilinear_pooling.md",
    "The last layer gets C² inputs: 262,144 for ResNet-18, 4,194,304 for ResNet-50.",
)
def _() -> object:
    import torch
    from torchvision import models

    with torch.device("meta"):
        widths = [models.get_model(n).fc.in_features for n in ("resnet18", "resnet50")]
    assert [w * w for w in widths] == [262_144, 4_194_304]
    return widths


@claim(
    "torchvision",
    "docs/tricks/activation_checkpointing.md",
    "`alexnet`, `vgg16` and `inception_v3` have no blocks in an `nn.Sequential`, and gain nothing.",
)
def _() -> object:
    import torch
    from torchvision import models

    def deepest(name: str) -> set[str]:
        options = {"init_weights": False} if name == "inception_v3" else {}
        with torch.device("meta"):
            model = models.get_model(name, **options)
        sequences = [m for m in model.modules() if isinstance(m, torch.nn.Sequential)]
        return {type(c).__name__ for s in sequences for c in s if list(c.children())}

    assert deepest("resnet18") == {"BasicBlock"}
    found = {name: deepest(name) for name in ("alexnet", "vgg16", "inception_v3")}
    assert not any(found.values()), found
    return found


@claim(
    "torchvision",
    "template/**/loading.py.jinja",
    "torchvision's mnasnet needs the version of its weights.",
)
def _() -> object:
    import torch
    from torchvision import models

    with torch.device("meta"):
        model = models.mnasnet0_5()
    state = dict(model.state_dict())  # Without `_metadata`.
    return raised(lambda: models.mnasnet0_5().load_state_dict(state))


@claim(
    "torchvision",
    "template/**/pretrained.py.jinja",
    "torchvision converts from ImageNet's mean in a layer that this model does not have.",
)
def _() -> object:
    return in_source("torchvision.models.googlenet", "if self.transform_input: x_ch0")


@claim(
    "torchvision",
    "docs/tasks/segmentation.md",
    "If a model has an auxiliary head, training adds half of its loss.",
)
def _() -> object:
    import torch
    from torchvision import models

    with torch.device("meta"):
        model = models.segmentation.fcn_resnet50(weights_backbone=None, aux_loss=True)
        out = model.eval()(torch.zeros(1, 3, 64, 64))
    assert list(out) == ["out", "aux"]
    return list(out)
