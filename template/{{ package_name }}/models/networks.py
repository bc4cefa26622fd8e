"""The models: a small convolutional network, and torchvision's by name."""

import copy
import difflib
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

from ..errors import UserError


class SmallCNN(nn.Module):
    """Four convolution blocks, the maximum over all places, and a linear layer.

    Args:
        num_classes: number of logits.
        dropout: probability of dropping a pooled feature.
        width: channels of the first block; each of the next has twice as many.
    """

    def __init__(self, num_classes: int, dropout: float = 0.1, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_block(3, width),
            nn.MaxPool2d(2),
            conv_block(width, 2 * width),
            nn.MaxPool2d(2),
            conv_block(2 * width, 4 * width),
            nn.MaxPool2d(2),
            conv_block(4 * width, 8 * width),
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(8 * width, num_classes)
        self.apply(init_weights)

    def forward(self, images: Tensor) -> Tensor:
        """Maps float images (N, 3, H, W) of 8 pixels or more to logits (N, classes)."""
        features = self.features(images).amax(dim=(2, 3))
        return self.classifier(self.dropout(features))


def conv_block(inputs: int, outputs: int) -> nn.Sequential:
    """A 3 x 3 convolution, batch-norm and ReLU, which keep height and width."""
    return nn.Sequential(
        # Batch-norm subtracts the mean, so that a bias would do nothing.
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def init_weights(module: nn.Module) -> None:
    """Initialises one layer for ReLU networks (He et al. 2015, arXiv:1502.01852)."""
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
        nn.init.zeros_(module.bias)


def build_model(name: str, num_classes: int, image_size: int) -> nn.Module:
    """Builds a model with fresh weights on the CPU.

    Raises:
        UserError: no such model, or it does not take images of this size.
    """
    if name == "cnn":
        if image_size < 8:
            raise UserError("cnn takes images of 8 x 8 or more: pass --image-size 8")
        return SmallCNN(num_classes)
    names = torchvision.models.list_models(module=torchvision.models)
    if name not in names:
        close = difflib.get_close_matches(name, ["cnn", *names], n=3) or ["cnn"]
        raise UserError(f"there is no model {name}: try --model {' or '.join(close)}")
    options: dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):
        # Their auxiliary classifiers would return two more sets of logits.
        options = {"aux_logits": False, "init_weights": True}
    elif name.startswith("vit"):
        options = {"image_size": image_size}
    try:
        model = torchvision.models.get_model(name, num_classes=num_classes, **options)
        with torch.inference_mode():
            model.eval()(torch.zeros(1, 3, image_size, image_size))
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{name} does not take {image_size} x {image_size} images: "
            "pass --image-size 224 or another model"
        ) from error
    return model


def check_single_images(model: nn.Module, image_size: int) -> None:
    """Checks that a model can be trained on batches of one image.

    Raises:
        UserError: a batch-norm layer would be left with one value per channel.
    """
    # Without data nothing is computed: no time passes, and no random number is drawn.
    probe = copy.deepcopy(model).to("meta").train()
    try:
        probe(torch.empty(1, 3, image_size, image_size, device="meta"))
    except ValueError as error:
        raise UserError(
            "one image of this size is too little for batch-norm: "
            "pass a larger --batch-size or --image-size"
        ) from error
