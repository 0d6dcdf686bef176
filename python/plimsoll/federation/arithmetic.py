"""What is done with weights on their way: cut to a norm, blurred, averaged."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Arrays = list[npt.NDArray[np.float32]]
"""The weights of a network, or a change of them, in the order of their names."""


def norm(arrays: Arrays) -> float:
    """The length of all numbers taken as one vector."""
    return float(np.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in arrays)))


def clipped(update: Arrays, most: float | None, noise: float, rng: np.random.Generator) -> Arrays:
    """An update that is no longer than `most`, with Gaussian noise of `noise` times that length on every number."""
    if noise < 0 or (most is not None and not most > 0):
        raise ValueError(f"an update is cut to a length above zero, with noise of zero or more; these are {most} and {noise}")
    if noise > 0 and most is None:
        raise ValueError("noise is a multiple of the length that updates are cut to; say how long they may be")
    length = norm(update)
    if not np.isfinite(length):
        raise ValueError("the update holds what is no number; the training that made it diverged")
    share = 1.0 if most is None or length <= most else most / length
    spread = noise * (most or 0.0)
    return [(share * array + spread * rng.standard_normal(array.shape)).astype(np.float32) for array in update]


def average(updates: Sequence[Arrays], weights: Sequence[float]) -> Arrays:
    """The mean of updates, each with its weight."""
    if not updates or len(updates) != len(weights) or not all(weight > 0 for weight in weights):
        raise ValueError(f"there are {len(updates)} updates with the weights {list(weights)}; each needs one above zero")
    total = float(sum(weights))
    return [
        sum((weight / total * array.astype(np.float64) for weight, array in zip(weights, arrays, strict=True)), np.zeros(())).astype(np.float32)
        for arrays in zip(*updates, strict=True)
    ]


def moved(network: Arrays, update: Arrays) -> Arrays:
    """A network after an update."""
    return [(array + change).astype(np.float32) for array, change in zip(network, update, strict=True)]
