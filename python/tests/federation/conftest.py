"""Three clusters that differ, each small enough to learn within seconds."""

from pathlib import Path

import pytest

WORKLOADS = {
    "steady": 'kind = "poisson"\npods_per_hour = 30\nhours = 8',
    "rush": 'kind = "poisson"\npods_per_hour = 60\nhours = 4',
    "calm": 'kind = "poisson"\npods_per_hour = 15\nhours = 16',
}

SCENARIO = """
name = "{name}"

[workload.generate]
{workload}

[[pool]]
name = "small"
count = 20
cpu = 8
memory = "32Gi"
idle_watts = 60
full_watts = 180

[[pool]]
name = "large"
count = 10
cpu = 32
memory = "128Gi"
idle_watts = 110
full_watts = 400

[learn]
agent = {{ name = "evolution", search = {{ generations = 4, pairs = 3, cases = 2, sigma = 0.3 }} }}
objective = "kwh"
base = "best-fit"

[learn.train]
samples = [1, 2]

[learn.evaluate]
samples = [1001, 1002]
baselines = ["best-fit"]
"""


@pytest.fixture
def clusters(tmp_path: Path) -> dict[str, Path]:
    """Scenario files by name."""
    files = {}
    for name, workload in WORKLOADS.items():
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(SCENARIO.format(name=name, workload=workload))
    return files
