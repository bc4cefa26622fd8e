"""Images of any channels and types: GDAL, pydicom, NumPy and ONNX Runtime have the same."""

import itertools
import json
import re
from pathlib import Path

import imagecodecs
import numpy as np
import pydicom
import pytest
import tifffile
import training
from PIL import Image
from pydicom.pixels import apply_modality_lut
from pydicom.uid import (
    ExplicitVRLittleEndian,
    RLELossless,
    SecondaryCaptureImageStorage,
)
from rendering import PACKAGE, render_subset
from subsets import TASKS, Subset

CHOSEN = ("multichannel", "csv", "folders", "hdf5", "predict", "export", "resume")
SIDE = 24
FLAGS = (
    *("--data", "folder", "--image-size", SIDE, "--batch-size", 16, "--epochs", 8),
    *("--num-workers", 0, "--device", "cpu", "--log-every", 1),
)
READER = f"""
import sys
import numpy as np
from {PACKAGE}.data.image_files import Reading, decode_pixels

for name, *reading in (line.rstrip("\\n").split("|") for line in open(sys.argv[1])):
    axis = reading[0] or None
    pixels = decode_pixels(np.fromfile(name, np.uint8), Reading(channel_axis=axis))
    np.save(f"{{name}}.read.npy", pixels)
"""
GRIDS = {
    "dtype": ("uint8", "uint16", "int16", "float32"),
    "bands": range(1, 9),
    "compress": ("NONE", "LZW", "DEFLATE", "ZSTD"),
    "predictor": (1, 2, 3),
    "tiled": ("NO", "YES"),
    "interleave": ("PIXEL", "BAND"),
    "endianness": ("LITTLE", "BIG"),
    "bigtiff": ("NO", "YES"),
}
"""What GDAL writes: all combinations, except predictors that do not fit."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that trains on one process or several."""
    path = tmp_path_factory.mktemp("multichannel") / "project"
    render_subset(path, Subset.of(*CHOSEN, parallel="ddp", task=TASKS[0]))
    (path / "read.py").write_text(READER)
    return path


def run(zygote, project, *command):
    result = zygote.run(project, *command)
    assert result.returncode == 0, result.stderr
    return result.stdout


def train(zygote, project, data, directory, *flags):
    """Returns the last accuracy, the preprocessing, and what was printed."""
    command = ("train.py", *FLAGS, "--data-dir", data, "--run-dir", directory, *flags)
    said = run(zygote, project, *command)
    [*_, last] = training.read_metrics(directory)
    return last["val_accuracy"], preprocessing_of(directory), said


def preprocessing_of(directory):
    return json.loads((directory / "config.json").read_text())["preprocessing"]


def check_reading(zygote, project, directory, expected):
    """Checks that files are read to the bit, as (path, axis): pixels of (channels, H, W)."""
    lines = "".join(f"{path}|{axis}\n" for path, axis in expected)
    (directory / "list").write_text(lines)
    run(zygote, project, "read.py", directory / "list")
    for (path, _), pixels in expected.items():
        found = np.load(f"{path}.read.npy")
        assert found.dtype == pixels.dtype, path
        np.testing.assert_array_equal(found, pixels, str(path))


