"""Statements about Pillow."""

import io
import struct
import zlib

from claimed.claim import claim, raised


@claim(
    "pillow",
    "docs/tricks/folders.md",
    "Of TIFFs with several pages, and of animations, only the first page is read.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    file = io.BytesIO()
    pages = [Image.new("L", (2, 2), value) for value in (10, 20)]
    pages[0].save(file, "tiff", save_all=True, append_images=pages[1:])
    seen = int(np.asarray(Image.open(file))[0, 0])
    assert seen == 10
    return f"the first page has {seen}"


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow has turned a TIFF already.",
)
def _() -> object:
    from PIL import Image

    file = io.BytesIO()
    image = Image.new("L", (4, 2))
    image.save(file, "tiff", tiffinfo={274: 6})
    opened = Image.open(file)
    opened.load()
    assert opened.size == (2, 4)
    return f"(4, 2) with orientation 6 is {opened.size}"


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow would clip: all values from 255 to 65535 would be white.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    grey = Image.fromarray(np.array([[100, 255, 30000]], dtype=np.uint16))
    seen = np.asarray(grey.convert("L")).tolist()
    assert seen == [[100, 255, 255]], seen
    return f"100, 255, 30000 become {seen[0]}"


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow reads the upper 8 bits of colours: the others are unknown.",
)
def _() -> object:
    from PIL import Image

    image = Image.open(png(16, 2, struct.pack(">3H", 0x1234, 0x00FF, 0xFF00)))
    assert image.mode == "RGB" and image.getpixel((0, 0)) == (0x12, 0, 0xFF)
    return image.getpixel((0, 0))


@claim(
    "pillow",
    "docs/recipes/images.md",
    "a cast without clipping wraps around, and Pillow refuses three channels of floats.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    return raised(lambda: Image.fromarray(np.zeros((2, 2, 3), np.float32)), TypeError)


@claim(
    "pillow",
    "docs/data.md",
    "JPEG (`.jpg`, `.jfif`), PNG, WebP, TIFF, BMP, GIF, AVIF, JPEG 2000, PPM and TGA.",
)
def _() -> object:
    from PIL import Image, features

    Image.init()
    for name in (
        "jpg",
        "jfif",
        "png",
        "webp",
        "tif",
        "bmp",
        "gif",
        "avif",
        "jp2",
        "ppm",
        "tga",
    ):
        assert Image.EXTENSION[f".{name}"] in Image.OPEN, name
    assert (
        features.check("avif") and features.check("webp") and features.check("jpg_2000")
    )
    return None


def png(bits: int, kind: int, row: bytes) -> io.BytesIO:
    """Writes a PNG of one pixel."""

    def chunk(name: bytes, data: bytes) -> bytes:
        size, whole = struct.pack(">I", len(data)), name + data
        return size + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", 1, 1, bits, kind, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" + row))
    return io.BytesIO(b"\x89PNG\r\n\x1a\n" + data + chunk(b"IEND", b""))


@claim(
    "pillow",
    "docs/recipes/images.md",
    "Scale 16-bit greyscale images of PNG and TIFF first. Their modes begin with `I;16`.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    modes = []
    for kind in ("png", "tiff"):
        file = io.BytesIO()
        Image.fromarray(np.array([[1000]], np.uint16)).save(file, kind)
        modes.append(Image.open(file).mode)
    assert all(mode.startswith("I;16") for mode in modes)
    return modes


@claim(
    "pillow",
    "docs/recipes/images.md",
    '`convert("RGB")` makes three channels of any mode that a file has, and drops transparency.',
)
def _() -> object:
    from PIL import Image

    modes = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV"]
    for mode in [*modes, "I", "F", "I;16"]:
        assert Image.new(mode, (1, 1)).convert("RGB").mode == "RGB"
    return raised(lambda: Image.new("La", (1, 1)).convert("RGB"))


@claim(
    "pillow",
    "template/**/image_files.py.jinja",
    "Pillow's own message names the BytesIO.",
)
def _() -> object:
    from PIL import Image

    seen = raised(lambda: Image.open(io.BytesIO(b"no image")))
    assert "BytesIO" in seen
    return seen


@claim(
    "pillow",
    "docs/guides/serve.md",
    "Another filter, such as Pillow's default for `resize`, or BGR from OpenCV, lowers the accuracy "
    "without an error.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(256, size=(40, 40), dtype=np.uint8)
    image, filters = Image.fromarray(pixels), Image.Resampling
    default = image.resize((10, 10)).tobytes()
    assert default == image.resize((10, 10), filters.BICUBIC).tobytes()
    assert default != image.resize((10, 10), filters.BILINEAR).tobytes()
    return "the default is bicubic"


@claim(
    "pillow",
    "docs/tricks/folders.md",
    "Only the orientation is read of EXIF tags. Photos are turned upright.",
)
@claim(
    "pillow",
    "template/**/mask_files.py.jinja",
    "Pillow applies the orientation.",
)
def _() -> object:
    from PIL import Image, ImageOps

    sizes = {}
    for kind in ("jpeg", "png", "webp", "avif", "tiff"):
        tags, file = Image.Exif(), io.BytesIO()  # Saving an AVIF changes the tags.
        tags[274] = 6  # Turned by 90 degrees.
        Image.new("RGB", (4, 2)).save(file, kind, exif=tags)
        image = Image.open(file)
        image.load()
        sizes[kind] = image.size
        assert ImageOps.exif_transpose(image).size == (2, 4)
    assert sizes.pop("tiff") == (2, 4) and set(sizes.values()) == {(4, 2)}
    return "only a TIFF is turned when it is opened"


@claim(
    "pillow",
    "template/**/mask_files.py.jinja",
    "Pillow would scale the levels to 0 to 255.",
)
def _() -> object:
    from PIL import Image

    seen = Image.open(png(2, 0, bytes([0b01000000]))).getpixel((0, 0))
    assert seen == 85
    return f"a 1 of two bits becomes {seen}"


@claim(
    "pillow",
    "docs/tasks/segmentation.md",
    "**JPEG masks** are refused, because JPEG changes numbers.",
)
def _() -> object:
    import numpy as np
    from PIL import Image

    mask, file = np.zeros((16, 16), np.uint8), io.BytesIO()
    mask[4:9, 3:11] = 5
    Image.fromarray(mask).save(file, "jpeg")
    seen = np.unique(np.asarray(Image.open(file))).tolist()
    assert len(seen) > 2
    return f"0 and 5 become {seen}"


@claim(
    "pillow",
    "docs/data.md",
    "From an animated GIF, it reads the first frame.",
)
def _() -> object:
    from PIL import Image

    frames = [Image.new("RGB", (2, 2), (v, v, v)) for v in (10, 200)]
    for kind in ("gif", "webp", "png"):
        file = io.BytesIO()
        options = {} if kind == "gif" else {"lossless": True}
        frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
        image = Image.open(file)
        assert image.n_frames == 2
        assert image.convert("RGB").getpixel((0, 0)) == (10, 10, 10), kind
    return "the same of WebP and APNG"


@claim(
    "pillow",
    "docs/guides/own-images.md",
    "HEIC files are left out.",
)
def _() -> object:
    from PIL import Image

    Image.init()
    assert ".heic" not in Image.EXTENSION
    return None
