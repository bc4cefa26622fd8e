#!/bin/sh
# Pillow 13.0.0
#
# `save(file, "AVIF", exif=exif)` removes the orientation from the Exif object of the caller, because AVIF
# stores it elsewhere. The next file that is saved with this object has no orientation. The Exif object
# of an opened photo is that of `getexif()`, so exif_transpose() no longer turns this photo either. JPEG,
# PNG, WebP and TIFF leave the object as it is.
# Seen: the orientation 6 of the object after a save as JPEG, PNG, WebP and TIFF, and none after AVIF;
# exif_transpose() gives (2, 4) before the save of a photo as AVIF, and (4, 2) after it.
# Way out: pass a copy, or exif.tobytes().
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pillow==13.0.0
"$work/venv/bin/python" - <<'EOF'
import io

from PIL import Image, ImageOps, __version__

ORIENTATION = 274


def tags():
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # Turned by 90 degrees.
    return exif


found = {}
for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF"):
    exif = tags()
    Image.new("RGB", (4, 2)).save(io.BytesIO(), kind, exif=exif)
    found[kind] = exif.get(ORIENTATION)
    print(f"Pillow {__version__}, {kind}: orientation of the caller's object {found[kind]}")

file = io.BytesIO()
Image.new("RGB", (4, 2)).save(file, "JPEG", exif=tags())
photo = Image.open(file)
before = ImageOps.exif_transpose(photo).size
photo.save(io.BytesIO(), "AVIF", exif=photo.getexif())
after = ImageOps.exif_transpose(photo).size
print(f"a photo is turned to {before}, and after the save as AVIF to {after}")

jpeg = io.BytesIO()
photo.save(jpeg, "JPEG", exif=photo.getexif())
print("a JPEG that is saved next has the orientation", Image.open(jpeg).getexif().get(ORIENTATION))
assert found == {"JPEG": 6, "PNG": 6, "WEBP": 6, "TIFF": 6, "AVIF": None}, found
assert (before, after) == ((2, 4), (4, 2)), (before, after)
EOF
