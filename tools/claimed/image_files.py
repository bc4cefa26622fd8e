"""Statements about Pillow."""

import io

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
    import struct
    import zlib

    from PIL import Image

    def chunk(name: bytes, data: bytes) -> bytes:
        whole = name + data
        return (
            struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))
        )

    rows = b"\0" + struct.pack(">3H", 0x1234, 0x00FF, 0xFF00)
    png = b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">2I5B", 1, 1, 16, 2, 0, 0, 0)
    )
    png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    image = Image.open(io.BytesIO(png))
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
