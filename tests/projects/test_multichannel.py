"""Images of any channels and types: GDAL, pydicom, NumPy and ONNX Runtime have the same."""

import itertools
import json
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


def train(zygote, project, data, directory, *flags):
    """Returns the last accuracy, the preprocessing, and what was printed."""
    command = ("train.py", *FLAGS, "--data-dir", data, "--run-dir", directory, *flags)
    said = zygote.output(project, *command)
    [*_, last] = training.read_metrics(directory)
    return last["val_accuracy"], preprocessing_of(directory), said


def preprocessing_of(directory):
    return json.loads((directory / "config.json").read_text())["preprocessing"]


def noise(dtype, *shape):
    rng = np.random.default_rng(0)
    if dtype == "float32":
        return rng.normal(0, 1e4, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def geotiffs(directory, every):
    """Yields paths of GeoTIFFs with what GDAL reads: one of so many combinations."""
    import rasterio  # Of no other test.

    grid = {"crs": "EPSG:4326", "transform": rasterio.Affine(1, 0, 10, 0, -1, 50)}
    grid |= {"driver": "GTiff", "height": 21, "width": 37}
    every_one = (
        dict(zip(GRIDS, values)) for values in itertools.product(*GRIDS.values())
    )
    fitting = (
        kind
        for kind in every_one
        if kind["predictor"] == 1
        or (
            kind["compress"] != "NONE"
            and kind["predictor"] == 2 + (kind["dtype"] == "float32")
        )
    )
    for number, kind in enumerate(itertools.islice(fitting, 0, None, every)):
        path = directory / f"{number}.tif"
        pixels = noise(kind["dtype"], kind.pop("bands"), 21, 37)
        tiles = {"blockxsize": 16, "blockysize": 16} if kind["tiled"] == "YES" else {}
        with rasterio.open(
            path, "w", count=len(pixels), **grid, **kind, **tiles
        ) as file:
            file.write(pixels)
        with rasterio.open(path) as file:
            yield (path, ""), file.read()


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
    table = pydicom.Dataset()
    table.LUTDescriptor, table.ModalityLUTType = [4096, 0, 16], "US"
    table.LUTData = (16 * np.arange(4096, dtype=np.uint16)).tobytes()
    kinds = {
        "eight": (noise("uint8", 21, 37), {"bits": 8}, "uint8"),
        "twelve": (unsigned, {}, "uint16"),
        "signed": (signed, {}, "int16"),
        "rle": (unsigned, {"rle": True}, "uint16"),
        "rescaled": (unsigned, whole, "int16"),
        "fraction": (unsigned, whole | {"RescaleSlope": 0.5}, "float32"),
        "table": (unsigned, {"ModalityLUTSequence": [table]}, "uint16"),
        "inverted": (unsigned, {"kind": "MONOCHROME1"}, "uint16"),
    }
    for name, (pixels, options, dtype) in kinds.items():
        path = directory / f"{name}.dcm"
        expected = write_dicom(path, pixels, **options).astype(dtype)
        yield (path, ""), 4095 - expected if name == "inverted" else expected


def arrays(directory):
    """Yields paths of NumPy arrays in both orders, and of PNG of 16 bits."""
    for dtype, axis in itertools.product(GRIDS["dtype"], ("first", "last")):
        for named, shape in (("", (5, 21, 37)), (axis, (9, 9, 9))):
            pixels, path = (
                noise(dtype, *shape),
                directory / f"{dtype} {axis} {named}.npy",
            )
            stored = pixels if axis == "first" else np.moveaxis(pixels, 0, -1)
            np.save(path, stored)
            yield (path, named), pixels
    for channels in (1, 2, 3, 4):
        pixels, path = noise("uint16", channels, 21, 37), directory / f"{channels}.png"
        image = np.ascontiguousarray(np.moveaxis(pixels, 0, -1).squeeze())
        path.write_bytes(imagecodecs.png_encode(image))
        yield (path, ""), pixels


@pytest.mark.parametrize(
    "every", [499, pytest.param(1, marks=pytest.mark.proof, id="all")]
)
def test_files_are_read_to_the_bit(every, project, zygote, tmp_path):
    kinds = geotiffs(tmp_path, every), dicoms(tmp_path), arrays(tmp_path)
    expected = dict(itertools.chain(*kinds))
    lines = "".join(f"{path}|{axis}\n" for path, axis in expected)
    (tmp_path / "list").write_text(lines)
    zygote.output(project, "read.py", tmp_path / "list")
    for (path, _), pixels in expected.items():
        found = np.load(f"{path}.read.npy")
        assert found.dtype == pixels.dtype, path
        np.testing.assert_array_equal(found, pixels, str(path))


def blobs(count, channels, height, mean, sigma):
    """Yields noise of which every second image has a bright disk in the last channel."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    for number in range(count):
        pixels = rng.normal(mean, sigma, (channels, SIDE, SIDE))
        top, left = rng.integers(7, SIDE - 7, 2)
        disk = ((y - top) ** 2 + (x - left) ** 2 < 30) & (number % 2 == 1)
        pixels[-1][disk] += height
        yield "train" if number % 4 < 2 else "val", number, pixels, disk


def path_of(directory, split, number, ending):
    path = directory / split / ("none", "disk")[number % 2] / f"{number}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """GeoTIFFs of 16 bits, of which only the fourth channel tells the classes apart."""
    directory = tmp_path_factory.mktemp("bands")
    for split, number, pixels, _ in blobs(160, 4, 1500, 40_000, 300):
        path = path_of(directory, split, number, "tif")
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
    accuracy, _, _ = train(zygote, project, bands, tmp_path / "three", *three)
    assert 0.3 < accuracy < 0.7
    stored = tmp_path / "stored"
    zygote.output(
        project, "convert.py", stored, "--data", "folder", "--data-dir", bands
    )
    _, again, _ = train(zygote, project, stored, tmp_path / "hdf5", "--data", "hdf5")
    assert again == prepared
    training.check_same_run(tmp_path / "files", tmp_path / "hdf5")
    weights = tmp_path / "files/model.pt"
    zygote.output(project, "export.py", weights)
    files = sorted((bands / "val").glob("*/*.tif"))
    options = ("--weights", weights, "--format", "json", "--device", "cpu")
    lines = zygote.output(project, "predict.py", *files, *options).splitlines()
    session = onnxruntime.InferenceSession(weights.with_suffix(".onnx"))
    pixels = np.stack([tifffile.imread(file) for file in files])
    [expected] = session.run(None, {"images": pixels})
    for line, probabilities in zip(lines, expected, strict=True):
        found = {row["class"]: row for row in json.loads(line)["predictions"]}
        values = [found[name]["probability"] for name in ("disk", "none")]
        assert values == pytest.approx(probabilities, abs=1e-5)


@pytest.mark.proof
def test_killed_runs_and_two_ranks_keep_the_statistics(
    project, bands, zygote, tmp_path
):
    """Neither a kill nor a second rank changes them, and they are measured once."""
    flags = (*FLAGS, "--data-dir", bands, "--epochs", 2, "--checkpoint-every", 2)
    kill = {"options": ("--max-restarts", 1), "events": "kill::4"}
    kinds = {"1": {}, "1-killed": kill, "2": {}, "2-killed": kill}
    for name, more in kinds.items():
        command = (*flags, "--run-dir", tmp_path / name, "--resume", "auto")
        ranks = {"processes": int(name[0])}
        result = training.run_ranks(zygote.run, project, *command, **ranks, **more)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("channels: 4 of uint16") == 1
        assert ("resuming from" in result.stdout) == bool(more)
        assert preprocessing_of(tmp_path / name) == preprocessing_of(tmp_path / "1")
    for name in ("1", "2"):
        training.check_same_run(tmp_path / name, tmp_path / f"{name}-killed")


@pytest.mark.proof
def test_twelve_bits_show_what_eight_lose(project, zygote, tmp_path):
    """A signal of 6 of 4,096 levels: 100 % of 12 bits, and chance of the first 8 of them."""
    for split, number, pixels, _ in blobs(160, 1, 6, 2052, 0.7):
        levels = pixels[0].round().astype(np.uint16)
        write_dicom(path_of(tmp_path / "12", split, number, "dcm"), levels)
        eight = Image.fromarray((levels >> 4).astype(np.uint8))
        eight.save(path_of(tmp_path / "8", split, number, "png"))
    accuracy, _, _ = train(zygote, project, tmp_path / "12", tmp_path / "run-12")
    assert accuracy == 1
    accuracy, _, said = train(zygote, project, tmp_path / "8", tmp_path / "run-8")
    assert accuracy == 0.5
    assert "channels with one value only: 1" in said


@pytest.mark.proof
def test_masks_of_five_channels_with_missing_pixels(zygote, tmp_path):
    tricks, data = ("multichannel", "folders", "predict"), tmp_path / "data"
    project = render_subset(tmp_path / "p", Subset.of(*tricks, task="segmentation"))
    for split, number, pixels, disk in blobs(160, 5, 4, 0, 1):
        for kind in ("images", "masks"):
            (data / split / kind).mkdir(parents=True, exist_ok=True)
        pixels[:, 0, :5], pixels[1, 1] = np.nan, np.inf
        image = np.moveaxis(pixels.astype(np.float32), 0, -1)
        np.save(data / split / f"images/{number}.npy", image)
        mask = Image.fromarray(disk.astype(np.uint8))
        mask.save(data / split / f"masks/{number}.png")
    (data / "classes.txt").write_text("ground\ndisk\n")
    weights, out = tmp_path / "run/model.pt", tmp_path / "out"
    command = (*FLAGS, "--data-dir", data, "--run-dir", weights.parent, "--epochs", 12)
    said = zygote.output(project, "train.py", *command)
    assert "channels: 5 of float32" in said
    assert "they get the mean" in said
    [*_, last] = training.read_metrics(weights.parent)
    assert last["val_mean_iou"] > 0.9
    options = ("--weights", weights, "--device", "cpu", "--out", out)
    zygote.output(project, "predict.py", data / "val/images", *options)
    masks = sorted((data / "val/masks").iterdir())
    pairs = [(read_mask(mask), read_mask(out / "masks" / mask.name)) for mask in masks]
    right = np.mean([truth == found for truth, found in pairs])
    assert right == pytest.approx(last["val_pixel_accuracy"])


def read_mask(path):
    with Image.open(path) as image:
        return np.array(image)


@pytest.mark.proof
def test_boxes_of_which_only_the_fourth_channel_counts(zygote, tmp_path):
    """In planar TIFF and NumPy files of floats, of which some pixels have no data."""
    tricks = ("multichannel", "folders", "predict", "resume", "seeding")
    project = render_subset(tmp_path / "p", Subset.of(*tricks, task="detection"))
    data, found = tmp_path / "data", {}
    write_boxes(data)
    flags = (*FLAGS, "--data-dir", data, "--epochs", 4)
    for name, channels in {"all": (), "few": ("--channels", 1, 2, 3, 5)}.items():
        command = (*flags, "--run-dir", tmp_path / name, *channels)
        said = zygote.output(project, "train.py", *command)
        assert f"channels: {4 if channels else 5} of float32" in said
        assert "they get the mean" in said
        found[name] = training.read_metrics(tmp_path / name)[-1]["val_map50"]
    assert found["all"] > 0.95, found
    assert found["few"] < 0.2, found
    [checkpoint, *_] = sorted((tmp_path / "all/checkpoints").iterdir())
    command = (*flags, "--run-dir", tmp_path / "resumed", "--resume", checkpoint)
    said = zygote.output(project, "train.py", *command)
    assert "resuming from" in said
    assert "channels:" not in said
    training.check_same_run(tmp_path / "all", tmp_path / "resumed")
    options = ("--weights", tmp_path / "all/model.pt", "--device", "cpu")
    out = tmp_path / "out/boxes.json"
    zygote.output(project, "predict.py", data / "images/val", *options, "--out", out)
    stems = [path.stem for path in (tmp_path / "out/pictures").iterdir()]
    assert len(stems) == 320
    with_box = {Path(box["file_name"]).stem for box in json.loads(out.read_text())}
    right = np.mean([(stem in with_box) == int(stem) % 2 for stem in stems])
    assert right > 0.9


def write_boxes(data):
    """Writes 320 + 320 images in the layout of YOLO, of which half have a disk."""
    for split, number, pixels, disk in blobs(640, 5, 4, 0, 1):
        image = data / "images" / split / str(number)
        label = data / "labels" / split / f"{number}.txt"
        for path in (image, label):
            path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.roll(pixels, -1, axis=0).astype(np.float32)
        pixels[:, 0, :5], pixels[1, 1] = np.nan, np.inf
        if number % 8 < 4:
            options = {"photometric": "minisblack", "planarconfig": "separate"}
            tifffile.imwrite(f"{image}.tif", pixels, tile=(16, 16), **options)
        else:
            np.save(f"{image}.npy", np.moveaxis(pixels, 0, -1))
        rows, columns = disk.nonzero()
        numbers = []
        if len(rows):
            start = np.array([columns.min(), rows.min()])
            end = np.array([columns.max(), rows.max()]) + 1
            numbers = [0, *(start + end) / 2 / SIDE, *(end - start) / SIDE]
        label.write_text(" ".join(map(str, numbers)))
    described = "names: [disk]\ntrain: images/train\nval: images/val\n"
    (data / "data.yaml").write_text(described)
