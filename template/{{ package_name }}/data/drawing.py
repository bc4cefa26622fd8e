"""How shapes are drawn."""

import numpy as np


def inside(shape: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns which points lie in a shape of radius 1 around the origin."""
    radius = np.hypot(x, y)
    match shape:
        case "circle":
            return radius < 0.8
        case "cross":
            return (np.minimum(abs(x), abs(y)) < 0.25) & (radius < 1)
        case "ring":
            return (radius > 0.55) & (radius < 0.95)
        case "square":
            return np.maximum(abs(x), abs(y)) < 0.75
        case "star":
            return radius < 0.65 + 0.35 * np.cos(5 * np.arctan2(y, x))
        case _:  # A triangle with its corners at radius 1.
            return np.maximum(abs(x) * np.sqrt(3) + y, -2 * y) < 1


def contrasting_colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws two RGB colours of shape (3, 1, 1) that differ clearly in one channel."""
    first = rng.uniform(0, 255, size=(3, 1, 1))
    second = rng.uniform(0, 255, size=(3, 1, 1))
    channel = rng.integers(3)
    second[channel] = (first[channel] + rng.uniform(90, 165)) % 255
    return first, second
