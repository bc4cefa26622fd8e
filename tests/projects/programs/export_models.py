"""Exports models with random weights by a project's export.py, which compares the files.

Run in a project, with a name of `--model` and an image size for each. A name behind `bilinear`
is of a model with bilinear pooling.
"""

import copy
import sys
import tempfile
from itertools import count
from pathlib import Path

import export
import torch
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.models.bilinear_pooling import use_bilinear_pooling
from leaf_diseases.models.networks import build_model
from leaf_diseases.models.trained import Trained
from leaf_diseases.settings import Settings
from leaf_diseases.task import Task
from torch import nn

CLASSES = ["a", "b", "c", "d", "e"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main():
    arguments = iter(sys.argv[1:])
    for words, size in zip(arguments, map(int, arguments), strict=True):
        *pooling, name = words.split()
        prepared = Preprocessing((size, size), (size, size), MEAN, STD)
        for seed in count():
            torch.manual_seed(seed)
            model = build_model(name, len(CLASSES), prepared)
            if pooling:
                use_bilinear_pooling(model, name, prepared.example())
            model = make_lively(model, prepared)
            if is_well_conditioned(model, prepared):
                break
        settings, device = Settings(model=name), torch.device("cpu")
        trained = Trained(model, Task(CLASSES), prepared, settings, device)
        with tempfile.TemporaryDirectory() as directory:
            export.export(trained, Path(directory, "model"), ("pt2", "onnx"))


class Standardized(nn.Module):
    """A model whose logits have mean 0 and a deviation of about 1 over some images.

    Those of many fresh models hardly depend on the image, or leave all others at zero.
    """

    def __init__(self, model, images):
        super().__init__()
        self.model = model
        outputs = model(images)
        self.register_buffer("mean", outputs.mean(dim=0))
        self.register_buffer("std", outputs.std(dim=0).mean())

    def forward(self, images):
        return (self.model(images) - self.mean) / self.std


@torch.no_grad()
def is_well_conditioned(model, prepared):
    """Returns whether float32 computes the outputs well: some random models amplify rounding."""
    inputs = prepared.example(5)
    exact = copy.deepcopy(model).double()(inputs.double()).softmax(dim=1)
    found = model(inputs).softmax(dim=1)
    return torch.allclose(found.double(), exact, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def make_lively(model, prepared):
    """Returns a model that gives each image other probabilities."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # Takes over the statistics of the batch.
    images = prepared.normalize(torch.randint(256, (8, *prepared.shape)).byte())
    model.train()(images)
    return Standardized(model.eval(), images).eval()


main()
