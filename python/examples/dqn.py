"""Deep Q-learning in one file, in the style of CleanRL: eight clusters at once, the network of the scheduler, and a model at the end.

    pip install -r python/requirements-examples.txt
    python python/examples/dqn.py --out models/python-dqn
    plimsoll evaluate models/python-dqn python/examples/cluster.toml
"""

import argparse
import pathlib
import time

import numpy as np
import torch
from torch import nn

import plimsoll
from plimsoll.torch import Factored

SCENARIO = pathlib.Path(__file__).with_name("cluster.toml")
PARTS = ("nodes", "pod", "present")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("models/python-dqn"), help="the folder of the model")
    parser.add_argument("--scenario", type=pathlib.Path, default=SCENARIO)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40_000, help="placements in all")
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--capacity", type=int, default=20_000, help="placements that are remembered")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.9)
    parser.add_argument("--learning-starts", type=int, default=1000)
    parser.add_argument("--exploration", type=float, default=0.3, help="share of the steps over which exploration falls")
    parser.add_argument("--least-epsilon", type=float, default=0.05)
    parser.add_argument("--target-every", type=int, default=100, help="updates from one target network to the next")
    return parser.parse_args()


class Replay:
    """A ring of transitions."""

    def __init__(self, capacity: int, spaces: dict[str, tuple[int, ...]], nodes: int) -> None:
        self.before = {name: np.zeros((capacity, *shape), np.float32) for name, shape in spaces.items()}
        self.after = {name: np.zeros((capacity, *shape), np.float32) for name, shape in spaces.items()}
        self.masks = np.zeros((capacity, nodes), np.bool_)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.terminated = np.zeros(capacity, np.float32)
        self.capacity, self.pushed = capacity, 0

    def push(self, before, actions, rewards, after, masks, terminated) -> None:
        at = (self.pushed + np.arange(len(actions))) % self.capacity
        for name in PARTS:
            self.before[name][at], self.after[name][at] = before[name], after[name]
        self.actions[at], self.rewards[at], self.masks[at], self.terminated[at] = actions, rewards, masks, terminated
        self.pushed += len(actions)

    def draw(self, count: int, rng: np.random.Generator):
        at = rng.integers(min(self.pushed, self.capacity), size=count)
        before = [torch.from_numpy(self.before[name][at]) for name in PARTS]
        after = [torch.from_numpy(self.after[name][at]) for name in PARTS]
        rest = (self.actions, self.rewards, self.masks, self.terminated)
        return before, after, *(torch.from_numpy(column[at]) for column in rest)


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    envs = plimsoll.VectorEnvironment(args.scenario, args.envs)
    network, target = Factored.of(envs), Factored.of(envs)
    target.load_state_dict(network.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), lr=args.learning_rate)
    shapes = {name: envs.single_observation_space[name].shape for name in PARTS}
    replay = Replay(args.capacity, shapes, envs.single_action_space.n)

    observation, info = envs.reset(seed=args.seed)
    returns, sums, updates, start = [], np.zeros(args.envs), 0, time.perf_counter()
    for step in range(0, args.steps, args.envs):
        epsilon = max(1.0 - (1.0 - args.least_epsilon) * step / (args.steps * args.exploration), args.least_epsilon)
        masks = info["action_mask"].astype(bool)
        with torch.no_grad():
            scores = network(*(torch.from_numpy(observation[name]) for name in PARTS)).numpy()
        # Among allowed nodes alone, whether by chance or by score.
        explores = rng.random(args.envs) < epsilon
        scores[explores] = rng.random((explores.sum(), scores.shape[1]))
        actions = np.where(masks, scores, -np.inf).argmax(axis=1)
        following, rewards, terminated, truncated, info = envs.step(actions)

        # Where an episode ended, what followed is what it showed at last, and not how the next one begins.
        after, after_masks = following, info["action_mask"].astype(bool)
        over = terminated | truncated
        if over.any():
            after = {name: array.copy() for name, array in following.items()}
            for at in np.flatnonzero(over):
                for name in PARTS:
                    after[name][at] = info["final_obs"][at][name]
                after_masks[at] = info["final_info"]["action_mask"][at]
        replay.push(observation, actions, rewards, after, after_masks, terminated)
        observation = following
        sums += rewards
        returns.extend(sums[over])
        sums[over] = 0.0

        if replay.pushed >= args.learning_starts:
            before, later, taken, got, allowed, ended = replay.draw(args.batch, rng)
            with torch.no_grad():
                # The network chooses, the target network says what that is worth.
                best = network(*later).masked_fill(~allowed, -torch.inf).argmax(dim=1, keepdim=True)
                worth = target(*later).gather(1, best).squeeze(1)
                wanted = got + args.gamma * worth * (1.0 - ended)
            found = network(*before).gather(1, taken.unsqueeze(1)).squeeze(1)
            loss = nn.functional.smooth_l1_loss(found, wanted)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimiser.step()
            updates += 1
            if updates % args.target_every == 0:
                target.load_state_dict(network.state_dict())
            if updates % 500 == 0:
                mean = np.mean(returns[-20:]) if returns else float("nan")
                rate = (step + args.envs) / (time.perf_counter() - start)
                print(f"step {step + args.envs:>7}  epsilon {epsilon:.2f}  loss {loss.item():.4f}  mean return {mean:.2f}  {rate:.0f} steps/s", flush=True)

    envs.save_model(args.out, network.weights(), agent="dqn (PyTorch)", steps=args.steps, seed=args.seed)
    found = plimsoll.evaluate(args.out, args.scenario)
    print("\n".join([f"{args.out} is a model; on workloads that it was not trained on:", *found["findings"]]))


if __name__ == "__main__":
    main()
