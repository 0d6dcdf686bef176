"""Training on Ray comes to the model of `plimsoll.train`, bit for bit, however many workers there are and whoever of them is lost."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import plimsoll

pytestmark = pytest.mark.filterwarnings("default")
ray = pytest.importorskip("ray", reason="Ray is not installed; make test-ray brings it along")

from plimsoll.ray import Crew, LostWorkers, train, tune
from plimsoll.ray.crew import Play


def model(folder: Path) -> tuple[bytes, dict]:
    """The weights as they lie on the disk, and the card, without what names the folder."""
    card = plimsoll.read_card(folder)
    card["training"].pop("command")
    card.pop("name")
    return (folder / "model.safetensors").read_bytes(), card


@pytest.fixture
def alone(scenario, tmp_path) -> tuple[bytes, dict]:
    """The model that comes of training in one process."""
    plimsoll.train(scenario, tmp_path / "alone")
    return model(tmp_path / "alone")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_model_is_the_same_whatever_the_number_of_workers(two_nodes, scenario, alone, tmp_path, workers):
    found = train(scenario, tmp_path / "it", workers=workers)
    assert model(tmp_path / "it") == alone
    assert (found["workers"], found["lost"]) == (workers, 0)
    assert plimsoll.evaluate(tmp_path / "it", scenario)["model"] == "it"
    assert any(entry.name.startswith("events.out.tfevents") for entry in (tmp_path / "it" / "training").iterdir())


def test_a_worker_that_is_killed_in_the_middle_costs_its_runs_and_nothing_else(two_nodes, scenario, alone, tmp_path):
    crew = Crew(Play.read(scenario), 2)
    calls, killed = [], []

    def kill() -> None:
        place = crew.places[len(killed) % 2]
        time.sleep(0.02)
        if place.where and any(batch is not None for batch in place.in_hand.values()):
            killed.append(place.where[1])
            os.kill(place.where[1], signal.SIGKILL)

    def measure(jobs):
        calls.append(len(jobs))
        if len(calls) in (4, 6):
            threading.Thread(target=kill).start()
        return crew(jobs)

    plimsoll.train(scenario, tmp_path / "it", measure=measure)
    crew.close()
    assert killed, "nobody was killed while he made runs"
    assert crew.lost == len(killed)
    assert model(tmp_path / "it") == alone


def test_what_another_began_is_gone_on_with_on_ray_and_the_other_way_round(two_nodes, scenario, alone, tmp_path):
    def stop_after(generations: int):
        left = iter(range(generations))

        def progress(_):
            if next(left, None) is None:
                raise InterruptedError

        return progress

    with pytest.raises(InterruptedError):
        plimsoll.train(scenario, tmp_path / "it", progress=stop_after(1))
    with pytest.raises(InterruptedError):
        train(scenario, tmp_path / "it", workers=2, resume=True, progress=stop_after(1))
    plimsoll.train(scenario, tmp_path / "it", resume=True)
    assert model(tmp_path / "it") == alone


def test_workers_that_cannot_come_up_are_said_to(two_nodes, scenario):
    crew = Crew(Play.read(scenario), 1, cpus=64.0, patience=3.0)
    with pytest.raises(LostWorkers, match=r"1 with 64 cores each are wanted, and the cluster has 2"):
        crew(plimsoll_jobs(scenario))
    crew.close()
    play = Play.read(scenario)
    crew = Crew(play, 1)
    crew.play = Play("name = 'nothing'\n", play.folder, None)
    with pytest.raises(LostWorkers, match=r"did not come up.*(?s:.*)no \[learn\] section"):
        crew._start(crew.places[0])
        crew(plimsoll_jobs(scenario))
    crew.close()


def plimsoll_jobs(scenario: Path) -> list:
    import numpy as np

    return [(np.zeros(plimsoll.Stage(scenario).weights, np.float32), 0)]


def test_a_search_tries_what_plimsoll_tune_tries(two_nodes, scenario, tmp_path):
    from plimsoll import _engine

    found = tune(scenario, steps=60_000, concurrent=2, storage=tmp_path / "results")
    plan = json.loads(_engine.search(_engine.Scenario.read(scenario), None, 60_000))
    assert sorted(trial["configuration"] for trial in found["trials"]) == [0, 1, 2, 3]
    assert all(trial["values"] == plan["configurations"][trial["configuration"]] for trial in found["trials"])
    assert all(trial["figure"] > 0 and trial["problem"] is None for trial in found["trials"])
    assert found["best"]["steps"] == plan["budgets"][-1]
    assert found["objective"]["measure"] == "kwh"


def wait_for(what, seconds: float, log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints that are whole."""
    return [path for path in (folder / "training").glob("checkpoint-*") if path.suffix == ""] if folder.exists() else []


def test_a_head_that_is_lost_and_started_anew_goes_on_from_a_checkpoint(scenario, alone, tmp_path, head, command):
    head.start()
    out, log = tmp_path / "it", tmp_path / "driver.log"
    words = ["train", scenario, "--out", out, "--workers", 2, "--address", head.address, "--resume"]
    driver = command(*words, log=log)
    wait_for(lambda: checkpoints(out), 180, log)
    head.kill()
    is_whole = (out / "card.json").exists()
    # The learner has nobody left to ask; whether it sees that by itself is a matter of time, not of what is saved.
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert not is_whole, "training was over before the head was lost"
    head.start()
    driver = command(*words, log=log)
    assert driver.wait(timeout=240) == 0, log.read_text()
    assert "training goes on from step" in log.read_text()
    assert model(out) == alone


def test_the_command_stops_with_a_checkpoint_when_it_is_asked_to(scenario, alone, tmp_path, head, command):
    head.start()
    out, log = tmp_path / "it", tmp_path / "driver.log"
    words = ["train", scenario, "--out", out, "--workers", 1, "--address", head.address]
    driver = command(*words, log=log)
    wait_for(lambda: checkpoints(out), 180, log)
    os.kill(driver.pid, signal.SIGTERM)
    assert driver.wait(timeout=120) == 130, log.read_text()
    assert "go on with --resume" in log.read_text()
    driver = command(*words, "--resume", log=log)
    assert driver.wait(timeout=240) == 0, log.read_text()
    assert model(out) == alone
