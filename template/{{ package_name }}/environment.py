"""The machine: which device to use, and what there is."""

import torch

from .command_line import UserError


def choose_device(name: str) -> torch.device:
    """Returns the device of that name; `auto` is the accelerator, if there is one.

    Raises:
        UserError: there is no such device here.
    """
    accelerator = torch.device("cpu")
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator() or accelerator
    if name == "auto":
        return accelerator
    try:
        device = torch.device(name)
        if device.type not in ("cpu", accelerator.type):
            raise RuntimeError(f"no {device.type} here")
        torch.zeros(1, device=device)
    except RuntimeError as error:
        raise UserError(
            f"there is no device {name} here: pass --device cpu or --device auto"
        ) from error
    return device


def describe_environment(device: torch.device) -> str:
    """Returns one line on the versions and the hardware in use."""
    if device.type != "cuda":
        return f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads"
    names = [
        torch.cuda.get_device_name(index)
        for index in range(torch.cuda.device_count())
        if device.index in (None, index)
    ]
    return (
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, "
        f"cuDNN {torch.backends.cudnn.version()}, {', '.join(names)}"
    )
