"""How much faster two workers of Ray make runs than one: the same runs by one and by two, in turns, on two cores of this machine.

Beside them are the same runs by the engine alone on one core and on two: what the machine itself gives at the time. Exits with 1 where two workers
are less than 1.6 times as fast as one in the middle of all turns.

    make bench-ray
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
# Set before the engine starts its threads.
os.environ["RAYON_NUM_THREADS"] = "2"

import numpy as np
import ray

import plimsoll
from plimsoll.ray import Crew
from plimsoll.ray.crew import Play

SCENARIO = """
name = "rollouts"
[workload.generate]
kind = "poisson"
pods_per_hour = 600
hours = 3
[[pool]]
name = "small"
count = 60
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 180
[[pool]]
name = "large"
count = 40
cpu = 64
memory = "256Gi"
idle_watts = 110
full_watts = 400
[learn]
agent = { name = "evolution", search = { pairs = 12, cases = 2 } }
objective = "kwh"
base = "best-fit"
[learn.train]
samples = [1, 2]
"""
GOAL = 1.6


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--turns", type=int, default=5)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(SCENARIO)
        stage = plimsoll.Stage(path)
        rng = np.random.default_rng(1)
        # A generation as training has it: 12 mirrored pairs on 2 cases.
        jobs = [(rng.normal(0, 0.1, stage.weights).astype(np.float32), case) for _ in range(24) for case in range(2)]
        ray.init(num_cpus=3, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False, logging_level="error")
        crews = {workers: Crew(Play.read(path), workers) for workers in (1, 2)}
        expected = stage.measure(jobs)
        for crew in crews.values():
            found = crew(jobs)
            assert all(a[:3] == b[:3] and np.array_equal(a[3], b[3]) for a, b in zip(found, expected, strict=True)), "runs differ"
        sides = {
            "one worker": crews[1],
            "two workers": crews[2],
            "the engine, one core": lambda jobs: [stage.measure([job]) for job in jobs],
            "the engine, two cores": stage.measure,
        }
        took: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(args.turns):
            for name, measure in sides.items():
                began = time.perf_counter()
                measure(jobs)
                took[name].append(time.perf_counter() - began)
        ray.shutdown()
    print(f"{len(jobs)} runs, {args.turns} turns")
    for name, seconds in took.items():
        rates = sorted(len(jobs) / second for second in seconds)
        print(f"{name:>22}: {statistics.median(rates):8.1f} runs/s (from {rates[0]:.1f} to {rates[-1]:.1f})")
    ratios = sorted(one / two for one, two in zip(took["one worker"], took["two workers"], strict=True))
    ratio = statistics.median(ratios)
    alone = statistics.median(one / two for one, two in zip(took["the engine, one core"], took["the engine, two cores"], strict=True))
    print(f"the machine itself is {alone:.2f} times as fast with two cores as with one")
    print(f"two workers are {ratio:.2f} times as fast as one (turns from {ratios[0]:.2f} to {ratios[-1]:.2f}); {GOAL} is the goal")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