def noise(dtype, *shape):
    rng = np.random.default_rng(0)
    if dtype == "float32":
        return rng.normal(0, 1e4, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def write_geotiff(path: Path, dtype, bands, **options):
    """Writes noise by GDAL, and returns what GDAL reads."""
    import rasterio  # Of no other test.

    pixels = noise(dtype, bands, 21, 37)
    if options["tiled"] == "YES":
        options |= {"blockxsize": 16, "blockysize": 16}
    grid = {
        "transform": rasterio.Affine(1, 0, 10, 0, -1, 50),
        "crs": "EPSG:4326",
    }
    shape = {"count": bands, "height": 21, "width": 37, "dtype": dtype}
    with rasterio.open(path, "w", driver="GTiff", **shape, **grid, **options) as file:
        file.write(pixels)
    with rasterio.open(path) as file:
        return file.read()


def geotiffs(directory, every):
    """Yields paths of GeoTIFFs with what GDAL reads: one of so many combinations."""
    grids = map(
        dict, itertools.product(*[[(k, v) for v in vs] for k, vs in GRIDS.items()])
    )
    fitting = (
        grid
        for grid in grids
        if (grid["predictor"] == 1 or grid["compress"] != "NONE")
        and (grid["predictor"] < 3 or grid["dtype"] == "float32")
    )
    for number, grid in enumerate(itertools.islice(fitting, 0, None, every)):
        path = directory / f"{number} {' '.join(map(str, grid.values()))}.tif"
        yield (path, ""), write_geotiff(path, **grid)


def write_dicom(path, pixels, bits=12, kind="MONOCHROME2", rle=False, **elements):
    """Writes one channel as DICOM, and returns pydicom's values, after the rescale."""
    file = pydicom.Dataset()
    file.file_meta = pydicom.dataset.FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.SOPClassUID, file.SOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
    file.Rows, file.Columns = pixels.shape
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, kind
    file.BitsAllocated, file.BitsStored = 8 * pixels.itemsize, bits
    file.HighBit, file.PixelRepresentation = bits - 1, int(pixels.dtype.kind == "i")
    file.PixelData = pixels.tobytes()
    for name, value in elements.items():
        setattr(file, name, value)
    if rle:
        file.compress(RLELossless)
    file.save_as(path, enforce_file_format=True)
    read = pydicom.dcmread(path)
    return apply_modality_lut(read.pixel_array, read)[np.newaxis]


def dicoms(directory):
    """Yields paths of DICOM files with pydicom's values, in the smallest type."""
    unsigned, signed = noise("uint16", 21, 37) >> 4, noise("int16", 21, 37) >> 4
    whole = {"RescaleSlope": 2, "RescaleIntercept": -1024}
    kinds = {
        "uint8": (noise("uint8", 21, 37), {"bits": 8}, "uint8"),
        "12 bits": (unsigned, {}, "uint16"),
        "signed": (signed, {}, "int16"),
        "rle": (unsigned, {"rle": True}, "uint16"),
        "rescaled": (unsigned, whole, "int16"),
        "fraction": (unsigned, whole | {"RescaleSlope": 0.5}, "float32"),
        "inverted": (unsigned, {"kind": "MONOCHROME1"}, "uint16"),
    }
    for name, (pixels, options, dtype) in kinds.items():
        path = directory / f"{name}.dcm"
        expected = write_dicom(path, pixels, **options).astype(dtype)
        yield (path, ""), 4095 - expected if name == "inverted" else expected


def arrays(directory):
    """Yields paths of NumPy arrays, PNGs of 16 bits and OME-TIFFs with their pixels."""
    for dtype, last in itertools.product(GRIDS["dtype"], (False, True)):
        for axis, shape in {
            "": (5, 21, 37),
            "first": (9, 9, 9),
            "last": (9, 9, 9),
        }.items():
            pixels, path = (
                noise(dtype, *shape),
                directory / f"{dtype} {last} {axis}.npy",
            )
            is_last = axis == "last" or (not axis and last)
            stored = np.moveaxis(pixels, 0, -1) if is_last else pixels
            np.save(path, np.asfortranarray(stored) if last else stored)
            yield (path, axis), pixels
    for channels in (1, 3):
        pixels, path = noise("uint16", channels, 21, 37), directory / f"{channels}.png"
        image = np.ascontiguousarray(np.moveaxis(pixels, 0, -1).squeeze())
        path.write_bytes(imagecodecs.png_encode(image))
        yield (path, ""), pixels
    pixels, path = noise("uint16", 4, 21, 37), directory / "image.ome.tif"
    tifffile.imwrite(path, pixels, metadata={"axes": "CYX"}, ome=True)
    yield (path, ""), pixels


@pytest.mark.parametrize(
    "every", [997, pytest.param(1, marks=pytest.mark.proof, id="all")]
)
def test_files_are_read_to_the_bit(every, project, zygote, tmp_path):
    expected = dict(
        itertools.chain(geotiffs(tmp_path, every), dicoms(tmp_path), arrays(tmp_path))
    )
    check_reading(zygote, project, tmp_path, expected)


def blobs(count, channels, height, mean, sigma):
    """Yields noise of which every second image has a bright disk in the last channel."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    for number in range(count):
        pixels = rng.normal(mean, sigma, (channels, SIDE, SIDE))
        top, left = rng.integers(7, SIDE - 7, 2)
        disk = ((y - top) ** 2 + (x - left) ** 2 < 30) & (number % 2 == 1)
        pixels[-1][disk] += height
        split = "val" if number % 4 < 2 else "train"
        yield f"{split}/{'disk' if number % 2 else 'none'}", number, pixels


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """GeoTIFFs of 16 bits, of which only the fourth channel tells the classes apart."""
    directory = tmp_path_factory.mktemp("bands")
    for split, number, pixels in blobs(160, 4, 1500, 40_000, 300):
        path = directory / split / f"{number}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        tifffile.imwrite(path, pixels.astype(np.uint16), photometric="minisblack")
    return directory


@pytest.mark.proof
def test_the_fourth_channel_counts_in_every_form(project, bands, zygote, tmp_path):
    """It is learnt, survives HDF5 to the bit, and is in predictions and exported files."""
    import onnxruntime

    accuracy, prepared, _ = train(zygote, project, bands, tmp_path / "files")
    assert accuracy == 1
    assert (prepared["dtype"], len(prepared["mean"])) == ("uint16", 4)
    three = ("--channels", 1, 2, 3)
    accuracy, prepared, _ = train(zygote, project, bands, tmp_path / "three", *three)
    assert 0.3 < accuracy < 0.7
    assert len(prepared["mean"]) == 3
    stored = tmp_path / "stored"
    run(zygote, project, "convert.py", stored, "--data", "folder", "--data-dir", bands)
    train(zygote, project, stored, tmp_path / "hdf5", "--data", "hdf5")
    assert preprocessing_of(tmp_path / "hdf5") == preprocessing_of(tmp_path / "files")
    training.check_same_run(tmp_path / "files", tmp_path / "hdf5")
    weights = tmp_path / "files/model.pt"
    run(zygote, project, "export.py", weights)
    files = sorted((bands / "val").glob("*/*.tif"))
    arguments = ("predict.py", *files, "--weights", weights, "--format", "json")
    lines = run(zygote, project, *arguments, "--device", "cpu").splitlines()
    session = onnxruntime.InferenceSession(weights.with_suffix(".onnx"))
    pixels = np.stack([tifffile.imread(file) for file in files])
    [expected] = session.run(None, {"images": pixels})
    for line, probabilities in zip(lines, expected, strict=True):
        found = {row["class"]: row for row in json.loads(line)["predictions"]}
        values = [found[name]["probability"] for name in ("disk", "none")]
        assert values == pytest.approx(probabilities, abs=1e-5)


@pytest.mark.proof
def test_a_killed_run_and_two_ranks_keep_the_statistics(
    project, bands, zygote, tmp_path
):
    """Neither a kill nor a second rank changes them, and they are measured once."""
    flags = (*FLAGS, "--data-dir", bands, "--epochs", 2, "--checkpoint-every", 2)
    options = {"options": ("--max-restarts", 1), "events": "kill::4"}
    for name, processes, more in (
        ("whole", 1, {}),
        ("killed", 1, options),
        ("two", 2, {}),
        ("killed-two", 2, options),
    ):
        command = (*flags, "--run-dir", tmp_path / name, "--resume", "auto")
        result = training.run_ranks(
            zygote.run, project, *command, processes=processes, **more
        )
        assert result.returncode == 0, result.stderr
        # An attempt prints it again if it measures again.
        assert (
            len(re.findall("^channels: 4 of uint16", result.stdout, re.MULTILINE)) == 1
        )
        assert preprocessing_of(tmp_path / name) == preprocessing_of(tmp_path / "whole")
    training.check_same_run(tmp_path / "whole", tmp_path / "killed")
    training.check_same_run(tmp_path / "two", tmp_path / "killed-two")


@pytest.mark.proof
def test_twelve_bits_show_what_eight_lose(project, zygote, tmp_path):
    """A signal of 6 of 4,096 levels: 100 % of 12 bits, and chance of the first 8 of them."""
    for split, number, pixels in blobs(160, 1, 6, 2052, 0.7):
        levels = pixels[0].round().astype(np.uint16)
        for name in ("12", "8"):
            (tmp_path / name / split).mkdir(parents=True, exist_ok=True)
        write_dicom(tmp_path / "12" / split / f"{number}.dcm", levels)
        eight = Image.fromarray((levels >> 4).astype(np.uint8))
        eight.save(tmp_path / "8" / split / f"{number}.png")
    found = {
        name: train(zygote, project, tmp_path / name, tmp_path / f"run-{name}")
        for name in ("12", "8")
    }
    assert found["12"][0] == 1
    assert 0.3 < found["8"][0] < 0.7
    assert "channels with one value only: 1" in found["8"][2]


@pytest.mark.proof
def test_masks_of_five_channels_with_missing_pixels(zygote, tmp_path):
    tricks, data = ("multichannel", "folders", "predict"), tmp_path / "data"
    project = render_subset(tmp_path / "p", Subset.of(*tricks, task="segmentation"))
    for _, number, pixels in blobs(96, 5, 4, 0, 1):
        pixels = pixels.astype(np.float32)
        split = data / ("val" if number % 8 < 2 else "train")
        for kind in ("images", "masks"):
            (split / kind).mkdir(parents=True, exist_ok=True)
        y, x = np.mgrid[:SIDE, :SIDE]
        top, left = np.random.default_rng(number).integers(7, SIDE - 7, 2)
        disk = (y - top) ** 2 + (x - left) ** 2 < 30
        pixels[4] = np.where(disk, 4, 0) + pixels[0]
        pixels[:, 0, :5], pixels[1, 1] = np.nan, np.inf
        image = np.moveaxis(pixels, 0, -1) if number % 3 else pixels
        np.save(split / f"images/{number}.npy", image)
        Image.fromarray(disk.astype(np.uint8)).save(split / f"masks/{number}.png")
    (data / "classes.txt").write_text("ground\ndisk\n")
    directory = tmp_path / "run"
    command = (*FLAGS, "--data-dir", data, "--run-dir", directory, "--epochs", 15)
    said = run(zygote, project, "train.py", *command)
    assert "channels: 5 of float32" in said
    assert "they get the mean" in said
    assert training.read_metrics(directory)[-1]["val_mean_iou"] > 0.9
    arguments = ("--weights", directory / "model.pt", "--device", "cpu", "--out")
    images = data / "val/images"
    run(zygote, project, "predict.py", images, *arguments, tmp_path / "out")
    masks = sorted((data / "val/masks").iterdir())
    pairs = [
        [np.array(Image.open(p)) for p in (m, tmp_path / "out/masks" / m.name)]
        for m in masks
    ]
    assert np.mean([truth == found for truth, found in pairs]) > 0.99
