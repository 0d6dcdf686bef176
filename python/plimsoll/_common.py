"""What single environments and vectors of them have in common: their options, their arrays, and the models that come of them."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from . import _engine

Source = _engine.Scenario | str | os.PathLike[str]
"""A scenario, its file, or its text."""


def scenario(source: Source) -> _engine.Scenario:
    """A scenario as it is given: read already, as the name of a file, or as TOML text, which has lines."""
    if isinstance(source, _engine.Scenario):
        return source
    if isinstance(source, str) and "\n" in source:
        return _engine.Scenario.parse(source, Path.cwd())
    return _engine.Scenario.read(os.fspath(source))


class Engine:
    """Environments of the engine, with the arrays that they write into."""

    engine: _engine.Environments
    arrays: dict[str, np.ndarray]
    _copy: bool

    def _start(
        self,
        source: Source,
        count: int,
        *,
        kind: str,
        reward: str | Mapping[str, Any] | None,
        observation: str | Mapping[str, Any] | None,
        samples: Sequence[int] | None,
        steps: int | None,
        shuffle: str | None,
        expert: str | os.PathLike[str] | None,
        base: str | None,
        max_nodes: int | None,
        masked_penalty: float | None,
        copy: bool,
        waits: bool,
    ) -> None:
        options: dict[str, Any] = {"kind": kind, "count": count, "reward": reward, "observation": observation, "steps": steps}
        options |= {"shuffle": shuffle, "base": base, "expert": None if expert is None else os.fspath(expert)}
        if samples is not None:
            options["samples"] = [int(sample) for sample in samples]
        told = json.dumps({name: value for name, value in options.items() if value is not None})
        self.engine = _engine.Environments(scenario(source), told, max_nodes, masked_penalty, waits)
        self._copy = copy
        self.bind({name: np.zeros(shape, dtype) for name, (shape, dtype) in self.layout.items()})

    @property
    def layout(self) -> dict[str, tuple[tuple[int, ...], type[np.generic]]]:
        """The shapes and types of the arrays that are written into."""
        size, nodes = len(self.engine), self.engine.max_nodes
        return {
            "nodes": ((size, nodes, len(self.engine.node_features)), np.float32),
            "pod": ((size, len(self.engine.pod_features)), np.float32),
            "present": ((size, nodes), np.float32),
            "mask": ((size, nodes), np.bool_),
            "rewards": ((size,), np.float32),
            "elapsed_hours": ((size,), np.float32),
            "terminated": ((size,), np.bool_),
            "truncated": ((size,), np.bool_),
        }

    def bind(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Has everything written into these arrays from the next reset on; `layout` says which there must be."""
        layout = self.layout
        if arrays.keys() != layout.keys():
            raise ValueError(f"the arrays are {', '.join(arrays)}, and {', '.join(layout)} are wanted")
        for name, (_, dtype) in layout.items():
            if arrays[name].dtype != dtype:
                raise TypeError(f"{name}: the array holds {arrays[name].dtype}, and {np.dtype(dtype)} is wanted")
        self.engine.bind(**arrays)
        self.arrays = dict(arrays)
        self._bound()

    def _bound(self) -> None:
        """The arrays are others."""

    @property
    def node_features(self) -> list[str]:
        """What describes a node, in the order of a row."""
        return self.engine.node_features

    @property
    def pod_features(self) -> list[str]:
        """What describes a pod."""
        return self.engine.pod_features

    @property
    def reward_weights(self) -> dict[str, float]:
        """The rewards that are added up, with the weight of each."""
        return dict(self.engine.reward_weights())

    def set_reward_weight(self, name: str, weight: float) -> None:
        """Has a reward count more or less from now on."""
        self.engine.set_reward_weight(name, weight)

    def save_model(
        self,
        folder: str | os.PathLike[str],
        weights: Mapping[str, npt.ArrayLike],
        *,
        description: str = "",
        agent: str = "python",
        steps: int = 0,
        seed: int = 0,
        trust: float = 1.0,
        alone: bool = True,
        ranges: bool = True,
        command: str | None = None,
    ) -> None:
        """Stores a factored network that was trained here as a model: a folder that `plimsoll evaluate` and the live scheduler take.

        Weights have the names and shapes of `plimsoll.torch.Factored`. The card says what was seen here of every feature; beyond, the scheduler asks
        the heuristic instead, unless `ranges` is false. A model decides `alone`, or its score is added to the heuristic's with the weight `trust`.
        """
        arrays = [(name, np.ascontiguousarray(array, dtype=np.float32)) for name, array in weights.items()]
        shapes = {name: array.shape for name, array in arrays}
        sizes = {}
        if len(shapes.get("tower.weight", ())) == 2 and len(shapes.get("out.weight", ())) == 1:
            tower, inputs = shapes["tower.weight"]
            sizes = {"tower": tower, "tower_inputs": inputs, "hidden": shapes["out.weight"][0]}
        about = {
            "network": {"kind": "factored", "sizes": sizes},
            "description": description,
            "agent": agent,
            "steps": steps,
            "seed": seed,
            "trust": trust,
            "alone": alone,
            "ranges": ranges,
            "command": " ".join(["python", *map(os.path.basename, sys.argv[:1]), *sys.argv[1:]]) if command is None else command,
        }
        self.engine.save_model(os.fspath(folder), arrays, json.dumps(about))


def observation_space(engine: _engine.Environments) -> spaces.Dict:
    """What an observation is: a row for each node, the pod, and which rows are nodes."""
    nodes = engine.max_nodes
    everything = {"low": -np.inf, "high": np.inf, "dtype": np.float32}
    return spaces.Dict(
        {
            "nodes": spaces.Box(shape=(nodes, len(engine.node_features)), **everything),
            "pod": spaces.Box(shape=(len(engine.pod_features),), **everything),
            "present": spaces.Box(0.0, 1.0, (nodes,), np.float32),
        }
    )
