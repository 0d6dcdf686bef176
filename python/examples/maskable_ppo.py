"""MaskablePPO of sb3-contrib on a cluster, with the network of the scheduler as its policy, and a model at the end.

    pip install -r python/requirements-examples.txt
    python python/examples/maskable_ppo.py --out models/python-ppo
    plimsoll evaluate models/python-ppo python/examples/cluster.toml
"""

import argparse
import pathlib

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecMonitor
from torch import nn

import plimsoll
from plimsoll.sb3 import VecEnvironment
from plimsoll.torch import Factored

SCENARIO = pathlib.Path(__file__).with_name("cluster.toml")


class Flat(BaseFeaturesExtractor):
    """Everything in one row, since the library passes one tensor on."""

    def __init__(self, observation_space) -> None:
        super().__init__(observation_space, sum(space.shape[0] * (space.shape + (1,))[1] for space in observation_space.values()))

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([observations["nodes"].flatten(1), observations["pod"], observations["present"]], dim=1)


class Extractor(nn.Module):
    """The network where the library wants hidden layers: scores for the policy, what is known of the cluster for the value."""

    def __init__(self, network: Factored, nodes: int, pod_width: int) -> None:
        super().__init__()
        self.network, self.nodes, self.pod_width = network, nodes, pod_width
        self.latent_dim_pi, self.latent_dim_vf = nodes, 2 * network.tower.out_features

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = features[:, : -self.pod_width - self.nodes].unflatten(1, (self.nodes, -1))
        pod, present = features[:, -self.pod_width - self.nodes : -self.nodes], features[:, -self.nodes :]
        return self.network.both(rows, pod, present)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return self(features)[0]

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        return self(features)[1]


class Policy(MaskableMultiInputActorCriticPolicy):
    """Takes the scores of nodes as they are."""

    def __init__(self, *args, environments: plimsoll.VectorEnvironment, **kwargs) -> None:
        self.environments = environments
        super().__init__(*args, features_extractor_class=Flat, **kwargs)

    def _build_mlp_extractor(self) -> None:
        nodes, pod_width = self.action_space.n, self.observation_space["pod"].shape[0]
        self.mlp_extractor = Extractor(Factored.of(self.environments), nodes, pod_width)

    def _build(self, lr_schedule) -> None:
        super()._build(lr_schedule)
        self.action_net = nn.Identity()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("models/python-ppo"), help="the folder of the model")
    parser.add_argument("--scenario", type=pathlib.Path, default=SCENARIO)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000, help="placements in all")
    parser.add_argument("--envs", type=int, default=8)
    args = parser.parse_args()

    environments = plimsoll.VectorEnvironment(args.scenario, args.envs)
    agent = MaskablePPO(
        Policy,
        VecMonitor(VecEnvironment(environments)),
        policy_kwargs={"environments": environments},
        n_steps=256,
        batch_size=256,
        n_epochs=4,
        learning_rate=2e-3,
        gamma=0.9,
        seed=args.seed,
        device="cpu",
        verbose=1,
    )
    agent.learn(args.steps)

    network = agent.policy.mlp_extractor.network
    environments.save_model(args.out, network.weights(), agent="MaskablePPO (sb3-contrib)", steps=agent.num_timesteps, seed=args.seed)
    found = plimsoll.evaluate(args.out, args.scenario)
    print("\n".join([f"{args.out} is a model; on workloads that it was not trained on:", *found["findings"]]))


if __name__ == "__main__":
    main()
