"""The catalogue: what people and programs need to know about each trick.

`copier.yml` decides which tricks exist; the tests hold this list, the templates and the
documentation to it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trick:
    """One row of the catalogue."""

    name: str
    """The question in `copier.yml`."""
    title: str
    """What people call it; heads its section in the README of a project."""
    buys: str
    """What the user gets from it, in one sentence; with the title, the help line."""
    module: str
    """Its module in the package of the project."""
    flags: tuple[str, ...]
    """What it adds to the command line of `train.py`."""
    source: str
    """The paper or documentation page to read."""


TRICKS = (
    Trick(
        name="seeding",
        title="Seeding",
        buys="two runs with one seed give the same result",
        module="seeding",
        flags=("--seed", "--deterministic"),
        source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
    ),
    Trick(
        name="parallel",
        title="Several GPUs",
        buys="each takes a share of every batch",
        module="parallel",
        flags=(),
        source="https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
    ),
    Trick(
        name="hdf5",
        title="HDF5",
        buys="data sets larger than memory, read lazily from a few big files",
        module="hdf5",
        flags=("--data hdf5",),
        source="https://docs.h5py.org",
    ),
    Trick(
        name="prefetcher",
        title="Prefetcher",
        buys="the next batch is copied to the GPU while this one computes",
        module="prefetcher",
        flags=(),
        source="https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
    ),
    Trick(
        name="amp",
        title="Automatic mixed precision",
        buys="faster steps and half the activation memory",
        module="amp",
        flags=("--amp-dtype",),
        source="https://docs.pytorch.org/docs/stable/amp.html",
    ),
    Trick(
        name="accumulation",
        title="Gradient accumulation",
        buys="the batch size you want on the memory you have",
        module="accumulation",
        flags=("--accumulation-steps",),
        source="https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",
    ),
    Trick(
        name="swa",
        title="Stochastic weight averaging",
        buys="better generalisation from one run",
        module="swa",
        flags=("--swa-start", "--swa-lr"),
        source="https://arxiv.org/abs/1803.05407",
    ),
    Trick(
        name="mixup",
        title="Mixup and CutMix",
        buys="blended images and labels against overfitting",
        module="mixup",
        flags=("--mixup-alpha", "--cutmix-alpha"),
        source="https://arxiv.org/abs/1710.09412",
    ),
    Trick(
        name="resume",
        title="Resume",
        buys="a stopped run goes on bit for bit from its last checkpoint",
        module="checkpoint",
        flags=("--checkpoint-every", "--keep-checkpoints", "--resume"),
        source="https://docs.pytorch.org/docs/stable/notes/serialization.html",
    ),
)
