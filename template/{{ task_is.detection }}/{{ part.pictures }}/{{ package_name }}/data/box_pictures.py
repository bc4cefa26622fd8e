"""Pictures of images with boxes and captions."""

from collections.abc import Sequence
from colorsys import hsv_to_rgb

from PIL import ImageDraw, ImageFont
from torch import Tensor
from torchvision.transforms.v2.functional import pil_to_tensor, to_pil_image

LOWEST_SCORE = 0.5
"""Lowest score of a box in pictures."""
SMALLEST = 256
"""Smallest height and width of a picture in pixels."""


def colour_of(number: int) -> tuple[int, int, int]:
    """Returns the colour of a class: hues by the golden ratio, which differ most."""
    red, green, blue = hsv_to_rgb(number * 0.618034 % 1, 0.65, 1)
    return round(255 * red), round(255 * green), round(255 * blue)


def draw_boxes(
    image: Tensor, boxes: Tensor, classes: Sequence[int], captions: Sequence[str]
) -> Tensor:
    """Draws boxes on an image, uint8 of shape (3, H, W); small images are enlarged.

    Args:
        boxes: x1 y1 x2 y2 in pixels, of shape (K, 4).
        classes: class number of each box, for its colour.
    """
    scale = -(-SMALLEST // min(image.shape[1:]))
    larger = image.cpu().repeat_interleave(scale, dim=1).repeat_interleave(scale, dim=2)
    picture = to_pil_image(larger)
    draw, height = ImageDraw.Draw(picture), max(12, min(picture.size) // 40)
    font = ImageFont.load_default(height)
    for box, number, caption in zip((scale * boxes).tolist(), classes, captions):
        colour = colour_of(number)
        draw.rectangle(box, outline=colour, width=max(2, height // 8))
        corner = box[0], max(0, box[1] - height)
        # Names of directories may not be valid text.
        text = caption.encode(errors="backslashreplace").decode()
        draw.rectangle(draw.textbbox(corner, text, font), fill=colour)
        draw.text(corner, text, "black", font)
    return pil_to_tensor(picture)


def draw_targets(image: Tensor, targets: Tensor, names: list[str]) -> Tensor:
    """Draws the true boxes of an image: x1 y1 x2 y2, class or -1, and 1 for a crowd."""
    true = targets[targets[:, 4] >= 0].cpu()
    classes = true[:, 4].int().tolist()
    crowds = (true[:, 5] > 0).tolist()
    captions = [
        f"{names[number]} (crowd)" if is_crowd else names[number]
        for number, is_crowd in zip(classes, crowds)
    ]
    return draw_boxes(image, true[:, :4], classes, captions)


def draw_detections(image: Tensor, detections: Tensor, names: list[str]) -> Tensor:
    """Draws detections: x1 y1 x2 y2, score, and class or -1."""
    found = detections[detections[:, 5] >= 0].cpu()
    classes = found[:, 5].int().tolist()
    scores = found[:, 4].tolist()
    captions = [f"{names[n]} {score:.0%}" for n, score in zip(classes, scores)]
    return draw_boxes(image, found[:, :4], classes, captions)
