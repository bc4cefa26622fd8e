"""Statements about timm and segmentation_models_pytorch."""

import warnings

from claimed.claim import claim, raised


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
