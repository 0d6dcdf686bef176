"""Networks that were trained here become models that decide as they did; cards and weights are read back."""

import json

import numpy as np
import pytest

import plimsoll

TOWER, HIDDEN = 8, 6


def network(env: plimsoll.Environment, seed: int = 1) -> dict[str, np.ndarray]:
    """A factored network with weights by chance."""
    rng = np.random.default_rng(seed)
    nodes, pods, inputs = len(env.node_features), len(env.pod_features), env.engine.tower_inputs
    shapes = {"tower.weight": (TOWER, inputs), "tower.bias": (TOWER,), "pod.weight": (TOWER, pods), "pod.bias": (TOWER,)}
    shapes |= {"head.node": (HIDDEN, TOWER), "head.direct": (HIDDEN, nodes), "head.pod": (HIDDEN, TOWER), "head.context": (HIDDEN, TOWER)}
    shapes |= {"head.bias": (HIDDEN,), "out.weight": (HIDDEN,), "out.bias": (1,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def scores(weights: dict[str, np.ndarray], seen: dict[str, np.ndarray]) -> np.ndarray:
    """What the network makes of an observation, written down once more."""
    relu = lambda x: np.maximum(x, 0.0)
    nodes, present = seen["nodes"], seen["present"][:, None]
    e = relu(nodes[:, : weights["tower.weight"].shape[1]] @ weights["tower.weight"].T + weights["tower.bias"])
    p = relu(weights["pod.weight"] @ seen["pod"] + weights["pod.bias"])
    c = (e * present).sum(axis=0) / present.sum()
    common = weights["head.pod"] @ p + weights["head.context"] @ c + weights["head.bias"]
    units = relu(e @ weights["head.node"].T + nodes @ weights["head.direct"].T + common)
    return units @ weights["out.weight"] + weights["out.bias"]


def walked(scenario: str) -> plimsoll.Environment:
    env = plimsoll.Environment(scenario)
    _, info = env.reset(seed=1)
    rng, over = np.random.default_rng(1), False
    while not over:
        *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        over = terminated or truncated
    return env


def test_a_model_decides_as_its_network_did(learning, tmp_path):
    env = walked(learning)
    weights = network(env)
    env.save_model(tmp_path / "mine", weights, description="by chance", agent="nobody", steps=7, seed=3, ranges=False)
    again = plimsoll.Environment(learning, expert=tmp_path / "mine")
    observation, info = again.reset(seed=2)
    different, over = set(), False
    while not over:
        action = again.expert_action()
        found = np.where(info["action_mask"], scores(weights, observation), -np.inf)
        assert found[action] == pytest.approx(found.max(), abs=1e-4)
        different.add(action)
        observation, _, terminated, truncated, info = again.step(action)
        over = terminated or truncated
    assert len(different) > 1


def test_a_model_is_evaluated_and_its_card_says_what_it_is(learning, tmp_path):
    env = walked(learning)
    folder = tmp_path / "mine"
    env.save_model(folder, network(env), description="by chance", agent="nobody", steps=7, seed=3)
    plimsoll.check_model(folder)
    card = plimsoll.read_card(folder)
    assert (card["name"], card["description"], card["base"]) == ("mine", "by chance", "best-fit")
    assert card["network"] == {"kind": "factored", "sizes": {"tower": TOWER, "hidden": HIDDEN, "tower_inputs": 3}}
    assert card["node_features"] == env.node_features
    assert (card["training"]["steps"], card["training"]["seed"], card["training"]["agent"]) == (7, 3, "nobody")
    least, most = np.array(card["ranges"]).T
    assert len(least) == len(env.node_features) + len(env.pod_features) and (least <= most).all()
    found = plimsoll.evaluate(folder, learning, record=True)
    assert found["model"] == "mine"
    assert [figures["policy"] for figures in found["policies"]] == ["mine", "default", "best-fit"]
    assert all(len(against["interval"]) == 2 for against in found["against"])
    assert found["verdict"] in {"significantly-better", "no-difference", "significantly-worse"}
    assert plimsoll.read_card(folder)["figures"]["kwh"]["verdict"] == found["verdict"]
    assert [model["name"] for model in plimsoll.list_models(tmp_path)] == ["mine"]


def test_weights_are_read_back_as_they_were(learning, tmp_path):
    env = walked(learning)
    weights = network(env)
    env.save_model(tmp_path / "mine", weights)
    read = plimsoll.read_weights(tmp_path / "mine")
    for name, array in weights.items():
        np.testing.assert_array_equal(read[name], array)


def test_a_model_that_would_not_work_is_refused_and_not_stored(learning, tmp_path):
    env = walked(learning)
    weights, folder = network(env), tmp_path / "mine"
    wrong = {
        "tensor .*pod.weight.* is missing": {name: array for name, array in weights.items() if name != "pod.weight"},
        "tensor .*head.bias.* is": weights | {"head.bias": np.zeros(HIDDEN + 1, np.float32)},
        "holds NaN; the training that made it diverged": weights | {"out.bias": np.array([np.nan], np.float32)},
    }
    for message, given in wrong.items():
        with pytest.raises(ValueError, match=message):
            env.save_model(folder, given)
    assert not folder.exists()


def test_models_that_are_missing_or_wrong_are_said_so(learning, tmp_path):
    with pytest.raises(FileNotFoundError, match="card.json"):
        plimsoll.read_card(tmp_path)
    with pytest.raises(FileNotFoundError):
        plimsoll.evaluate(tmp_path / "nowhere", learning)
    env = walked(learning)
    env.save_model(tmp_path / "mine", network(env))
    card = tmp_path / "mine" / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"base": "nobody"}))
    with pytest.raises(ValueError, match="nobody"):
        plimsoll.check_model(tmp_path / "mine")
