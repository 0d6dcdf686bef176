"""Clusters to load, as Gymnasium environments, on the engine of the Plimsoll scheduler.

    env = plimsoll.Environment("scenario.toml", reward="energy")
    envs = plimsoll.VectorEnvironment("scenario.toml", 64, kind="arena", copy=False)
    plimsoll.evaluate("models/mine", "scenario.toml")
"""

from gymnasium import register as _register

from ._engine import Scenario, __version__
from .environment import Environment
from .measure import bounds, compare, evaluate, simulate
from .models import check_model, list_models, read_card, read_weights
from .names import bases, generators, measures, node_features, pod_features, policies, rewards
from .traces import generate_trace, read_trace
from .training import Stage, train
from .vector import VectorEnvironment

__all__ = [
    "Environment",
    "Scenario",
    "Stage",
    "VectorEnvironment",
    "__version__",
    "bases",
    "bounds",
    "check_model",
    "compare",
    "evaluate",
    "generate_trace",
    "generators",
    "list_models",
    "measures",
    "node_features",
    "pod_features",
    "policies",
    "read_card",
    "read_trace",
    "read_weights",
    "rewards",
    "simulate",
    "train",
]

_register("plimsoll/Cluster-v0", entry_point="plimsoll:Environment", vector_entry_point="plimsoll:VectorEnvironment")
