"""Training on a cluster of Ray: runs are made by actors wherever there are cores, the learner stays in one place.

    plimsoll.ray.train("scenario.toml", "models/mine", workers=8, address="auto")
    plimsoll.ray.tune("scenario.toml", address="auto")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .crew import Crew, LostWorkers
    from .search import tune
    from .training import train

__all__ = ["Crew", "LostWorkers", "train", "tune"]

_MODULES = {"Crew": ".crew", "LostWorkers": ".crew", "train": ".training", "tune": ".search"}


def __getattr__(name: str) -> Any:
    """Ray is imported when it is needed, so that the command can say that it is missing."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
