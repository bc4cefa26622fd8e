"""Shapes and colours that images are drawn from."""

import numpy as np

SHAPES = ["circle", "cross", "ring", "square", "star", "triangle"]
"""Shapes that `inside` knows."""


def pixel_centres(image_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y of the pixels of a square image, from -0.5 to 0.5."""
    axis = (np.arange(image_size, dtype=np.float32) + 0.5) / image_size - 0.5
    y, x = np.meshgrid(axis, axis, indexing="ij")
    return x, y


def rotate(x: np.ndarray, y: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns points in the coordinates of axes that are turned by an angle."""
    return (
        x * np.cos(angle) + y * np.sin(angle),
        y * np.cos(angle) - x * np.sin(angle),
    )


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


def draw_colour(rng: np.random.Generator) -> np.ndarray:
    """Draws an RGB colour of shape (3, 1, 1)."""
    return rng.uniform(0, 255, size=(3, 1, 1))


def draw_contrast(rng: np.random.Generator, colour: np.ndarray) -> np.ndarray:
    """Draws another colour, which differs clearly from a first one in one channel."""
    other = draw_colour(rng)
    channel = rng.integers(3)
    other[channel] = (colour[channel] + rng.uniform(90, 165)) % 255
    return other
