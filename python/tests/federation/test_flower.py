"""A federation with Flower, each cluster in a process of its own, comes to what it comes to in one process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import plimsoll
from plimsoll.federation import simulate

pytest.importorskip("flwr", reason="Flower is not installed; make test-ray brings it along")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """Processes with their logs, all of which end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.address, self.started = folder, f"127.0.0.1:{free_port()}", {}

    def start(self, name: str, *words: object) -> subprocess.Popen:
        """Starts `plimsoll-federate`."""
        script = Path(sys.executable).with_name("plimsoll-federate")
        with (self.folder / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen([script, *map(str, words)], stdout=log, stderr=log, start_new_session=True)
        return self.started[name]

    def log(self, name: str) -> str:
        """What it said."""
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        """Ends those that are left."""
        for process in self.started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    made.end()


def shared(folder: Path, names) -> list[np.ndarray]:
    weights = plimsoll.read_weights(folder)
    return [weights[name] for name in names]


def test_three_clusters_in_their_own_processes(clusters, tmp_path, processes):
    server = processes.start(
        "server", "server", "--clients", 3, "--rounds", 2, "--generations", 2, "--weights", "pods", "--out", tmp_path / "server", "--address", processes.address
    )
    members = [processes.start(name, "client", path, "--server", processes.address, "--out", tmp_path / "out" / name) for name, path in clusters.items()]
    assert server.wait(timeout=300) == 0, processes.log("server")
    for name, member in zip(clusters, members, strict=True):
        assert member.wait(timeout=60) == 0, processes.log(name)
    together = simulate(sorted(clusters.values()), tmp_path / "together", rounds=2, generations=2, weighting="pods")
    names = plimsoll.read_weights(tmp_path / "server")
    for name, path in clusters.items():
        assert plimsoll.evaluate(tmp_path / "out" / name, path)["model"] == name
        for here, there in zip(shared(tmp_path / "out" / name, names), shared(tmp_path / "together" / name, names), strict=True):
            np.testing.assert_array_equal(here, there)
    assert json.loads((tmp_path / "server" / "rounds.json").read_text()) == [
        told | {"figures": dict(sorted(told["figures"].items()))} for told in together["rounds"]
    ]
    # What the server has is what clusters that join later begin with.
    assert plimsoll.train(clusters["rush"], tmp_path / "later", begin_with=tmp_path / "server")["trained"]


def test_a_client_that_is_killed_is_missed_and_the_others_go_on(clusters, tmp_path, processes):
    server = processes.start(
        "server", "server", "--clients", 3, "--rounds", 6, "--generations", 2, "--out", tmp_path / "server", "--address", processes.address
    )
    for name, path in clusters.items():
        processes.start(name, "client", path, "--server", processes.address, "--out", tmp_path / "out" / name)
    deadline = time.monotonic() + 240
    while "round 2" not in processes.log("calm"):
        assert time.monotonic() < deadline and server.poll() is None, processes.log("server")
        time.sleep(0.02)
    os.killpg(processes.started["calm"].pid, signal.SIGKILL)
    assert server.wait(timeout=300) == 0, processes.log("server")
    rounds = json.loads((tmp_path / "server" / "rounds.json").read_text())
    assert len(rounds) == 6 and set(rounds[0]["figures"]) == set(clusters), rounds
    assert set(rounds[-1]["figures"]) == {"rush", "steady"}, rounds
    plimsoll.check_model(tmp_path / "out" / "calm")


def test_a_client_of_another_network_is_refused(clusters, tmp_path, processes):
    text = clusters["steady"].read_text()
    clusters["steady"].write_text(text.replace("[learn.train]", 'network = { name = "factored", tower = 3 }\n\n[learn.train]'))
    server = processes.start("server", "server", "--clients", 3, "--rounds", 1, "--out", tmp_path / "server", "--address", processes.address)
    for name, path in clusters.items():
        processes.start(name, "client", path, "--server", processes.address, "--out", tmp_path / "out" / name)
    assert server.wait(timeout=300) == 0, processes.log("server")
    rounds = json.loads((tmp_path / "server" / "rounds.json").read_text())
    # Whoever is heard first sets what is learned; the odd one is either refused or alone.
    assert set(rounds[-1]["figures"]) in ({"calm", "rush"}, {"steady"}), rounds
    assert "is refused: network is" in processes.log("server")


def test_traffic_is_encrypted_where_it_is_asked_for(clusters, tmp_path, processes):
    pem = {name: tmp_path / f"{name}.pem" for name in ("cert", "key")}
    openssl = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*openssl, "-x509", "-days", "2", "-keyout", pem["key"], "-out", pem["cert"]], check=True, capture_output=True)
    tls = ["--tls-ca", pem["cert"], "--tls-cert", pem["cert"], "--tls-key", pem["key"]]
    server = processes.start("server", "server", "--clients", 1, "--rounds", 1, "--out", tmp_path / "server", "--address", processes.address, *tls)
    member = processes.start("rush", "client", clusters["rush"], "--server", processes.address, "--out", tmp_path / "rush", "--tls-ca", pem["cert"])
    plain = processes.start("calm", "client", clusters["calm"], "--server", processes.address, "--out", tmp_path / "calm", "--patience", 5)
    assert server.wait(timeout=240) == 0, processes.log("server")
    assert member.wait(timeout=60) == 0, processes.log("rush")
    assert plain.wait(timeout=60) != 0, processes.log("calm")
    plimsoll.check_model(tmp_path / "rush")
