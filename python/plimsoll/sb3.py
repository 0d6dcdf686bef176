"""Clusters as a vector environment of stable-baselines3, with the masks that sb3-contrib's MaskablePPO asks for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from .vector import VectorEnvironment


class VecEnvironment(VecEnv):
    """A `plimsoll.VectorEnvironment` for stable-baselines3: one call of the engine steps all of its clusters."""

    def __init__(self, environments: VectorEnvironment) -> None:
        self.environments = environments
        self.render_mode = None
        self._actions = np.zeros(environments.num_envs, np.int64)
        super().__init__(environments.num_envs, environments.single_observation_space, environments.single_action_space)

    def reset(self) -> dict[str, np.ndarray]:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        observation, _ = self.environments.reset(seed=seeds)
        self._reset_seeds()
        self._reset_options()
        return observation

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, rewards, terminated, truncated, told = self.environments.step(self._actions)
        over = terminated | truncated
        hours = told["elapsed_hours"]
        infos: list[dict[str, Any]] = [{"elapsed_hours": float(hours[at])} for at in range(self.num_envs)]
        for at in np.flatnonzero(over):
            infos[at]["terminal_observation"] = told["final_obs"][at]
            infos[at]["TimeLimit.truncated"] = bool(truncated[at] and not terminated[at])
        return observation, rewards, over, infos

    def close(self) -> None:
        self.environments.close()

    def get_attr(self, attr_name: str, indices: None | int | Sequence[int] = None) -> list[Any]:
        return [getattr(self.environments, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: None | int | Sequence[int] = None) -> None:
        raise AttributeError(f"{attr_name} cannot be set: the clusters of a vector are alike")

    def env_method(self, method_name: str, *args: Any, indices: None | int | Sequence[int] = None, **kwargs: Any) -> list[Any]:
        if method_name != "action_masks":
            raise AttributeError(f"{method_name} is no method of single clusters; action_masks is")
        masks = self.environments.action_masks()
        return [masks[at] for at in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: None | int | Sequence[int] = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
