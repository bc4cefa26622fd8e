"""Clips as frames of their segments (arXiv:1608.00859)."""

from torch import Tensor


def by_clip(frames: Tensor, clips: int) -> Tensor:
    """Reshapes values of frames, (N * segments, ...), to (N, segments, ...).

    Images count as clips of one segment.

    Args:
        clips: N, which is 0 for an empty share of a batch.
    """
    return frames.unflatten(0, (clips, len(frames) // max(1, clips)))


def mean_over_segments(logits: Tensor, clips: int) -> Tensor:
    """Returns the logits of clips, of shape (N, classes): means over frames."""
    return by_clip(logits, clips).mean(dim=1)
