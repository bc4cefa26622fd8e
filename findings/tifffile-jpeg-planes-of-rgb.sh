#!/bin/sh
# tifffile 2026.3.3 with imagecodecs 2026.3.6; files written and read by GDAL (rasterio 1.4.4)
#
# GDAL writes three bands of 8 bits with COMPRESS=JPEG and INTERLEAVE=BAND as RGB of separate planes,
# each tile a JPEG of one component. tifffile passes the photometric interpretation of the file to
# the decoder of each tile, as if it held three components: it raises Jpeg8Error, "Bogus JPEG
# colorspace". GDAL reads the file, and tifffile reads the same planes if the file says MINISBLACK.
# Seen: GDAL (3, 32, 32), tifffile Jpeg8Error for RGB, and (3, 32, 32) for MINISBLACK.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tifffile==2026.3.3 imagecodecs==2026.3.6 rasterio==1.4.4
cd "$work"
"$work/venv/bin/python" - <<'EOF'
import warnings

import numpy as np
import rasterio
import tifffile

warnings.simplefilter("ignore")  # rasterio's, of images without a place on Earth.
pixels = np.broadcast_to(np.arange(0, 256, 8, dtype=np.uint8), (3, 32, 32))
found = {}
for photometric in ("RGB", "MINISBLACK"):
    options = {"compress": "JPEG", "interleave": "BAND", "photometric": photometric}
    size = {"height": 32, "width": 32, "count": 3, "dtype": "uint8"}
    with rasterio.open(f"{photometric}.tif", "w", driver="GTiff", **size, **options) as file:
        file.write(pixels)
    with rasterio.open(f"{photometric}.tif") as file:
        gdal = file.read()
        assert np.abs(gdal.astype(int) - pixels).max() < 8
    try:
        read = tifffile.imread(f"{photometric}.tif")
        assert np.abs(read.astype(int) - gdal).max() <= 1
        found[photometric] = str(read.shape)
    except Exception as error:
        found[photometric] = f"{type(error).__name__}: {error}"
    print(f"{photometric}: GDAL {gdal.shape}, tifffile {found[photometric]}")
assert found == {"RGB": "Jpeg8Error: Bogus JPEG colorspace", "MINISBLACK": "(3, 32, 32)"}, found
EOF
