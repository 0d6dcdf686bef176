"""Small scenarios that every test can use."""

import pytest

CLUSTER = """
name = "small"

[workload.generate]
kind = "poisson"
pods_per_hour = 60
hours = 4
lifetime = { kind = "exponential", mean_s = 1200 }

[[pool]]
name = "worker"
count = 5
cpu = 16
memory = "64Gi"
idle_watts = 60
full_watts = 180
"""

LEARN = """
[learn]
reward = "compress"
objective = "kwh"
base = "best-fit"

[learn.observation]
nodes = ["cpu-free", "memory-free", "empty", "cpu-left", "extension"]
pods = ["cpu", "memory", "life", "load"]

[learn.train]
samples = [1, 2]

[learn.evaluate]
samples = [1001, 1002, 1003, 1004, 1005]
baselines = ["default", "best-fit"]
"""

EVOLVE = """
[learn]
agent = { name = "evolution", search = { generations = 4, pairs = 3, cases = 2, validate_every = 2 } }
objective = "kwh"
base = "best-fit"

[learn.train]
samples = [1, 2, 3]

[learn.evaluate]
samples = [1001, 1002]
baselines = ["best-fit"]

[learn.checkpoint]
every = "0s"
"""


@pytest.fixture
def cluster() -> str:
    """Five nodes and four hours of pods, all of which find room."""
    return CLUSTER


@pytest.fixture
def learning() -> str:
    """The same, with what is learned and measured."""
    return CLUSTER + LEARN


@pytest.fixture
def evolving() -> str:
    """A scenario whose model is evolved within a second."""
    return CLUSTER.replace("count = 5", "count = 30") + EVOLVE
