"""Search for the C or C++ compiler that torch.compile() needs."""

import os
import shutil
import sys

import torch


def missing_compiler(device: torch.device) -> str | None:
    """Returns a message if torch.compile() would find no compiler, else None.

    torch compiles C++ on a CPU. On a GPU, Triton compiles C.
    """
    if sys.platform != "linux":  # torch uses other compilers there.
        return None
    if device.type == "cuda":
        names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
        language = "C"
    else:
        names, language = [os.environ.get("CXX", "g++")], "C++"
    if any(map(shutil.which, names)):
        return None
    return f"there is no {language} compiler ({' or '.join(names)})"
