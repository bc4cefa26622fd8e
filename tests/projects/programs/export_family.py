"""Exports a model with random weights by a project's export.py, and prints what that prints.

Run in a project, with a name of `--model`, an image size and, where pooling is to be
bilinear, that word.
"""

import resource
import sys
from pathlib import Path

import export
import torch
from leaf_diseases.data.transforms import Preprocessing
from leaf_diseases.models.bilinear_pooling import use_bilinear_pooling
from leaf_diseases.models.networks import build_model
from leaf_diseases.models.trained import Trained
from leaf_diseases.settings import Settings
from torch import nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main():
    name, image_size, *pooling = sys.argv[1:]
    size = int(image_size)
    torch.manual_seed(0)
    model = build_model(name, 5, size)
    if pooling == ["bilinear"]:
        use_bilinear_pooling(model, name, size)
    settings = Settings(model=name)
    preprocessing = Preprocessing(size, size, MEAN, STD)
    make_lively(model, size)
    trained = Trained(model, [*"abcde"], preprocessing, settings, torch.device("cpu"))
    export.export(trained, Path(f"{name}-{size}"), ("pt2", "onnx"))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{used.ru_utime + used.ru_stime:.1f} s")


def make_lively(model, size):
    """Lets the outputs depend on the images, as they hardly do in many fresh models."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # Takes all statistics of the next batch.
    images = torch.randn(8, 3, size, size)
    with torch.no_grad():
        model.train()(images)
        deviation = model.eval()(images).std(dim=0).max()
    assert 0.01 < deviation < 1000, deviation


main()
