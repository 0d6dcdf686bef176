"""A cluster that takes part: it learns from its own recordings, and gives out how its network changed."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from .. import _engine
from .._common import Source, scenario
from .arithmetic import Arrays, clipped


class Member:
    """A cluster that takes part.

    What leaves it are a name, the number of pods it learns from, what its network is made of, the change of the network's weights, cut to a length of `clip` and
    blurred by `noise` if it is told to, and how the network does there as a share of the heuristic. Workloads stay, and so does the predictor of lifetimes, which is trained on them.
    """

    def __init__(
        self,
        source: Source,
        *,
        name: str | None = None,
        seed: int | None = None,
        clip: float | None = None,
        noise: float = 0.0,
        noise_seed: int | None = None,
        command: str = "",
    ) -> None:
        clipped([], clip, noise, np.random.default_rng(0))
        read = scenario(source)
        self.name = name or read.name or Path(os.fspath(source) if isinstance(source, str | os.PathLike) else "cluster").stem
        self.clip, self.noise = clip, noise
        # Whoever knows the seed can take the noise off again: without one, it is the system's.
        self.rng = np.random.default_rng(noise_seed)
        self.engine = _engine.Participant(read, seed, command or shlex.join(["plimsoll-federate", "client", str(source)[:200].splitlines()[0]]))
        self.steps = 0
        self._has: Arrays | None = None

    @property
    def pods(self) -> int:
        """How many pods it learns from."""
        return self.engine.pods

    @property
    def figure(self) -> float:
        """How the network does on the own training data, as a share of what the heuristic comes to; less is better."""
        return self.engine.figure

    @property
    def common(self) -> dict[str, Any]:
        """What must be the same everywhere: the network, its features, the heuristic beneath."""
        return json.loads(self.engine.common()) | {"tensors": {name: list(shape) for name, shape, _ in self.engine.weights()}}

    def network(self) -> Arrays:
        """The weights of the network, in the order of their names."""
        return [data.reshape(shape) for _, shape, data in self.engine.weights()]

    def take(self, network: Arrays) -> float:
        """Goes on with a network; returns how it does here."""
        own = self.engine.weights()
        if [tuple(shape) for _, shape, _ in own] != [array.shape for array in network]:
            raise ValueError(f"the network has the shapes {[array.shape for array in network]}, and {[tuple(shape) for _, shape, _ in own]} are wanted")
        if self._has is None or not all(np.array_equal(a, b) for a, b in zip(self._has, network, strict=True)):
            arrays = [(name, np.ascontiguousarray(array, np.float32)) for (name, _, _), array in zip(own, network, strict=True)]
            self.engine.begin_with(arrays)
            self._has = [array.copy() for array in network]
        return self.figure

    def learn(self, network: Arrays, generations: int) -> Arrays:
        """Learns from a network on; returns how it changed, as it may leave."""
        self.take(network)
        self.steps = self.engine.learn(generations)
        self._has = None
        change = [mine - theirs for mine, theirs in zip(self.network(), network, strict=True)]
        return clipped(change, self.clip, self.noise, self.rng)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Stores the network that it has, with its own predictor, as a model."""
        self.engine.save(os.fspath(folder), self.steps)


def differences(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What two members do not have in common."""
    return [f"{name} is {json.dumps(other.get(name))}, not {json.dumps(value)}" for name, value in first.items() if other.get(name) != value]
