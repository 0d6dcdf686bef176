"""What the learners rest on: target/bench/venv/bin/python -m unittest discover benches/python"""

import unittest

import numpy as np

try:
    import torch

    from learn import DeepSets, DqnSettings, Replay, dqn, evaluate, greedy
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed: see requirements-learn.txt") from missing

from arena import NODE_WIDTH, POD_WIDTH, best_fit

# Where cores are shared, threads mostly wait for each other.
torch.set_num_threads(1)


class Network(unittest.TestCase):
    def test_the_order_of_nodes_does_not_matter(self):
        network = DeepSets()
        seen = torch.rand(3, 5 * NODE_WIDTH + POD_WIDTH)
        order = torch.randperm(5)
        rows = seen[:, :-POD_WIDTH].unflatten(1, (5, NODE_WIDTH))[:, order].flatten(1)
        shuffled = torch.cat((rows, seen[:, -POD_WIDTH:]), dim=1)
        torch.testing.assert_close(network(shuffled), network(seen)[:, order])

    def test_only_allowed_nodes_are_chosen(self):
        seen = np.random.default_rng(1).random((4, 5 * NODE_WIDTH + POD_WIDTH), np.float32)
        masks = np.eye(5, dtype=bool)[:4]
        self.assertEqual(greedy(DeepSets())(seen, masks).tolist(), [0, 1, 2, 3])


class Learning(unittest.TestCase):
    def test_the_newest_transition_replaces_the_oldest(self):
        replay = Replay(3, 2, 2)
        for number in range(5):
            replay.push(np.full(2, number), number, number, np.full(2, number + 1), [True, True], False)
        self.assertEqual(sorted(replay.reward.tolist()), [2, 3, 4])
        before, actions, rewards, after, masks, overs = replay.draw(8, np.random.default_rng(1))
        self.assertTrue((before[:, 0] == rewards).all() and (after[:, 0] == rewards + 1).all())
        self.assertEqual((actions.shape, masks.shape, overs.shape), ((8, 1), (8, 2), (8,)))

    def test_best_fit_is_evaluated_on_the_evaluation_episodes(self):
        choose = lambda seen, masks: [best_fit(*pair) for pair in zip(seen, masks)]
        self.assertGreater(evaluate(choose), 600)

    def test_dqn_updates_and_gives_a_curve(self):
        result = dqn(60, 1, 30, DqnSettings(learning_starts=20, batch=8))
        self.assertEqual([point[0] for point in result["curve"]], [30, 60])
        self.assertGreater(result["steps_per_s"], 0)


if __name__ == "__main__":
    unittest.main()
