"""One cluster: Gymnasium's own checks, masks, seeds, memory, and input that is wrong."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import plimsoll


def walk(env: plimsoll.Environment, seed: int, most: int = 10_000):
    """An episode by chance among allowed nodes: all that was seen."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    log, over = [(observation, info)], False
    while not over and len(log) <= most:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, reward, terminated, truncated, info = env.step(action)
        log.append((observation, info, action, reward, terminated, truncated))
        over = terminated or truncated
    return log


def same(a, b) -> bool:
    """Whether two things that were seen are equal to the last bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize("kind", ["cluster", "arena"])
@pytest.mark.filterwarnings("ignore:.*Box observation space:UserWarning", "ignore:.*not within the observation space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*WARN.*:UserWarning")
def test_gymnasiums_own_checks_pass(cluster, kind):
    check_env(plimsoll.Environment(cluster, kind=kind, masked_penalty=1.0), skip_render_check=True)


def test_it_is_made_by_name(cluster):
    env = gymnasium.make("plimsoll/Cluster-v0", scenario=cluster, disable_env_checker=True)
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert env.action_space.contains(env.action_space.sample(info["action_mask"]))
    assert env.get_wrapper_attr("action_masks")().any()


@pytest.mark.parametrize("kind", ["cluster", "arena"])
def test_equal_seeds_give_equal_episodes_and_others_do_not(cluster, kind):
    make = lambda: plimsoll.Environment(cluster, kind=kind, samples=[1, 2, 3])
    first, again, other = walk(make(), 7), walk(make(), 7), walk(make(), 8)
    assert len(first) > 20
    assert same(first, again)
    assert not same(first, other)


def test_after_a_seed_each_reset_begins_another_episode_in_the_same_order(cluster):
    def beginnings():
        env = plimsoll.Environment(cluster, kind="arena", samples=[1, 2, 3, 4, 5])
        return [env.reset(seed=3 if at == 0 else None)[0] for at in range(4)]

    assert same(beginnings(), beginnings())


def test_what_is_masked_is_refused_and_nothing_happens(cluster):
    env = plimsoll.Environment(cluster, kind="arena", max_nodes=8)
    before, info = env.reset(seed=1)
    assert info["action_mask"].dtype == np.int8 and info["action_mask"].shape == (8,)
    assert not info["action_mask"][5:].any(), "padding is no node"
    for action in (5, 7, 8, -1, 10**12):
        with pytest.raises(ValueError, match=rf"action {action} .*no rule allows that node; choose by the action mask"):
            env.step(action)
    assert same(env._observation, before)
    assert env.step(int(np.flatnonzero(info["action_mask"])[0]))


def test_with_a_penalty_the_pod_goes_to_the_first_allowed_node_instead(cluster):
    plain = plimsoll.Environment(cluster, max_nodes=8)
    lenient = plimsoll.Environment(cluster, max_nodes=8, masked_penalty=2.5)
    plain.reset(seed=1)
    lenient.reset(seed=1)
    expected, got = plain.step(int(plain.action_masks().argmax())), lenient.step(7)
    assert got[1] == pytest.approx(expected[1] - 2.5)
    assert same(got[0], expected[0])


def test_masks_are_given_alike_in_both_ways(cluster):
    env = plimsoll.Environment(cluster)
    _, info = env.reset(seed=1)
    masks = env.action_masks()
    assert masks.dtype == np.bool_
    assert np.array_equal(masks, info["action_mask"])


def test_padding_is_nothing_and_present_says_so(cluster):
    env = plimsoll.Environment(cluster, max_nodes=9)
    observation, _ = env.reset(seed=1)
    assert observation["present"].tolist() == [1.0] * 5 + [0.0] * 4
    assert not observation["nodes"][5:].any()


def test_an_episode_is_cut_off_after_so_many_steps_and_wants_a_reset(cluster):
    env = plimsoll.Environment(cluster, kind="arena", steps=3)
    log = walk(env, 1)
    assert [entry[4:] for entry in log[1:]] == [(False, False), (False, False), (False, True)]
    with pytest.raises(ValueError, match="the episode is over; reset first"):
        env.step(0)
    env.reset()
    env.step(int(env.action_masks().argmax()))


def test_without_copies_the_same_memory_is_handed_out(cluster):
    env = plimsoll.Environment(cluster, copy=False)
    first, info = env.reset(seed=1)
    mask = info["action_mask"]
    kept = first["nodes"].copy()
    second, _, _, _, told = env.step(int(mask.argmax()))
    for name in first:
        assert first[name] is second[name]
        assert np.shares_memory(second[name], env.arrays[name])
    assert np.shares_memory(mask, told["action_mask"]) and np.shares_memory(mask, env.action_masks())
    assert not np.array_equal(kept, first["nodes"]), "the step wrote over it"


def test_copies_stay_as_they_were(cluster):
    env = plimsoll.Environment(cluster)
    first, info = env.reset(seed=1)
    kept = {name: array.copy() for name, array in first.items()}
    env.step(int(info["action_mask"].argmax()))
    assert same(first, kept)
    assert not np.shares_memory(first["nodes"], env.arrays["nodes"])


def test_arrays_of_the_caller_are_written_into(cluster):
    env = plimsoll.Environment(cluster, copy=False)
    own = {name: np.full(shape, 7, dtype) for name, (shape, dtype) in env.layout.items()}
    env.bind(own)
    observation, _ = env.reset(seed=1)
    assert np.shares_memory(observation["nodes"], own["nodes"])
    assert same(observation, plimsoll.Environment(cluster).reset(seed=1)[0])


def test_arrays_that_do_not_fit_are_refused(cluster):
    env = plimsoll.Environment(cluster)
    own = {name: np.zeros(shape, dtype) for name, (shape, dtype) in env.layout.items()}
    with pytest.raises(ValueError, match=r"nodes: the array is \[1, 4, 6\], and \[1, 5, 6\] is wanted"):
        env.bind(own | {"nodes": np.zeros((1, 4, 6), np.float32)})
    with pytest.raises(ValueError, match="nodes: the array is not in one piece"):
        env.bind(own | {"nodes": np.zeros((1, 5, 12), np.float32)[:, :, ::2]})
    with pytest.raises(TypeError, match="mask: the array holds float32, and bool is wanted"):
        env.bind(own | {"mask": np.zeros((1, 5), np.float32)})
    with pytest.raises(ValueError, match="are wanted"):
        env.bind({"nodes": own["nodes"]})
    frozen = own | {"rewards": np.zeros(1, np.float32)}
    frozen["rewards"].flags.writeable = False
    env.bind(frozen)
    with pytest.raises(ValueError, match="rewards: its array cannot be written into"):
        env.reset(seed=1)


def test_the_expert_chooses_among_allowed_nodes(cluster):
    env = plimsoll.Environment(cluster, expert="best-fit")
    env.reset(seed=1)
    for _ in range(20):
        action = env.expert_action()
        assert env.action_masks()[action]
        env.step(action)
    with pytest.raises(ValueError, match="an arena has none"):
        plimsoll.Environment(cluster, kind="arena", expert="best-fit")


def test_weights_of_rewards_change_what_is_rewarded(cluster):
    env = plimsoll.Environment(cluster, reward={"compress": 1.0, "energy": 0.5})
    assert env.reward_weights == {"compress": 1.0, "energy": 0.5}
    env.set_reward_weight("compress", 0.0)
    env.set_reward_weight("energy", 0.0)
    env.reset(seed=1)
    assert env.step(int(env.action_masks().argmax()))[1] == 0.0
    with pytest.raises(ValueError, match="joy"):
        env.set_reward_weight("joy", 1.0)


def test_weights_of_constraints_adapt_and_go_on_from_what_is_set(cluster):
    env = plimsoll.Environment(cluster, reward={"energy": 1.0, "node-hours": {"at_most": 0.0, "per": "pod-hours", "every_hours": 0.01}})
    assert env.reward_weights["node-hours"] == 0.0
    env.set_reward_weight("node-hours", 5.0)
    env.reset(seed=1)
    for _ in range(20):
        env.step(int(env.action_masks().argmax()))
    assert env.reward_weights["node-hours"] > 5.0 and env.reward_weights["energy"] == 1.0


@pytest.mark.parametrize("kind", ["cluster", "arena"])
def test_variables_count_more_than_what_is_given(cluster, kind, monkeypatch):
    def reward() -> float:
        env = plimsoll.Environment(cluster, kind=kind, reward={"multi-objective": {"profile": "web"}})
        env.reset(seed=1)
        return env.step(int(env.action_masks().argmax()))[1]

    usual = reward()
    monkeypatch.setenv("REWARD_RESOURCE_UTIL", "7")
    assert reward() != usual
    monkeypatch.setenv("REWARD_RESOURCE_UTIL", "much")
    with pytest.raises(ValueError, match='REWARD_RESOURCE_UTIL is "much"'):
        reward()


def test_an_arena_whose_machines_do_not_sleep_at_once_is_refused(cluster):
    with pytest.raises(ValueError, match="machines sleep as soon as they are empty"):
        plimsoll.Environment(cluster + "\n[power]\nsleep = false\n", kind="arena")


def test_an_unknown_reward_is_answered_with_those_there_are(cluster):
    with pytest.raises(ValueError, match=r'reward "joy" is not known; there are balance, compress, ee') as refused:
        plimsoll.Environment(cluster, reward="joy")
    assert all(name in str(refused.value) for name in plimsoll.rewards())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kind": "city"}, 'kind "city" is not known; there are cluster, arena'),
        ({"observation": "fancy"}, "there are plain"),
        ({"observation": {"nodes": ["joy"]}}, '"joy" is not known'),
        ({"kind": "arena", "observation": {"lookahead": 3}}, "an arena shows the plain features"),
        ({"kind": "arena", "reward": "carbon"}, "it can reward balance, compress, ee, lb, multi-objective, energy"),
        ({"kind": "arena", "reward": "el-rl"}, "it can reward balance"),
        ({"kind": "arena", "shuffle": "episodes"}, "the rows of an arena keep their places"),
        ({"shuffle": "sometimes"}, "learn.environment"),
        ({"samples": []}, "samples: there is none"),
        ({"max_nodes": 3}, "a cluster has 5 nodes, and observations have room for 3; give a larger max_nodes"),
        ({"expert": "nobody"}, "nobody"),
        ({"base": "nobody"}, "nobody"),
    ],
)
def test_wrong_options_are_answered_with_what_would_be_right(cluster, options, message):
    with pytest.raises(ValueError) as refused:
        plimsoll.Environment(cluster, **options)
    assert message in str(refused.value)


def test_a_scenario_that_is_missing_or_wrong_is_said_so(tmp_path, cluster):
    with pytest.raises(FileNotFoundError, match="nowhere.toml: cannot be read"):
        plimsoll.Environment(tmp_path / "nowhere.toml")
    with pytest.raises(ValueError, match="scenario, line 2"):
        plimsoll.Environment("name = 'a'\nnodes = 3\n")
    file = tmp_path / "wrong.toml"
    file.write_text("name = 'a'\n\nnodes = 3\n")
    with pytest.raises(ValueError, match="wrong.toml: line 3"):
        plimsoll.Environment(file)
    with pytest.raises(ValueError, match="pool: there is none"):
        plimsoll.Environment("name = 'a'\n[workload.generate]\nkind = 'poisson'\n")
    file.write_text(cluster)
    assert plimsoll.Scenario.read(file).name == "small"
