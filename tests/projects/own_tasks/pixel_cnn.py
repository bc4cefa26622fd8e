"""A small network with logits for each pixel."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PixelCNN(nn.Module):
    """Sees what is at a pixel, and what is around it in squares of 8 pixels."""

    def __init__(self, num_classes: int, width: int = 8) -> None:
        super().__init__()
        self.fine = nn.Sequential(conv_block(3, width), conv_block(width, width))
        self.coarse = nn.Sequential(nn.MaxPool2d(8), conv_block(width, width))
        self.classifier = nn.Conv2d(2 * width, num_classes, kernel_size=1)

    def forward(self, inputs: Tensor) -> Tensor:
        fine = self.fine(inputs)
        coarse = F.interpolate(self.coarse(fine), fine.shape[2:])
        return self.classifier(torch.cat([fine, coarse], dim=1))


def conv_block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
