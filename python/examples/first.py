"""A first look: a cluster of six nodes, pods that come and go, and two ways to place them. Needs nothing but the package.

    python python/examples/first.py
"""

import numpy as np

import plimsoll

SCENARIO = """
name = "first"

[workload.generate]
kind = "poisson"
pods_per_hour = 60
hours = 12
lifetime = { kind = "exponential", mean_s = 900 }

[[pool]]
name = "worker"
count = 6
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 180
"""


def fullest(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
    """The allowed node with the least CPU free: few nodes are in use, and the others sleep."""
    return int(np.where(mask, observation["nodes"][:, 0], np.inf).argmin())


def emptiest(observation: dict[str, np.ndarray], mask: np.ndarray) -> int:
    """The allowed node with the most CPU free."""
    return int(np.where(mask, observation["nodes"][:, 0], -np.inf).argmax())


def main() -> None:
    env = plimsoll.Environment(SCENARIO, reward="energy")
    print(f"a node is {', '.join(env.node_features)}; a pod is {', '.join(env.pod_features)}")
    for choose in (fullest, emptiest):
        observation, info = env.reset(seed=1)
        total, decisions, over = 0.0, 0, False
        while not over:
            action = choose(observation, info["action_mask"].astype(bool))
            observation, reward, terminated, truncated, info = env.step(action)
            total, decisions, over = total + reward, decisions + 1, terminated or truncated
        print(f"{choose.__name__:<9} {decisions} decisions, return {total:.3f} (the reward is minus the kWh)")

    # The same pods under policies that come along, and what no policy can beat.
    for policy in ("default", "best-fit", "lifetime-aware"):
        found = plimsoll.simulate(SCENARIO, policy)
        print(f"{policy:<15} {found['measures']['kwh']:.3f} kWh, {found['kw_ratio']:.2f} times the bound")
    differences = plimsoll.compare(SCENARIO, ["default", "best-fit"], seeds=range(1, 6), measure="kwh")["differences"]
    low, high = differences["best-fit"]["relativeInterval"]
    print(f"best-fit against default: {differences['best-fit']['relative']:+.1%} kWh, 95 % interval from {low:+.1%} to {high:+.1%}")


if __name__ == "__main__":
    main()
