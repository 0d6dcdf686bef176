"""Training from Python makes the model that the engine makes by itself, whoever makes the runs; and it goes on where it was."""

import json
import os
import signal

import numpy as np
import pytest

import plimsoll


def model(folder) -> tuple[bytes, dict]:
    """The weights as they lie on the disk, and the card, without what names the folder."""
    card = plimsoll.read_card(folder)
    card["training"].pop("command")
    card.pop("name")
    return (folder / "model.safetensors").read_bytes(), card


def test_runs_that_others_make_come_to_the_same_model(evolving, tmp_path):
    plimsoll.train(evolving, tmp_path / "here")
    stage = plimsoll.Stage(evolving)
    calls = []

    def measure(jobs):
        calls.append(len(jobs))
        assert all(network.dtype == np.float32 and network.shape == (stage.weights,) and case < stage.cases for network, case in jobs)
        # One at a time and from the end: neither company nor order counts.
        return [stage.measure([job])[0] for job in reversed(jobs)][::-1]

    found = plimsoll.train(evolving, tmp_path / "elsewhere", measure=measure)
    assert model(tmp_path / "elsewhere") == model(tmp_path / "here")
    assert found["trained"] and found["progress"] == 1.0 and found["scalars"]["best"] <= 1.0
    assert calls.count(12) == 4, "3 pairs on 2 cases in each of 4 generations"
    plimsoll.check_model(tmp_path / "elsewhere")
    assert plimsoll.evaluate(tmp_path / "elsewhere", evolving)["model"] == "elsewhere"


def test_another_seed_is_another_model(evolving, tmp_path):
    plimsoll.train(evolving, tmp_path / "one", seed=1)
    plimsoll.train(evolving, tmp_path / "two", seed=2)
    assert model(tmp_path / "one")[0] != model(tmp_path / "two")[0]


def test_what_was_stopped_goes_on_and_ends_the_same(evolving, tmp_path):
    plimsoll.train(evolving, tmp_path / "whole")
    seen = []

    def stop(progress):
        seen.append(progress["progress"])
        if len(seen) == 2:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        plimsoll.train(evolving, tmp_path / "parts", progress=stop)
    assert not (tmp_path / "parts" / "card.json").exists()
    assert any(entry.name.startswith("events.out.tfevents") for entry in (tmp_path / "parts" / "training").iterdir())
    with pytest.raises(ValueError, match="go on with --resume"):
        plimsoll.train(evolving, tmp_path / "parts")
    plimsoll.train(evolving, tmp_path / "parts", resume=True, progress=lambda progress: seen.append(progress["progress"]))
    assert seen == [0.25, 0.5, 0.75, 1.0]
    assert model(tmp_path / "parts") == model(tmp_path / "whole")
    assert plimsoll.train(evolving, tmp_path / "parts", resume=True)["trained"] is False


def test_ctrl_c_ends_it_with_a_checkpoint(evolving, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        plimsoll.train(evolving, tmp_path / "it", progress=lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert any(entry.name.startswith("checkpoint-") for entry in (tmp_path / "it" / "training").iterdir())


def test_it_begins_with_another_model(evolving, tmp_path):
    plimsoll.train(evolving, tmp_path / "first")
    figures = []
    more = evolving.replace("validate_every = 2", "validate_every = 1")
    plimsoll.train(more, tmp_path / "second", begin_with=tmp_path / "first", seed=2, progress=lambda now: figures.append(now["scalars"]["best"]))
    assert figures[0] <= plimsoll.read_card(tmp_path / "first")["figures"]["training"]["of_base"]


def test_a_model_that_is_there_is_replaced_only_if_that_is_said(evolving, tmp_path):
    plimsoll.train(evolving, tmp_path / "it")
    with pytest.raises(ValueError, match="there is a model already"):
        plimsoll.train(evolving, tmp_path / "it", seed=2)
    with pytest.raises(ValueError, match="either goes on"):
        plimsoll.train(evolving, tmp_path / "it", resume=True, replace=True)
    plimsoll.train(evolving, tmp_path / "it", seed=2, replace=True)
    assert plimsoll.read_card(tmp_path / "it")["training"]["seed"] == 2


def test_who_makes_runs_wrongly_is_told(evolving, tmp_path):
    stage = plimsoll.Stage(evolving)
    with pytest.raises(ValueError, match="runs were asked for, and 1 came back"):
        plimsoll.train(evolving, tmp_path / "few", measure=lambda jobs: stage.measure(jobs[:1]))
    with pytest.raises(TypeError):
        plimsoll.train(evolving, tmp_path / "odd", measure=lambda jobs: ["nothing" for _ in jobs])
    with pytest.raises(ZeroDivisionError):
        plimsoll.train(evolving, tmp_path / "broken", measure=lambda jobs: 1 / 0)
    with pytest.raises(ValueError, match="is of another scenario"):
        stage.measure([(np.zeros(3, np.float32), 0)])
    with pytest.raises(ValueError, match="is of another scenario"):
        stage.measure([(np.zeros(stage.weights, np.float32), stage.cases)])


def test_agents_whose_runs_cannot_be_made_elsewhere_are_refused(evolving, tmp_path):
    blend = evolving.replace('name = "evolution"', 'name = "blend"').replace(", search = { generations = 4, pairs = 3, cases = 2, validate_every = 2 }", "")
    with pytest.raises(ValueError, match='those of "evolution" are'):
        plimsoll.train(blend, tmp_path / "it", measure=lambda jobs: [])
    with pytest.raises(ValueError, match='those of "evolution" are'):
        plimsoll.Stage(blend)


def test_a_trial_is_judged_on_the_way(evolving):
    from plimsoll import _engine

    search = """
[learn.tune]
configurations = 3
rounds = 2
keep_one_in = 2
validation = 0.34

[learn.tune.space]
"agent.search.sigma" = { low = 0.01, high = 0.5, log = true }
"""
    scenario = _engine.Scenario.parse(evolving + search, ".")
    plan = json.loads(_engine.search(scenario, None, 4000))
    assert plan["configurations"][0] == {} and len(plan["configurations"]) == 3 and plan["budgets"] == [2000, 4000]
    told = []
    _engine.trial(scenario, json.dumps(plan["configurations"][1]), plan["budgets"], 1, lambda budget, score: told.append((budget, score)))
    assert [budget for budget, _ in told] == [2000, 4000] and all(score < 0 for _, score in told), "less energy is better"
    once = []
    _engine.trial(scenario, json.dumps(plan["configurations"][1]), [4000], 1, lambda budget, score: once.append((budget, score)))
    assert once == told[1:], "being judged on the way changes nothing"
