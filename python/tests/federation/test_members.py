"""Clusters that learn together end with one network, and keep what is theirs."""

import numpy as np
import pytest

import plimsoll
from plimsoll.federation import Member, norm, simulate


def networks(folders) -> list[dict[str, np.ndarray]]:
    return [plimsoll.read_weights(folder) for folder in folders]


def test_all_have_the_same_network_and_each_its_own_predictor(clusters, tmp_path):
    found = simulate(list(clusters.values()), tmp_path / "out", rounds=3)
    assert found["members"] == list(clusters) and [told["round"] for told in found["rounds"]] == [1, 2, 3]
    models = networks(found["folders"].values())
    shared = set(Member(clusters["calm"]).common["tensors"])
    for name in shared:
        assert all(np.array_equal(models[0][name], other[name]) for other in models[1:]), name
    own = set(models[0]) - shared
    assert own and any(not np.array_equal(models[0][name], models[1][name]) for name in own)
    for (name, folder), path in zip(found["folders"].items(), clusters.values(), strict=True):
        plimsoll.check_model(folder)
        assert plimsoll.evaluate(folder, path)["model"] == name
        assert plimsoll.read_card(folder)["training"]["agent"] == "federation"


def test_it_is_the_same_each_time_and_learns(clusters, tmp_path):
    first = simulate(list(clusters.values()), tmp_path / "a", rounds=3)
    again = simulate(list(clusters.values()), tmp_path / "b", rounds=3)
    assert first["rounds"] == again["rounds"]
    assert any(figure != 1.0 for figure in first["rounds"][-1]["figures"].values()), "nothing was learned"


def test_what_leaves_is_as_long_as_it_may_be(clusters):
    free, bound = Member(clusters["rush"]), Member(clusters["rush"], clip=0.01)
    start = free.network()
    lengths = [norm(member.learn(start, 4)) for member in (free, bound)]
    assert lengths[0] > 0.01 and lengths[1] == pytest.approx(0.01, rel=1e-3), lengths
    noisy = Member(clusters["rush"], clip=0.01, noise=1.0, noise_seed=1)
    assert norm(noisy.learn(start, 1)) > 0.02


def test_a_member_that_learns_something_else_is_refused(clusters, tmp_path):
    clusters["calm"].write_text(clusters["calm"].read_text().replace('base = "best-fit"', 'base = "least-allocated"'))
    with pytest.raises(ValueError, match='calm cannot learn with steady: base is "least-allocated", not "best-fit"'):
        simulate(list(clusters.values()), tmp_path / "out", rounds=1)
    with pytest.raises(ValueError, match="the network has the shapes"):
        Member(clusters["rush"]).take([np.zeros(3, np.float32)])
    with pytest.raises(ValueError, match="names of their own"):
        simulate([clusters["rush"], clusters["rush"]], tmp_path / "out", rounds=1)
