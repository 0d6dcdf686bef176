"""Many clusters as one vector environment of Gymnasium."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ._common import Engine, Source, observation_space

Observation = dict[str, np.ndarray]


class VectorEnvironment(Engine, VectorEnv[Observation, np.ndarray, np.ndarray]):
    """Clusters that are stepped together, by one call of the engine; samples are dealt out to them in turn.

    Options are those of `plimsoll.Environment`. Where an episode ends, the next begins with the same step (`AutoresetMode.SAME_STEP`): the observation is of
    the new one, and `info["final_obs"]` has what the old one showed at last. With `copy=False` observations, rewards, flags and masks lie in the same
    arrays every time, and the next step writes over them: `arrays` has them, `bind` gives others.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        scenario: Source,
        num_envs: int = 1,
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
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._start(scenario, num_envs, **options, masked_penalty=masked_penalty, copy=copy, waits=False)
        self.single_observation_space = observation_space(self.engine)
        self.single_action_space = spaces.Discrete(self.engine.max_nodes)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _bound(self) -> None:
        arrays = self.arrays
        self._observation = {name: arrays[name] for name in ("nodes", "pod", "present")}
        # Discrete.sample wants whole numbers.
        mask, everyone = arrays["mask"].view(np.int8), np.ones(len(self.engine), np.bool_)
        self._info = {"action_mask": mask, "_action_mask": everyone, "elapsed_hours": arrays["elapsed_hours"], "_elapsed_hours": everyone}
        self._result = self._observation, arrays["rewards"], arrays["terminated"], arrays["truncated"]
        self._step = self.engine.step

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode in each, or, by `options={"reset_mask": ...}`, in some: the first of those that follow from its seed, or the next."""
        seeds: list[int | None]
        if seed is None or isinstance(seed, int | np.integer):
            super().reset(seed=None if seed is None else int(seed))
            seeds = [None if seed is None else int(seed) + at for at in range(self.num_envs)]
        else:
            seeds = list(seed)
        which = (options or {}).get("reset_mask")
        if which is not None and (which.shape != (self.num_envs,) or which.dtype != np.bool_ or not which.any()):
            raise ValueError(f"reset_mask: {self.num_envs} booleans are wanted, one of them true; it is {which!r}")
        self.engine.reset(seeds, None if which is None else which.tolist())
        self.arrays["elapsed_hours"][slice(None) if which is None else which] = 0.0
        return _copied(self._observation) if self._copy else self._observation, self._told()

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Places a pod in each cluster."""
        if type(actions) is not np.ndarray or actions.dtype != np.int64:
            actions = np.asarray(actions)
            if actions.dtype.kind not in "iu":
                raise TypeError(f"actions are numbers of nodes; these are {actions.dtype}")
            actions = actions.astype(np.int64)
        ended = self._step(actions)
        if not self._copy:
            return *self._result, self._final(self._info.copy()) if ended else self._info
        observation, *rest = self._result
        told = self._told()
        return _copied(observation), *(array.copy() for array in rest), self._final(told) if ended else told

    def _told(self) -> dict[str, Any]:
        return _copied(self._info) if self._copy else self._info

    def _final(self, info: dict[str, Any]) -> dict[str, Any]:
        """Adds what episodes that ended showed at last."""
        layout = self.layout
        for at in np.flatnonzero(self.arrays["terminated"] | self.arrays["truncated"]):
            last = {name: np.empty(layout[name][0][1:], layout[name][1]) for name in ("nodes", "pod", "present", "mask")}
            self.engine.last_observation(int(at), **last)
            final = {"action_mask": last.pop("mask").view(np.int8), "elapsed_hours": float(self.arrays["elapsed_hours"][at])}
            info = self._add_info(info, {"final_obs": last, "final_info": final}, int(at))
        return info

    def action_masks(self) -> np.ndarray:
        """Which nodes are allowed, a row for each cluster."""
        mask = self.arrays["mask"]
        return mask.copy() if self._copy else mask

    def expert_actions(self) -> np.ndarray:
        """What the expert, or the default policy, would do for the decisions that are due."""
        return np.array(self.engine.expert_actions(), np.int64)


def _copied(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.copy() for name, array in arrays.items()}
