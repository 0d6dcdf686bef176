"""The environment does as plimsoll-learn's: target/bench/venv/bin/python -m unittest discover benches/python"""

import json
import pathlib
import unittest

import numpy as np

try:
    from arena import Arena, Workload, best_fit, episode, splitmix
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed: see requirements-learn.txt") from missing

RECORDED = pathlib.Path(__file__).with_name("arena.json")


def workload(recorded: dict) -> Workload:
    """The workload of a recording."""
    return Workload(
        kinds=tuple(map(tuple, recorded["kinds"])),
        shapes=tuple(map(tuple, recorded["shapes"])),
        gap=recorded["gap_s"] * 1e9,
        lifetime=recorded["lifetime_s"] * 1e9,
        pods=recorded["pods"],
    )


class Recorded(unittest.TestCase):
    def test_equal_actions_bring_equal_observations_masks_and_rewards(self):
        recordings = json.loads(RECORDED.read_text())
        self.assertEqual(workload(recordings[0]["workload"]), Workload())
        for recording in recordings:
            arena = Arena(workload(recording["workload"]))
            seen, _ = arena.reset(seed=recording["seed"])
            weights = np.arange(len(seen)) % 7 + 1
            over = False
            for step, known in enumerate(recording["steps"]):
                with self.subTest(seed=recording["seed"], step=step):
                    self.assertEqual(np.count_nonzero(arena.action_masks()), known["allowed"])
                    self.assertAlmostEqual(float(weights @ seen.astype(np.float64)), known["sum"], places=3)
                    seen, reward, over, _, _ = arena.step(known["action"])
                    self.assertAlmostEqual(reward, known["reward"], places=6)
            self.assertEqual(over, recording["over"])


class Rules(unittest.TestCase):
    def test_random_numbers_are_those_of_splitmix(self):
        # The first numbers of the reference implementation for the seed 1234567.
        self.assertEqual(splitmix(1234567, 2).tolist(), [6457827717110365317, 3203168211198807973])

    def test_equal_seeds_give_equal_episodes_and_others_do_not(self):
        arena = Arena()
        self.assertEqual(episode(arena, 3, best_fit), episode(arena, 3, best_fit))
        self.assertNotEqual(episode(arena, 3, best_fit), episode(arena, 4, best_fit))

    def test_a_node_without_room_is_refused(self):
        arena = Arena(Workload(kinds=((2, 4000, 2**33, 1), (2, 100, 2**33, 9))))
        arena.reset(seed=1)
        self.assertEqual(arena.action_masks().tolist(), [True, True, False, False])
        with self.assertRaisesRegex(ValueError, "node 2"):
            arena.step(2)

    def test_gymnasium_accepts_it(self):
        from gymnasium.utils.env_checker import check_env

        arena = Arena()
        seen, _ = arena.reset(seed=1)
        self.assertTrue(arena.observation_space.contains(seen))
        # All actions are allowed at the start, so any that the checker takes is.
        check_env(arena, skip_render_check=True)


if __name__ == "__main__":
    unittest.main()
