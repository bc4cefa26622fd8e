"""Image files, and how they are decoded."""

import struct
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from leaf_diseases.data.image_files import describe_files, read_image
from leaf_diseases.errors import UserError
from PIL import ExifTags, Image, ImageOps
from test_image_files import photo


def save_deep(path: Path, pixels: np.ndarray) -> None:
    """Saves grey pixels of 16 bits in the format of the suffix."""
    height, width = pixels.shape
    if path.suffix == ".pgm":
        header = f"P5 {width} {height} 65535\n".encode()
        path.write_bytes(header + pixels.astype(">u2").tobytes())
    elif path.stem == "big-endian":
        data = pixels.astype(">u2").tobytes()
        Image.frombytes("I;16B", (width, height), data).save(path)
    else:
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 3
        Image.fromarray(pixels[::-1, ::-1].copy()).save(path, exif=exif)


def save_tiff(path: Path, bits: int, photometric: int, data: bytes) -> None:
    """Saves four grey pixels as a TIFF, of which Pillow writes none with 12 bits."""
    values = {256: 4, 257: 1, 258: bits, 259: 1, 262: photometric, 273: 110}
    values |= {277: 1, 279: len(data)}
    tags = b"".join(struct.pack("<HHII", tag, 4, 1, n) for tag, n in values.items())
    path.write_bytes(struct.pack("<4sIH", b"II*\0", 8, 8) + tags + bytes(4) + data)


@pytest.mark.parametrize(
    ("bits", "photometric"), [(8, 0), (8, 1), (12, 1), (16, 0), (16, 1)]
)
def test_tiffs_have_the_same_levels_with_any_bits(
    tmp_path: Path, bits: int, photometric: int
) -> None:
    """As X-rays and scientific cameras have, and where 0 is white, too."""
    data = {8: "0033ffcc", 12: "000333fffccc", 16: "00003333ffffcccc"}[bits]
    numbers = bytes.fromhex(data)
    if bits == 16:
        numbers = np.frombuffer(numbers, ">u2").astype("<u2").tobytes()
    save_tiff(tmp_path / "x.tif", bits, photometric, numbers)
    levels = [0, 51, 255, 204] if photometric else [255, 204, 0, 51]
    assert read_image(tmp_path / "x.tif")[0].tolist() == [levels]


@pytest.mark.parametrize("name", ["a.png", "a.tif", "big-endian.tif", "a.pgm"])
def test_16_bits_are_scaled_to_8(tmp_path: Path, name: str) -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(8, 32)
    # On one scale for all images, whatever their brightest pixel is.
    for brightest in (255, 9):
        few = levels.clip(0, brightest)
        save_deep(tmp_path / name, few.astype(np.uint16) * 257)
        found = read_image(tmp_path / name)
        assert np.array_equal(found.numpy(), np.stack([few] * 3))
    near = np.array([[128, 129, 65535 - 129, 65535 - 128]], np.uint16)
    save_deep(tmp_path / name, near)
    assert read_image(tmp_path / name)[0].tolist() == [[0, 1, 254, 255]]


@pytest.mark.parametrize("kind", [12, 16, "white is 0", "colour"])
def test_the_largest_value_of_dark_images_is_said(
    tmp_path: Path, kind: int | str
) -> None:
    """Pillow reads the upper bytes of colours alone."""
    path = tmp_path / "x.tif"
    values = np.array([0, 9, 60, 40], "<u2")
    if kind == 12:
        save_tiff(path, 12, 1, bytes.fromhex("00000903c028"))
    elif kind == "colour":
        path = tmp_path / "x.png"
        path.write_bytes(imagecodecs.png_encode(np.repeat(values, 3).reshape(1, 4, 3)))
    else:
        photometric = int(kind == 16)
        values = values if photometric else 65535 - values
        save_tiff(path, 16, photometric, values.tobytes())
    [line] = describe_files([path])
    largest = "255" if kind == "colour" else "60"
    white = "4,095" if kind == 12 else "65,535"
    assert f"their largest value is {largest} of {white}, in {path}" in line


