#!/bin/sh
# Pillow 13.0.0
#
# A PNG may name one colour that is transparent (the tRNS chunk). `convert("RGBA")` makes it
# transparent for 8-bit colours. For 16-bit colours the key keeps 16 bits, while the pixels are cut
# to their high byte, so no pixel is ever equal: all stay opaque, without a warning. For grey of 2 bits
# the key is compared with the scaled level: key 1 is looked for among levels 0, 85, 170 and 255.
# Seen: alpha of the keyed pixel 0 (RGB, 8 bits), 255 (RGB, 16 bits), 255 (grey, 2 bits).
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pillow==13.0.0
"$work/venv/bin/python" - <<'EOF'
import io
import struct
import zlib

from PIL import Image, __version__


def chunk(name, data):
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png(bits, kind, row, key):
    """Writes one row of two pixels, of which the first has the transparent colour."""
    header = struct.pack(">IIBBBBB", 2, 1, bits, kind, 0, 0, 0)
    return io.BytesIO(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tRNS", struct.pack(f">{len(key)}H", *key))
        + chunk(b"IDAT", zlib.compress(b"\0" + row))
        + chunk(b"IEND", b"")
    )


GREY, RGB = 0, 2
cases = {
    "RGB, 8 bits": png(8, RGB, bytes([7, 8, 9, 1, 2, 3]), (7, 8, 9)),
    "RGB, 16 bits": png(16, RGB, struct.pack(">6H", 700, 800, 900, 1, 2, 3), (700, 800, 900)),
    "grey, 2 bits": png(2, GREY, bytes([0b01100000]), (1,)),
}
found = {}
for name, file in cases.items():
    found[name] = Image.open(file).convert("RGBA").getpixel((0, 0))[3]
    print(f"Pillow {__version__}, {name}: alpha of the transparent colour {found[name]}")
assert found == {"RGB, 8 bits": 0, "RGB, 16 bits": 255, "grey, 2 bits": 255}, found
EOF
