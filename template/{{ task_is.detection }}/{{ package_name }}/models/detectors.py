"""torchvision's detectors, with tensors of one shape in and out.

A batch has inputs (N, C, H, W), boxes (N, M, 6) as in Batch.targets, and detections
(N, DETECTIONS, 6).
"""

import difflib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import Conv2dNormActivation, FeaturePyramidNetwork

from ..errors import UserError

DETECTIONS = 100
"""Detections of an image, as in COCO's metrics."""
LOSS_SEED = 0
"""Detectors draw boxes for the loss: in evaluation always the same."""
SCORE_THRESHOLD = 0.05
"""Boxes of a lower score are no detections."""


class Detector(nn.Module):
    """A detector of torchvision.

    Args:
        detector: takes a list of images, and in training a list of targets.
        first_class: its number of the first class: 1 if 0 is the background.
    """

    def __init__(self, detector: nn.Module, first_class: int) -> None:
        super().__init__()
        detector.transform = AsTheyAre()
        compute_boxes_in_float32(detector)
        self.detector = detector
        self.first_class = first_class

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Any:
        """Returns detections, or losses and detections.

        Args:
            inputs: normalized images of shape (N, C, H, W).
            targets: shape (N, M, 6).

        Returns:
            Without targets, detections of shape (N, DETECTIONS, 6): x1, y1, x2 and y2 in
            pixels, score and class, by falling score. Rows of padding have a score of 0
            and the class -1. With targets, the mean loss of the batch, N times, and
            detections, of which training has none.
        """
        if targets is None:
            return self.detect(inputs)
        if self.training:
            return self.losses(inputs, targets), inputs.new_empty(len(inputs), 0, 6)
        with loss_numbers(inputs.device), loss_mode(self.detector):
            losses = self.losses(inputs, targets)
        return losses, self.detect(inputs)

    def losses(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Returns the mean loss over the images, once for each image."""
        trained = (targets[..., 4] >= 0) & (targets[..., 5] == 0)
        boxes = [
            {"boxes": rows[:, :4], "labels": rows[:, 4].long() + self.first_class}
            for rows in (rows[kept] for rows, kept in zip(targets, trained))
        ]
        return sum(self.detector(inputs, boxes).values()).float().repeat(len(inputs))

    def detect(self, inputs: Tensor) -> Tensor:
        """Returns the detections."""
        padding = torch.tensor([0.0] * 5 + [-1], device=inputs.device)
        found = []
        for image in self.detector(inputs):
            classes = image["labels"] - self.first_class
            table = torch.column_stack([image["boxes"], image["scores"], classes])
            found.append(torch.cat([table, padding.expand(DETECTIONS - len(table), 6)]))
        return torch.stack(found)


class AsTheyAre(nn.Module):
    """Replaces the transform of a detector: inputs are resized and normalized."""

    def forward(
        self, inputs: Tensor, targets: list[dict[str, Tensor]] | None = None
    ) -> tuple[ImageList, list[dict[str, Tensor]] | None]:
        """Pads to multiples of 32 pixels, so that maps fit into larger ones."""
        *_, height, width = inputs.shape
        inputs = F.pad(inputs, (0, -width % 32, 0, -height % 32))
        return ImageList(inputs, [(height, width)] * len(inputs)), targets

    def postprocess(self, result: Any, *_: Any) -> Any:
        """Leaves boxes in the pixels of the inputs."""
        return result


@contextmanager
def loss_mode(detector: nn.Module) -> Iterator[None]:
    """Lets a detector in evaluation mode return losses.

    Its layers, such as batch-norm and dropout, stay in evaluation mode.
    """
    parts = [detector]
    if isinstance(detector, detection.FasterRCNN):
        parts += [detector.rpn, detector.roi_heads]
    for part in parts:
        part.training = True
    try:
        yield
    finally:
        for part in parts:
            part.training = False


@contextmanager
def loss_numbers(device: torch.device) -> Iterator[None]:
    """Draws the random numbers of LOSS_SEED; those of training are left as they are.

    torch.manual_seed() would seed all devices, which other threads of DataParallel use.
    """
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(LOSS_SEED)
            yield
    else:
        state = torch.Generator(device).manual_seed(LOSS_SEED).get_state()
        with torch.random.fork_rng([device], device_type=device.type):
            torch.get_device_module(device).set_rng_state(state, device)
            yield


def compute_boxes_in_float32(detector: Any) -> None:
    """Lets the heads of a detector return float32 under autocast, and its anchors too.

    In bfloat16, places from 512 pixels on would be multiples of 4.
    """
    finder = getattr(detector, "rpn", detector)  # Proposals of Faster R-CNN.
    finder.anchor_generator.register_forward_pre_hook(with_float32_maps)
    heads = [finder.head]
    if finder is not detector:
        heads.append(detector.roi_heads.box_predictor)
    for head in heads:
        head.register_forward_hook(return_float32)


def with_float32_maps(_module: nn.Module, inputs: tuple[Any, list[Tensor]]) -> Any:
    """Replaces the maps of anchors, whose sizes and type count, without copies."""
    images, maps = inputs
    return images, [m.new_empty(1, dtype=torch.float32).expand_as(m) for m in maps]


def return_float32(_module: nn.Module, _inputs: Any, outputs: Any) -> Any:
    """Converts the tensors that a head returns, in a dictionary, lists or a tuple."""
    return in_float32(outputs)


def in_float32(outputs: Any) -> Any:
    """Converts tensors in dictionaries, lists and tuples."""
    if isinstance(outputs, Tensor):
        return outputs.float()
    if isinstance(outputs, dict):
        return {name: in_float32(each) for name, each in outputs.items()}
    return type(outputs)(map(in_float32, outputs))


class SmallPyramid(nn.Module):
    """Four convolution blocks and a feature pyramid, at strides of 4, 8 and 16.

    Args:
        width: channels of the first block; each of the next has twice as many.
    """

    out_channels = 32

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [3, width, 2 * width, 4 * width, 8 * width]
        self.blocks = nn.ModuleList(
            Conv2dNormActivation(inputs, outputs, stride=2)
            for inputs, outputs in pairwise(widths)
        )
        self.pyramid = FeaturePyramidNetwork(widths[2:], self.out_channels)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Returns a map for each stride."""
        maps: OrderedDict[str, Tensor] = OrderedDict()
        for number, block in enumerate(self.blocks):
            inputs = block(inputs)
            if number:
                maps[str(number)] = inputs
        return self.pyramid(maps)


class SmallFCOS(Detector):
    """A small FCOS (arXiv:1904.01355), for objects of about 8 to 64 pixels.

    Args:
        outputs: number of classes, without a background.
        width: channels of the first block; each of the next has twice as many.
    """

    def __init__(self, outputs: int, width: int = 16) -> None:
        backbone = SmallPyramid(width)
        detector = FCOS(
            backbone,
            outputs,
            anchor_generator=AnchorGenerator(((4,), (8,), (16,)), ((1.0,),) * 3),
            head=FCOSHead(backbone.out_channels, 1, outputs, num_convs=2),
            score_thresh=SCORE_THRESHOLD,
            detections_per_img=DETECTIONS,
        )
        super().__init__(detector, first_class=0)


def create_torchvision_detector(name: str, outputs: int) -> Detector:
    """Creates a detector of torchvision, with random weights.

    Args:
        outputs: number of classes, without a background.
    """
    others = ["maskrcnn*", "keypointrcnn*"]  # Their targets are more than boxes.
    names = torchvision.models.list_models(module=detection, exclude=others)
    if name not in names:
        known = ["small_fcos", *names]
        close = difflib.get_close_matches(name, known, n=3) or known[:1]
        raise UserError(f"there is no model {name}: try --model {' or '.join(close)}")
    background = name.startswith(("fasterrcnn", "ssd"))
    prefix = "box_" if name.startswith("fasterrcnn") else ""
    options: dict[str, Any] = {
        "weights_backbone": None,  # Otherwise it is downloaded.
        f"{prefix}score_thresh": SCORE_THRESHOLD,
        f"{prefix}detections_per_img": DETECTIONS,
    }
    classes = outputs + background
    model = torchvision.models.get_model(name, num_classes=classes, **options)
    return Detector(model, first_class=int(background))
