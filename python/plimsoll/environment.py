"""One cluster as an environment of Gymnasium."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ._common import Engine, Source, observation_space

Observation = dict[str, np.ndarray]


class Environment(Engine, gymnasium.Env[Observation, int]):
    """A cluster in which pods are placed one after the other: an action is the node of the pod that waits.

    The scenario is a file, its text, or a `plimsoll.Scenario`. What is said here counts more than its `[learn]` section:

    kind: "cluster", the whole simulator with every rule of Kubernetes; or "arena", which knows CPU, memory and pod counts alone and is very fast.
    reward: a name, or names with weights, as in `{"energy": 1.0, "waiting": 0.1}`; `plimsoll.rewards()` lists them.
    observation: "plain", "exported", `{"lookahead": 3}`, or `{"nodes": [...], "pods": [...]}` with names of features.
    samples: the seeds of the workloads that episodes are drawn from.
    steps: after how many steps an episode is cut off.
    shuffle: when rows change places: "never", "episodes" or "decisions".
    expert: a policy, or the folder of a model, that `expert_action` asks.
    base: the heuristic that a model trained here falls back to.
    max_nodes: how many nodes an observation has room for; as many as the scenario can have if not given.
    masked_penalty: an action that is masked is an error; with this, the pod goes to the first allowed node instead, and the reward is less by it.
    copy: whether each observation has memory of its own; without, the same arrays are handed out every time, and the next step writes over them.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: Source,
        *,
        kind: str = "cluster",
        reward: str | Mapping[str, Any] | None = None,
        observation: str | Mapping[str, Any] | None = None,
        samples: Sequence[int] | None = None,
        steps: int | None = None,
        shuffle: str | None = None,
        expert: str | os.PathLike[str] | None = None,
        base: str | None = None,
        max_nodes: int | None = None,
        masked_penalty: float | None = None,
        copy: bool = True,
        render_mode: None = None,
    ) -> None:
        options: dict[str, Any] = {"kind": kind, "reward": reward, "observation": observation, "samples": samples, "steps": steps}
        options |= {"shuffle": shuffle, "expert": expert, "base": base, "max_nodes": max_nodes}
        self._start(scenario, 1, **options, masked_penalty=masked_penalty, copy=copy, waits=True)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.engine)
        self.action_space = spaces.Discrete(self.engine.max_nodes)

    def _bound(self) -> None:
        self._observation = {name: self.arrays[name][0] for name in ("nodes", "pod", "present")}
        self._mask = self.arrays["mask"][0]
        # Discrete.sample wants whole numbers.
        self._action_mask = self._mask.view(np.int8)
        self._action = np.zeros(1, np.int64)

    def _seen(self) -> Observation:
        return {name: array.copy() for name, array in self._observation.items()} if self._copy else self._observation

    def _info(self) -> dict[str, Any]:
        mask = self._action_mask.copy() if self._copy else self._action_mask
        return {"action_mask": mask, "elapsed_hours": float(self.arrays["elapsed_hours"][0])}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode: the first of those that follow from a seed, or the next."""
        super().reset(seed=seed)
        self.engine.reset([seed], None)
        self.arrays["elapsed_hours"][0] = 0.0
        return self._seen(), self._info()

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Places the pod. What is to come is discounted by `info["elapsed_hours"]`, the virtual time that passed, or by steps."""
        self._action[0] = action
        self.engine.step(self._action)
        arrays = self.arrays
        over = bool(arrays["terminated"][0]), bool(arrays["truncated"][0])
        return self._seen(), float(arrays["rewards"][0]), *over, self._info()

    def action_masks(self) -> np.ndarray:
        """Which nodes are allowed, as sb3-contrib's MaskablePPO asks for it."""
        return self._mask.copy() if self._copy else self._mask

    def expert_action(self) -> int:
        """What the expert, or the default policy, would do for the decision that is due."""
        return self.engine.expert_actions()[0]