@pytest.mark.parametrize("size", [(1000, 1400), (1403, 1001)])
@pytest.mark.parametrize("kind", ["RGB", "L", "CMYK", "progressive", "4:2:0", "MPO"])
def test_large_jpegs_are_upright_and_whole_at_every_scale(
    tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    """As Pillow decodes and resizes all pixels."""
    large = photo(kind if kind in ("L", "CMYK") else "RGB")
    large = large.resize(size, Image.Resampling.BICUBIC)
    options: dict[str, Any] = {"quality": 95, "subsampling": 2 * (kind == "4:2:0")}
    options |= {"progressive": kind == "progressive"}
    if kind == "MPO":
        options = {"format": "MPO", "save_all": True, "append_images": [large]}
    path, exif = tmp_path / "large.jpg", Image.Exif()
    for orientation in (1, 3, 6):
        exif[ExifTags.Base.Orientation] = orientation
        large.save(path, exif=exif, **options)
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
        for scale, least in {1: 501, 2: 500, 4: 250, 8: 125}.items():
            found = read_image(path, least)
            width, height = (-(-side // scale) for side in upright.size)
            assert found.shape == (3, height, width)
            small = np.asarray(upright.resize((width, height), Image.Resampling.BOX))
            pixels = found.movedim(0, -1).numpy()
            assert np.abs(pixels - small.astype(np.float32)).mean() < 1.5


def test_a_large_jpeg_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    photo().resize((1200, 1200)).save(path)
    path.write_bytes(path.read_bytes()[:-2000])
    for least in (150, None):
        with pytest.raises(UserError, match="large.jpg is no readable.* truncated"):
            read_image(path, least)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_without_a_known_range_are_refused(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (4, 4), 1).save(tmp_path / "depth.tif")
    with pytest.raises(UserError, match=f"depth.tif is no readable.* mode {mode} has"):
        read_image(tmp_path / "depth.tif")


def exif_of(orientation: bytes, end: bytes = b"") -> bytes:
    """Returns EXIF tags, of which the second says it is text but has another type."""
    tags = [(0x112, 3, 1, orientation), (0x128, 2, 2, b"2\0\0\0")]
    entries = b"".join(struct.pack(">HHI", *tag[:3]) + tag[3] for tag in tags)
    header = b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">H", len(tags))
    return header + entries + b"\0" * 8 + end


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_of_damaged_tags_only_the_orientation_matters(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"turned.{suffix}"
    turned = exif_of(b"\0\6\0\0")
    for exif, upright in (
        (turned, True),
        (exif_of(b"\0\xff\0\0"), False),
        (turned.replace(b"MM", b"XX"), False),
        (turned[:12], False),
    ):
        photo().save(path, exif=exif)
        assert read_image(path).shape == ((3, 20, 10) if upright else (3, 10, 20))


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        *((f"a.{kind}", "RGBA", {}) for kind in ("png", "tif", "tga", "gif")),
        ("a.webp", "RGBA", {"lossless": True, "exact": True}),
        ("la.png", "LA", {}),
        ("palette.png", "P", {"transparency": bytes([0, *[255] * 255])}),
        ("a.gif", "P", {"transparency": 0}),
        *((f"{mode}.png", mode, {"transparency": 0}) for mode in ("1", "L", "I;16")),
        ("rgb.png", "RGB", {"transparency": (0, 0, 0)}),
    ],
)
def test_transparent_pixels_are_white(
    tmp_path: Path, name: str, mode: str, options: dict[str, Any]
) -> None:
    """Black is under them, and grey beside them."""
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (255, 255, 255, 255) if mode == "1" else (9, 9, 9, 255))
    if mode == "P":
        image = Image.new("P", (2, 1))
        image.putpalette([0, 0, 0, 9, 9, 9])
        image.putpixel((1, 0), 1)
    elif mode == "I;16":
        image = Image.fromarray(np.array([[0, 9 * 257]], np.uint16))
    image.convert(mode).save(tmp_path / name, **options)
    second = 255 if mode == "1" else 9
    assert read_image(tmp_path / name)[:, 0].tolist() == [[255, second]] * 3


def test_half_transparent_pixels_are_mixed_with_white(tmp_path: Path) -> None:
    Image.new("RGBA", (1, 1), (0, 100, 200, 51)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").ravel().tolist() == [204, 224, 244]
