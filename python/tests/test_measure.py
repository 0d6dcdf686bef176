"""Simulations, comparisons, evaluations, bounds, workloads and names."""

import numpy as np
import pytest

import plimsoll


def test_a_run_is_the_same_each_time_and_not_below_the_bound(cluster):
    first, again = plimsoll.simulate(cluster, "best-fit", seed=3), plimsoll.simulate(cluster, "best-fit", seed=3)
    assert first == again
    assert first["seed"] == 3 and first["measures"]["kwh"] > 0
    assert first["kw_ratio"] >= 0.999
    assert plimsoll.simulate(cluster, "random", seed=3)["placements_checksum"] != first["placements_checksum"]


def test_a_run_leaves_a_timeline_and_a_report(cluster, tmp_path):
    plimsoll.simulate(cluster, "best-fit", timeline=tmp_path / "t.jsonl", report=tmp_path / "r.html")
    assert (tmp_path / "t.jsonl").read_text().count("\n") > 10
    assert "<html" in (tmp_path / "r.html").read_text()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        plimsoll.simulate(cluster, "best-fit", timeline=tmp_path / "nowhere" / "t.jsonl")


def test_a_comparison_is_paired_with_an_interval(cluster):
    found = plimsoll.compare(cluster, ["default", "best-fit"], seeds=range(1, 7), measure="kwh")
    assert len(found["rows"]) == 12 and found["baseline"] == "default"
    kwh = {policy: [row["measures"]["kwh"] for row in found["rows"] if row["policy"] == policy] for policy in ("default", "best-fit")}
    difference = found["differences"]["best-fit"]
    assert difference["mean"] == pytest.approx(np.mean(kwh["best-fit"]) - np.mean(kwh["default"]))
    low, high = difference["interval"]
    assert low <= difference["mean"] <= high
    assert difference["relative"] < 0, "packing saves energy where empty machines sleep"


def test_what_cannot_be_compared_is_said(cluster):
    with pytest.raises(ValueError, match="joy.*"):
        plimsoll.compare(cluster, ["default", "joy"])
    with pytest.raises(ValueError, match='measure "joy" is not known; there are'):
        plimsoll.compare(cluster, ["default"], measure="joy")
    with pytest.raises(ValueError):
        plimsoll.compare(cluster, ["default"], windows=["tomorrow"])


def test_a_policy_is_evaluated_on_what_is_held_out(learning):
    found = plimsoll.evaluate("best-fit", learning)
    assert found["objective"]["measure"] == "kwh"
    assert {case["sample"] for case in found["cases"]} == set(range(1001, 1006))
    assert found["findings"] and all(isinstance(text, str) for text in found["findings"])
    with pytest.raises(ValueError, match="joy"):
        plimsoll.evaluate("best-fit", learning, objective="joy")
    with pytest.raises(ValueError, match="is trained on, too"):
        plimsoll.evaluate("best-fit", learning.replace("samples = [1001,", "samples = [1,"))


def test_bounds_are_below_every_policy(cluster):
    bound = plimsoll.bounds(cluster, seed=1)
    assert bound["exact"] is None
    assert 0 < bound["fluid"]["mean_kw"] <= plimsoll.simulate(cluster, "best-fit", seed=1)["measures"]["mean_kw"] * 1.001
    with pytest.raises(ValueError, match="exact_seconds"):
        plimsoll.bounds(cluster, exact_seconds=-1.0)


def test_a_workload_is_made_written_and_read_back(tmp_path):
    path = tmp_path / "pods.csv.gz"
    made = plimsoll.generate_trace("poisson", seed=4, hours=2, pods_per_hour=100, out=path)
    read = plimsoll.read_trace(path)
    assert made["pods"] == read["pods"] > 100
    assert made["pods"] == plimsoll.generate_trace("poisson", seed=4, hours=2, pods_per_hour=100)["pods"]
    scenario = f"name = 'recorded'\n[workload]\nfile = '{path}'\n[[pool]]\nname = 'a'\ncount = 4\ncpu = 8\nmemory = '32Gi'\nidle_watts = 60\nfull_watts = 180\n"
    assert plimsoll.simulate(scenario, "best-fit")["measures"]["arrived"] > 0
    plimsoll.Environment(scenario, kind="arena").reset(seed=1)


def test_workloads_that_cannot_be_are_said_so(tmp_path):
    with pytest.raises(ValueError, match="there is none of this name; there are poisson"):
        plimsoll.generate_trace("joy")
    with pytest.raises(ValueError, match="generator poisson"):
        plimsoll.generate_trace("poisson", joy=3)
    with pytest.raises(FileNotFoundError, match="nowhere.csv"):
        plimsoll.read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(FileNotFoundError, match="nowhere.csv"):
        plimsoll.simulate(f"name = 'a'\n[workload]\nfile = '{tmp_path}/nowhere.csv'\n[[pool]]\nname = 'a'\ncount = 2\ncpu = 4\nmemory = '8Gi'\nidle_watts = 60\nfull_watts = 180\n")
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="odd.csv"):
        plimsoll.read_trace(tmp_path / "odd.csv")


@pytest.mark.parametrize("kind", ["policies", "bases", "rewards", "generators", "node_features", "pod_features", "measures"])
def test_everything_that_can_be_named_is_listed_with_what_it_is(kind):
    listed = getattr(plimsoll, kind)()
    assert len(listed) > 4 and all(listed.values())
