"""Many clusters at once: as Gymnasium's own vectors of single ones, and in the same memory every time."""

import threading

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import plimsoll


def choose(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)


@pytest.mark.parametrize("kind", ["cluster", "arena"])
def test_it_steps_as_gymnasiums_own_vector_of_single_clusters(cluster, kind):
    options = {"kind": kind, "samples": [1], "steps": 25}
    ours = plimsoll.VectorEnvironment(cluster, 3, **options)
    theirs = SyncVectorEnv([lambda: plimsoll.Environment(cluster, **options)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert ours.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng, ends = np.random.default_rng(1), 0
    (mine, told), (yours, said) = ours.reset(seed=5), theirs.reset(seed=5)
    for _ in range(120):
        assert ours.observation_space.contains(mine)
        for name in yours:
            np.testing.assert_array_equal(mine[name], yours[name])
        np.testing.assert_array_equal(told["action_mask"], np.stack(said["action_mask"]))
        actions = choose(told["action_mask"].astype(bool), rng)
        mine, *flags, told = ours.step(actions)
        yours, *others, said = theirs.step(actions)
        for a, b in zip(flags, others):
            np.testing.assert_array_equal(a, b.astype(a.dtype))
        assert told.keys() >= said.keys()
        if "final_obs" in said:
            ends += 1
            np.testing.assert_array_equal(told["_final_obs"], said["_final_obs"])
            for at in np.flatnonzero(said["_final_obs"]):
                for name in yours:
                    np.testing.assert_array_equal(told["final_obs"][at][name], said["final_obs"][at][name])
                np.testing.assert_array_equal(told["final_info"]["action_mask"][at], said["final_info"]["action_mask"][at])
    assert ends >= 3


def test_equal_seeds_give_equal_walks_and_others_do_not(cluster):
    def walk(seed):
        envs = plimsoll.VectorEnvironment(cluster, 4, kind="arena", samples=range(1, 17))
        rng = np.random.default_rng(0)
        _, info = envs.reset(seed=seed)
        seen = []
        for _ in range(50):
            observation, rewards, _, _, info = envs.step(choose(info["action_mask"].astype(bool), rng))
            seen.append(np.concatenate([observation["nodes"].ravel(), rewards]))
        return np.array(seen)

    np.testing.assert_array_equal(walk(3), walk(3))
    assert not np.array_equal(walk(3), walk(4))


def test_neighbouring_seeds_share_no_episodes(cluster):
    envs = plimsoll.VectorEnvironment(cluster, 2, kind="arena", samples=range(1, 30))
    first, _ = envs.reset(seed=[1, 2])
    second, _ = envs.reset()
    assert not np.array_equal(second["pod"][0], first["pod"][1])


def test_without_copies_the_same_memory_is_handed_out(cluster):
    envs = plimsoll.VectorEnvironment(cluster, 4, kind="arena", copy=False)
    observation, info = envs.reset(seed=1)
    for _ in range(30):
        following, rewards, terminated, truncated, told = envs.step(info["action_mask"].argmax(axis=1))
        assert all(following[name] is observation[name] is envs.arrays[name] for name in observation)
        assert rewards is envs.arrays["rewards"]
        assert terminated is envs.arrays["terminated"] and truncated is envs.arrays["truncated"]
        assert told["action_mask"] is info["action_mask"]
        assert np.shares_memory(envs.action_masks(), told["action_mask"])


def test_copies_stay_as_they_were_and_both_ways_show_the_same(cluster):
    safe = plimsoll.VectorEnvironment(cluster, 3, kind="arena", steps=10)
    shared = plimsoll.VectorEnvironment(cluster, 3, kind="arena", steps=10, copy=False)
    (before, info), (seen, _) = safe.reset(seed=2), shared.reset(seed=2)
    kept = before["nodes"].copy()
    for _ in range(40):
        actions = info["action_mask"].argmax(axis=1)
        after, rewards, *_, info = safe.step(actions)
        seen, got, *_, told = shared.step(actions)
        np.testing.assert_array_equal(after["nodes"], seen["nodes"])
        np.testing.assert_array_equal(rewards, got)
        assert ("final_obs" in info) == ("final_obs" in told)
    np.testing.assert_array_equal(before["nodes"], kept)
    assert "final_obs" not in shared._info, "what ended once is not told for ever"


def test_some_are_reset_and_others_go_on(cluster):
    envs = plimsoll.VectorEnvironment(cluster, 3, kind="arena")
    _, info = envs.reset(seed=1)
    before, *_, info = envs.step(info["action_mask"].argmax(axis=1))
    after, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    np.testing.assert_array_equal(before["nodes"][[0, 2]], after["nodes"][[0, 2]])
    assert (after["nodes"][1, :, 3] == 0).all(), "no pod is on a node of the new episode"
    for wrong in (np.array([True]), np.array([1, 0, 1]), np.array([False] * 3)):
        with pytest.raises(ValueError, match="reset_mask: 3 booleans are wanted"):
            envs.reset(options={"reset_mask": wrong})


def test_actions_of_a_wrong_shape_or_kind_are_refused(cluster):
    envs = plimsoll.VectorEnvironment(cluster, 3, kind="arena")
    _, info = envs.reset(seed=1)
    with pytest.raises(ValueError, match="2 actions for 3 environments; each needs one"):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(TypeError):
        envs.step(np.zeros((3, 1), np.int64))
    with pytest.raises(TypeError, match="actions are numbers of nodes; these are float64"):
        envs.step(np.zeros(3))
    with pytest.raises(ValueError, match="action 9 of 0 to 4 in environment 1: no rule allows that node"):
        envs.step(np.array([0, 9, 0]))
    for kind in (np.int32, np.uint8):
        envs.step(info["action_mask"].argmax(axis=1).astype(kind))
    with pytest.raises(ValueError, match="2 seeds for 3 environments"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="0 environments are none"):
        plimsoll.VectorEnvironment(cluster, 0)


def test_gymnasiums_wrappers_count_the_same_returns(cluster):
    envs = RecordEpisodeStatistics(plimsoll.VectorEnvironment(cluster, 2, kind="arena", reward="compress", steps=15))
    _, info = envs.reset(seed=1)
    sums, found = np.zeros(2), 0
    for _ in range(60):
        _, rewards, terminated, truncated, info = envs.step(info["action_mask"].argmax(axis=1))
        sums += rewards
        for at in np.flatnonzero(terminated | truncated):
            assert info["episode"]["r"][at] == pytest.approx(sums[at], rel=1e-4)
            sums[at], found = 0.0, found + 1
    assert found >= 4


def test_other_threads_run_while_clusters_are_stepped(cluster):
    envs = plimsoll.VectorEnvironment(cluster, 64, kind="arena", copy=False)
    envs.reset(seed=1)
    going, count = threading.Event(), 0

    def work():
        going.set()
        envs.engine.walk(30_000)

    thread = threading.Thread(target=work)
    thread.start()
    going.wait()
    while thread.is_alive():
        count += 1
    thread.join()
    # Had the engine kept the lock, this thread would have had no turn until the end.
    assert count > 1000
