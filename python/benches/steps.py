"""Steps a second through Python beside those of the engine alone, on one core: 64 arenas of 50 nodes, each taking the first node that is allowed.

Both walk the same environments and write into the same arrays, in turns, so that what else the machine does hits both; seconds are those of the
processor, in this thread, since the rest is not ours. Exits with 1 where Python makes fewer than a million steps a second or less than four fifths
of the engine's.

    make bench-python
"""

import argparse
import os
import statistics
import sys
import time

# Set before the engine starts its threads.
os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np

import plimsoll

SCENARIO = """
name = "steps"
[workload.generate]
kind = "poisson"
pods_per_hour = 3600
hours = 6
lifetime = { kind = "exponential", mean_s = 320 }
shapes = [
    { cpu_milli = 500, memory_mib = 1024 },
    { cpu_milli = 1000, memory_mib = 4096 },
    { cpu_milli = 2000, memory_mib = 2048 },
    { cpu_milli = 4000, memory_mib = 8192 },
]
[[pool]]
name = "small"
count = 25
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 250
[[pool]]
name = "large"
count = 25
cpu = 32
memory = "96Gi"
idle_watts = 60
full_watts = 250
"""
ENVIRONMENTS = 64
LEAST_RATE, LEAST_SHARE = 1e6, 0.8


def engine(envs: plimsoll.VectorEnvironment, rounds: int) -> float:
    """Seconds for so many rounds without Python."""
    start = time.thread_time()
    envs.engine.walk(rounds)
    return time.thread_time() - start


def through_python(envs: plimsoll.VectorEnvironment, rounds: int) -> float:
    """The same rounds as an agent would make them."""
    actions = np.zeros(envs.num_envs, np.int64)
    masks = envs.action_masks()
    start = time.thread_time()
    for _ in range(rounds):
        masks.argmax(axis=1, out=actions)
        envs.step(actions)
    return time.thread_time() - start


def copied(envs: plimsoll.VectorEnvironment, rounds: int) -> float:
    """The same where each observation has memory of its own."""
    _, info = envs.reset()
    start = time.thread_time()
    for _ in range(rounds):
        _, _, _, _, info = envs.step(info["action_mask"].argmax(axis=1))
    return time.thread_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000, help="rounds of a measurement")
    parser.add_argument("--times", type=int, default=41, help="measurements of each")
    parser.add_argument("--reward", default="energy")
    args = parser.parse_args()
    options = {"kind": "arena", "reward": args.reward, "samples": range(1, 5)}
    envs = plimsoll.VectorEnvironment(SCENARIO, ENVIRONMENTS, copy=False, **options)
    safe = plimsoll.VectorEnvironment(SCENARIO, ENVIRONMENTS, **options)
    envs.reset(seed=1)
    steps = args.rounds * ENVIRONMENTS
    rates: dict[str, list[float]] = {"engine": [], "python": [], "python, copied": []}
    for _ in range(args.times):
        rates["engine"].append(steps / engine(envs, args.rounds))
        rates["python"].append(steps / through_python(envs, args.rounds))
        rates["python, copied"].append(steps / copied(safe, args.rounds))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:<15} {medians[name] / 1e6:5.2f} M steps/s (from {min(found) / 1e6:.2f} to {max(found) / 1e6:.2f})")
    # What is measured one after the other is compared: the machine may be faster at another time.
    shares = sorted(python / engine for python, engine in zip(rates["python"], rates["engine"]))
    share = statistics.median(shares)
    print(f"python makes {share:.1%} of the engine's steps (from {shares[0]:.1%} to {shares[-1]:.1%}), {envs.engine.max_nodes} nodes, {ENVIRONMENTS} at a time, one core")
    return 0 if medians["python"] >= LEAST_RATE and share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
