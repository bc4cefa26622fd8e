"""Statements about timm and segmentation_models_pytorch."""

import warnings

from claimed.claim import claim, folder, printed, raised


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


@claim(
    "timm",
    "docs/tricks/timm.md",
    "`timm.get_pretrained_cfg(NAME).license` shows the licence if timm has it.",
)
def _() -> object:
    import timm

    licences = {
        timm.get_pretrained_cfg(name).license for name in timm.list_pretrained()[:300]
    }
    assert len(licences) > 1
    return sorted(map(str, licences))


@claim(
    "timm",
    "template/**/timm_models.py.jinja",
    "timm also accepts names for which it would download a file that defines the model.",
)
def _() -> object:
    import timm

    with folder() as place:
        seen = printed(
            """
            import timm
            try:
                timm.create_model("hf-hub:timm/resnet18.a1_in1k")
            except Exception as error:
                print(type(error).__name__)
            """,
            HF_HUB_OFFLINE="1",
            HF_HOME=str(place),
        )
    raised(lambda: timm.create_model("no_such_model"), RuntimeError)
    assert seen == "LocalEntryNotFoundError"
    return f"hf-hub: offline, a {seen}"


@claim(
    "timm",
    "docs/tricks/layerwise_lr.md",
    "In some models of timm the named head holds pretrained layers, such as the two large ones of "
    "`timm:vgg11`.",
)
def _() -> object:
    import timm
    import torch

    with torch.device("meta"):
        model = timm.create_model("vgg11")
    names = [n for n, _ in model.named_modules() if n.startswith("pre_logits.fc")]
    assert names == ["pre_logits.fc1", "pre_logits.fc2"], names
    return model.group_matcher()


@claim(
    "timm",
    "docs/tricks/timm.md",
    "Some names, such as `gemma4_vit_167m_enc`, are encoders without a last layer",
)
def _() -> object:
    import timm
    import torch

    with torch.device("meta"):
        model = timm.create_model("gemma4_vit_167m_enc")
    assert not hasattr(model, "get_classifier") or not hasattr(model, "num_classes")
    return type(model).__name__


@claim(
    "timm",
    "docs/tricks/no_bias_decay.md",
    "Other embeddings decay unless the model lists them in `no_weight_decay()`.",
)
def _() -> object:
    import timm
    import torch

    with torch.device("meta"):
        names = timm.create_model("vit_tiny_patch16_224").no_weight_decay()
    assert "pos_embed" in names and "cls_token" in names
    return sorted(names)


@claim(
    "timm",
    "docs/tricks/features.md",
    "Maps of (N, C, H, W), or (N, H, W, C) as in Swin, are averaged over the two equal sides.",
)
def _() -> object:
    import timm
    import torch

    model = timm.create_model("swin_tiny_patch4_window7_224").eval()
    shape = tuple(model.forward_features(torch.zeros(1, 3, 224, 224)).shape)
    assert shape == (1, 7, 7, 768)
    return shape


@claim(
    "timm",
    "docs/tricks/timm.md",
    'Images with `crop_mode="squash"` are not squashed: their middle is evaluated.',
)
def _() -> object:
    import timm

    modes = {timm.get_pretrained_cfg(n).crop_mode for n in timm.list_pretrained()}
    assert "squash" in modes
    return sorted(modes)


@claim(
    "segmentation_models_pytorch timm",
    "docs/tricks/smp.md",
    "DeepLabV3 and PAN refuse VGG and DenseNet, `UnetPlusPlus` and `Linknet` refuse `mit_b0`, and "
    "most transformers have no maps of several sizes for `tu-`.",
)
def _() -> object:
    import segmentation_models_pytorch as smp

    refused = [(d, e) for d in ("DeepLabV3", "PAN") for e in ("vgg11", "densenet121")]
    refused += [("UnetPlusPlus", "mit_b0"), ("Linknet", "mit_b0")]
    refused += [("Unet", "tu-vit_tiny_patch16_224")]
    for decoder, encoder in refused:
        make = getattr(smp, decoder)
        seen = raised(lambda m=make, e=encoder: m(e, encoder_weights=None), ValueError)
    return seen


@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    "`PAN` needs images of 128 x 128 or more.",
)
@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    "There are eleven architectures, such as U-Net, FPN, DeepLabV3+ and SegFormer.",
)
def _() -> object:
    import inspect

    import segmentation_models_pytorch as smp
    import torch

    model = smp.PAN("resnet18", encoder_weights=None).eval()
    model(torch.zeros(1, 3, 128, 128))
    raised(lambda: model(torch.zeros(1, 3, 96, 96)))
    names = [n for n, c in inspect.getmembers(smp, inspect.isclass)]
    names = [n for n in names if issubclass(getattr(smp, n), torch.nn.Module)]
    assert len(names) == 12 and "DPT" in names, names
    return f"{', '.join(names)}; DPT is left out"


@claim(
    "segmentation_models_pytorch",
    "docs/tricks/smp.md",
    '`activation="softmax"` returns probabilities.',
)
def _() -> object:
    import segmentation_models_pytorch as smp
    import torch

    model = smp.Unet("resnet18", encoder_weights=None, classes=3, activation="softmax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model.eval()(torch.randn(1, 3, 64, 64)).sum(1)
    assert torch.allclose(out, torch.ones(1))
    return "the outputs of a pixel sum to 1"
