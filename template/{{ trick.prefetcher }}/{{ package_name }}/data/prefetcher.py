"""Copies the next batch to the GPU while the current one computes.

https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

import functools
from collections.abc import Iterable, Iterator

import torch

from .images import Batch


def prefetch(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Yields batches on a device, one copy ahead on a CUDA device.

    The copies overlap only if the batches come from pinned memory.
    """
    if device.type != "cuda":
        for batch in batches:
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            yield batch._replace(inputs=inputs, targets=targets)
        return
    source = iter(batches)
    copy_stream = stream_for_copies(device)

    def start_copy() -> Batch | None:
        batch = next(source, None)
        if batch is None:
            return None
        with torch.cuda.stream(copy_stream):
            return batch._replace(
                inputs=batch.inputs.to(device, non_blocking=True),
                targets=batch.targets.to(device, non_blocking=True),
            )

    copied = start_copy()
    while copied is not None:
        compute_stream = torch.cuda.current_stream(device)
        compute_stream.wait_stream(copy_stream)
        for tensor in (copied.inputs, copied.targets):
            # Otherwise the copy stream could reuse the memory while it is being read.
            tensor.record_stream(compute_stream)
        current, copied = copied, start_copy()
        yield current


@functools.cache
def stream_for_copies(device: torch.device) -> torch.cuda.Stream:
    """Returns the CUDA stream for the copies of all batches.

    Memory stays with the stream that allocated it: with a new stream for each pass over
    the data, each pass would leave memory behind.
    """
    return torch.cuda.Stream(device)
