"""Learners as one writes them in Python: what plimsoll-learn is measured against.

`dqn` is deep Q-learning in the style of CleanRL, a loop in one function, with the network of the thesis; `ppo` is MaskablePPO of sb3-contrib,
with the same network or with its usual perceptron. Both learn on the environment of arena.py; `env` steps that environment alone.
Each prints one JSON line. With -evaluate-every the line has the curve: steps, seconds of training, without those of evaluations, the
mean return over the evaluation episodes, and seconds of processor time.

    python3 learn.py dqn -steps 20000 -evaluate-every 2000
"""

import argparse
import json
import os
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from arena import NODE_WIDTH, POD_WIDTH, Arena, best_fit, episode

# The seeds of the episodes that policies are evaluated on; training never draws them.
EVALUATION = range(1_000_000, 1_000_010)


class Layer(nn.Module):
    """`Lambda(x) - Gamma(max over nodes of x)`: whatever the order of nodes, the same for each."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lam = nn.Linear(inputs, outputs)
        self.gamma = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lam(x) - self.gamma(x.max(dim=1, keepdim=True).values)


class DeepSets(nn.Module):
    """The network of the thesis: inputs -> 120 -> 84 -> a score for each node. What it makes of all nodes can be had for a value."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Layer(NODE_WIDTH + POD_WIDTH, 120)
        self.second = Layer(120, 84)
        self.third = Layer(84, 1)

    def both(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of the nodes, and the maximum over nodes of the second layer."""
        nodes = observation[:, :-POD_WIDTH].unflatten(1, (-1, NODE_WIDTH))
        pod = observation[:, None, -POD_WIDTH:].expand(-1, nodes.shape[1], -1)
        x = torch.relu(self.first(torch.cat((nodes, pod), dim=2)))
        x = torch.relu(self.second(x))
        return self.third(x).squeeze(2), x.max(dim=1).values

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.both(observation)[0]


@dataclass
class Clock:
    """Time spent on training, which evaluations are not part of, and the curve over it."""

    seconds: float = 0.0
    # Of all threads.
    processor: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    busy: float = field(default_factory=time.process_time)
    curve: list[tuple[int, float, float, float]] = field(default_factory=list)

    def stop(self) -> None:
        self.seconds += time.perf_counter() - self.began
        self.processor += time.process_time() - self.busy

    def start(self) -> None:
        self.began, self.busy = time.perf_counter(), time.process_time()

    def evaluate(self, steps: int, choose) -> None:
        """Add a point to the curve; `choose` takes observations and masks side by side."""
        self.stop()
        self.curve.append((steps, self.seconds, evaluate(choose), self.processor))
        self.start()


def evaluate(choose) -> float:
    """The mean return over the evaluation episodes, which are walked through side by side."""
    arenas = [Arena() for _ in EVALUATION]
    observations = [arena.reset(seed=seed)[0] for arena, seed in zip(arenas, EVALUATION)]
    going, total = list(range(len(arenas))), 0.0
    while going:
        masks = np.stack([arenas[at].action_masks() for at in going])
        actions = choose(np.stack([observations[at] for at in going]), masks)
        still = []
        for at, action in zip(going, actions):
            observations[at], reward, over, _, _ = arenas[at].step(int(action))
            total += reward
            if not over:
                still.append(at)
        going = still
    return total / len(arenas)


def greedy(network: nn.Module):
    """Chooses the allowed node with the best score."""

    def choose(observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            scores = network(torch.from_numpy(observations))
        return scores.masked_fill(~torch.from_numpy(masks), -torch.inf).argmax(dim=1).numpy()

    return choose


class Replay:
    """A ring of transitions in preallocated arrays."""

    def __init__(self, capacity: int, width: int, nodes: int) -> None:
        self.before = np.empty((capacity, width), np.float32)
        self.after = np.empty((capacity, width), np.float32)
        self.mask = np.empty((capacity, nodes), bool)
        self.action = np.empty((capacity, 1), np.int64)
        self.reward = np.empty(capacity, np.float32)
        self.over = np.empty(capacity, np.float32)
        self.capacity, self.pushed = capacity, 0

    def push(self, before, action, reward, after, mask, over) -> None:
        at = self.pushed % self.capacity
        self.before[at], self.after[at], self.mask[at] = before, after, mask
        self.action[at], self.reward[at], self.over[at] = action, reward, over
        self.pushed += 1

    def draw(self, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
        places = rng.integers(min(self.pushed, self.capacity), size=count)
        columns = (self.before, self.action, self.reward, self.after, self.mask, self.over)
        return tuple(torch.from_numpy(column[places]) for column in columns)


@dataclass(frozen=True)
class DqnSettings:
    """Those of the thesis."""

    learning_starts: int = 300
    train_every: int = 10
    batch: int = 128
    capacity: int = 10_000
    learning_rate: float = 2.5e-3
    gamma: float = 0.99
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    epsilon_share: float = 0.3
    target_every: int = 50
    clip: float = 10.0


def dqn(steps: int, seed: int, evaluate_every: int, settings: DqnSettings = DqnSettings()) -> dict:
    """Deep Q-learning with a replay and a target network."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    arena = Arena()
    network, target = DeepSets(), DeepSets()
    target.load_state_dict(network.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    replay = Replay(settings.capacity, arena.observation_space.shape[0], arena.action_space.n)
    choose = greedy(network)
    episodes = seed * 10_000
    observation, _ = arena.reset(seed=episodes)
    updates = 0
    clock, learning_from = Clock(), None
    for step in range(1, steps + 1):
        if step == settings.learning_starts:
            learning_from = clock.seconds + time.perf_counter() - clock.began
        line = min(step / (steps * settings.epsilon_share), 1.0)
        epsilon = settings.epsilon_start + (settings.epsilon_end - settings.epsilon_start) * line
        mask = arena.action_masks()
        if rng.random() < epsilon:
            action = int(rng.choice(np.flatnonzero(mask)))
        else:
            action = int(choose(observation[None], mask[None])[0])
        after, reward, over, _, _ = arena.step(action)
        replay.push(observation, action, reward, after, arena.action_masks(), over)
        observation = after
        if over:
            episodes += 1
            observation, _ = arena.reset(seed=episodes)
        if step >= settings.learning_starts and step % settings.train_every == 0:
            seen, actions, rewards, following, masks, overs = replay.draw(settings.batch, rng)
            with torch.no_grad():
                worth = target(following).masked_fill(~masks, -torch.inf).amax(dim=1)
                # After the last decision no node is to be chosen.
                worth = torch.where(overs.bool(), 0.0, worth)
                wanted = rewards + settings.gamma * worth
            loss = nn.functional.mse_loss(network(seen).gather(1, actions).squeeze(1), wanted)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
            optimiser.step()
            updates += 1
            if updates % settings.target_every == 0:
                target.load_state_dict(network.state_dict())
        if evaluate_every and step % evaluate_every == 0:
            clock.evaluate(step, choose)
    clock.stop()
    learning = steps - settings.learning_starts
    return {"steps_per_s": learning / (clock.seconds - learning_from), "seconds": clock.seconds, "processor_s": clock.processor, "curve": clock.curve}


# Environments, and settings of MaskablePPO: the usual ones, and those with which ours is quickest on this workload.
USUAL = 8, {"n_steps": 256, "batch_size": 256}
QUICK = 4, {"n_steps": 256, "batch_size": 256, "n_epochs": 2, "learning_rate": 5e-3, "gamma": 0.9}


def ppo(steps: int, seed: int, evaluate_every: int, network: str, quick: bool) -> dict:
    """MaskablePPO with its usual network or that of the thesis."""
    # Imported here: it takes seconds, which the others need not wait for.
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Extractor(nn.Module):
        """DeepSets where the library wants the hidden layers of policy and value: scores for one, the maximum for the other."""

        def __init__(self, nodes: int) -> None:
            super().__init__()
            self.sets = DeepSets()
            self.latent_dim_pi, self.latent_dim_vf = nodes, 84

        def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.sets.both(features)

        def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
            return self(features)[0]

        def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
            return self(features)[1]

    class Sets(MaskableActorCriticPolicy):
        """The policy that takes the scores as they are."""

        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = Extractor(self.action_space.n)

        def _build(self, lr_schedule) -> None:
            super()._build(lr_schedule)
            self.action_net = nn.Identity()
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    class Evaluate(BaseCallback):
        def __init__(self, clock: Clock) -> None:
            super().__init__()
            self.clock, self.due = clock, evaluate_every

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            # Between an update and the next walk.
            if evaluate_every and self.num_timesteps >= self.due:
                self.due = self.num_timesteps + evaluate_every
                predict = lambda seen, masks: self.model.predict(seen, action_masks=masks, deterministic=True)[0]
                self.clock.evaluate(self.num_timesteps, predict)

    width, settings = QUICK if quick else USUAL
    policy = Sets if network == "deepsets" else "MlpPolicy"
    model = MaskablePPO(policy, DummyVecEnv([Arena] * width), seed=seed, device="cpu", **settings)
    clock = Clock()
    callback = Evaluate(clock)
    model.learn(steps, callback=callback)
    if evaluate_every:
        callback._on_rollout_start()
    clock.stop()
    return {"steps_per_s": model.num_timesteps / clock.seconds, "seconds": clock.seconds, "processor_s": clock.processor, "curve": clock.curve}


def env(steps: int) -> dict:
    """Steps of the environment alone: always the first node with room."""
    arena = Arena()
    seeds = iter(range(steps))
    arena.reset(seed=next(seeds))
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        _, _, over, _, _ = arena.step(arena.action_masks().argmax())
        if over:
            arena.reset(seed=next(seeds))
    seconds, processor = time.perf_counter() - began, time.process_time() - busy
    return {"steps_per_s": steps / seconds, "seconds": seconds, "processor_s": processor}


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["env", "dqn", "ppo", "best-fit"])
    parser.add_argument("-steps", type=int, default=20_000, help="environment steps (20000)")
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-evaluate-every", type=int, default=0, help="steps from one evaluation to the next; 0: never")
    parser.add_argument("-network", choices=["deepsets", "mlp"], default="deepsets", help="of ppo")
    parser.add_argument("-quick", action="store_true", help="ppo with settings for this workload instead of the usual ones")
    parser.add_argument("-threads", type=int, default=os.cpu_count(), help="threads of torch (all cores)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.what == "env":
        result = env(args.steps)
    elif args.what == "dqn":
        result = dqn(args.steps, args.seed, args.evaluate_every)
    elif args.what == "ppo":
        result = ppo(args.steps, args.seed, args.evaluate_every, args.network, args.quick)
    else:
        arena = Arena()
        result = {"returns": [episode(arena, seed, best_fit) for seed in EVALUATION]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
