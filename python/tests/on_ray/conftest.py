"""Clusters of Ray on this machine alone, with little memory."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Read when Ray is imported, and by the processes that tests start.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Meant for other systems; here it has Ray stay on loopback.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Nobody else reaches these clusters; a token that lies about on this machine is not asked for.
    "RAY_AUTH_MODE": "disabled",
    # Workers are as urgent as the learner.
    "RAY_worker_niceness": "0",
    # On a busy machine, a node takes its time to start.
    "RAY_agent_register_timeout_ms": "180000",
    "RAY_raylet_start_wait_time_s": "180",
}

STORE = 80_000_000
"""Bytes of an object store; the least that Ray takes is a little less."""

TUNE = """
[learn.tune]
configurations = 4
rounds = 2
keep_one_in = 2
validation = 0.34

[learn.tune.space]
"agent.search.sigma" = { low = 0.01, high = 0.5, log = true }
"""


@pytest.fixture
def scenario(evolving: str, tmp_path: Path) -> Path:
    """A scenario file whose runs take long enough to be interrupted."""
    path = tmp_path / "scenario.toml"
    path.write_text(evolving.replace("hours = 4", "hours = 30").replace("generations = 4", "generations = 6") + TUNE)
    return path


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes with a core each; this process is connected to it."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": "127.0.0.1"}
    made = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    made.add_node(**node)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Head:
    """The head of a cluster, which can be killed and started again at its address."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder, self.process = free_port(), folder, None
        self.address = f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        script = Path(sys.executable).with_name("ray")
        command = [script, "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={self.port}", "--num-cpus=2"]
        command += [f"--object-store-memory={STORE}", "--include-dashboard=false", "--disable-usage-stats"]
        with (self.folder / "head.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, (self.folder / "head.log").read_text()
            time.sleep(0.2)
        raise TimeoutError("the head does not answer")

    def kill(self) -> None:
        """Ends it and all that it started, at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.process = None


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    """A head that is not started yet."""
    made = Head(tmp_path)
    yield made
    made.kill()


@pytest.fixture
def command() -> Callable[..., subprocess.Popen]:
    """Starts `plimsoll-ray`."""

    def start(*words: object, log: Path) -> subprocess.Popen:
        script = Path(sys.executable).with_name("plimsoll-ray")
        with log.open("ab") as out:
            return subprocess.Popen([script, *map(str, words)], stdout=out, stderr=out, start_new_session=True)

    return start
