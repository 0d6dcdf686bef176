"""Training on a cluster of Ray: runs are made by actors wherever there are cores, the learner stays in one place.

    plimsoll.ray.train("scenario.toml", "models/mine", workers=8, address="auto")
    plimsoll.ray.tune("scenario.toml", address="auto")
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as error:
    raise ImportError("plimsoll.ray needs Ray: pip install 'plimsoll[ray]'") from error

from .crew import Crew, LostWorkers
from .search import tune
from .training import train

__all__ = ["Crew", "LostWorkers", "train", "tune"]
