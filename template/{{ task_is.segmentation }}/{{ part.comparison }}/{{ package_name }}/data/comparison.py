"""Pictures of images beside their true and predicted masks."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .colours import overlay, palette
from .transforms import Preprocessing, channel_tensor

SMALLEST = 128
"""Smallest height of an image in pixels."""


def compare_masks(
    inputs: Tensor,
    truth: Tensor,
    predicted: Tensor,
    preprocessing: Preprocessing,
    classes: int,
) -> Tensor:
    """Draws a picture, uint8 of shape (3, H, W), with a row for each image.

    A row has the image alone, with its true classes, and with the predicted classes.

    Args:
        inputs: normalized, of shape (N, 3, H, W).
        truth: classes or IGNORED, of shape (N, H, W).
        predicted: classes of shape (N, H, W).
    """
    mean = channel_tensor(tuple(preprocessing.mean), inputs.device)
    std = channel_tensor(tuple(preprocessing.std), inputs.device)
    images = ((inputs * std + mean).clamp(0, 1) * 255).round().byte()
    colours = palette(classes).to(inputs.device)
    columns = [images, *(overlay(images, mask, colours) for mask in (truth, predicted))]
    rows = torch.cat(columns, dim=3)
    scale = -(-SMALLEST // rows.shape[2])
    rows = F.interpolate(rows.float(), scale_factor=scale).byte()
    return rows.transpose(0, 1).flatten(1, 2)
