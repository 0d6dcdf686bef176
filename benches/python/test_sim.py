"""Runs that can be computed by hand: python3 -m unittest discover benches/python"""

import math
import unittest

import numpy as np

from sim import COLUMNS, Fleet, Pod, balance, best_fit, choose, cpu_milli, default, memory_bytes, read_arrivals, simulate

GIB = 2**30


def pod(arrival=0.0, lifetime=math.inf, cpu=1000, memory=GIB):
    return Pod(arrival, lifetime, cpu, memory)


def fleet(nodes, pods=110):
    return Fleet(nodes, 4000, 8 * GIB, pods)


class Choice(unittest.TestCase):
    def test_best_fit_takes_the_node_with_the_least_left_over(self):
        machines = fleet(3)
        machines.start(1, pod(cpu=2000))
        self.assertEqual(choose(machines, pod(), best_fit), 1)
        # Left over on node 1: (4 - 2 - 1) / 4 of the CPU and (8 - 1 - 1) / 8 of the memory.
        np.testing.assert_allclose(best_fit(machines, pod()), [-(0.75 + 0.875) / 2, -(0.25 + 0.75) / 2, -(0.75 + 0.875) / 2])

    def test_ties_go_to_the_lowest_index(self):
        self.assertEqual(choose(fleet(3), pod(), best_fit), 0)
        self.assertEqual(choose(fleet(3), pod(), default), 0)

    def test_default_counts_points_as_kube_scheduler_does(self):
        machines = fleet(2)
        machines.start(0, pod())
        # kube-scheduler gives a third such pod 62 + 72 points on the node with one, 81 + 71 on an empty one.
        self.assertEqual(default(machines, pod()).tolist(), [62 + 72, 81 + 71])
        self.assertEqual(choose(machines, pod(), default), 1)

    def test_balance_is_worst_where_one_resource_is_full_and_the_other_empty(self):
        machines = fleet(1)
        self.assertEqual(balance(machines, np.array([0, 2000, 4000]), np.array([8 * GIB, 4 * GIB, 8 * GIB])).tolist(), [50, 100, 100])

    def test_no_node_is_chosen_without_room(self):
        for name, wanted, pods in [("cpu", pod(cpu=4001), 110), ("memory", pod(memory=8 * GIB + 1), 110), ("pods", pod(), 1)]:
            with self.subTest(name):
                machines = fleet(1, pods)
                if pods == 1:
                    machines.start(0, pod(cpu=0, memory=0))
                self.assertIsNone(choose(machines, wanted, best_fit))


class Simulation(unittest.TestCase):
    def check(self, pods, nodes, policy, placements, waiting, active):
        machines = fleet(nodes)
        result = simulate(machines, pods, policy)
        self.assertEqual((result.placements, result.waiting, result.active_nodes_mean), (placements, waiting, active))
        return machines

    def test_default_spreads_and_best_fit_packs(self):
        three = [pod(), pod(), pod(arrival=10.0)]
        self.check(three, 3, default, 3, 0, 2)
        self.check(three, 3, best_fit, 3, 0, 1)

    def test_a_pod_that_ends_empties_its_node(self):
        machines = self.check([pod(lifetime=5.0), pod(arrival=10.0, cpu=4000)], 1, best_fit, 2, 0, 0.5)
        self.assertEqual((machines.free_cpu[0], machines.free_memory[0], machines.active), (0, 7 * GIB, 1))

    def test_a_waiting_pod_starts_when_another_ends(self):
        self.check([pod(0.0, 10.0, 3000), pod(5.0, 10.0, 3000), pod(30.0)], 1, best_fit, 3, 0, 20 / 30)

    def test_an_end_precedes_an_arrival_of_the_same_second(self):
        self.check([pod(0.0, 10.0, 3000), pod(10.0, 10.0, 3000)], 1, best_fit, 2, 0, 1)

    def test_a_younger_pod_does_not_overtake_in_the_queue(self):
        self.check([pod(0.0, 10.0, 4000), pod(1.0, cpu=5000), pod(2.0), pod(20.0)], 1, best_fit, 2, 2, 0.5)


class Input(unittest.TestCase):
    def test_arrivals_are_read_up_to_the_limit(self):
        lines = [",".join(COLUMNS), "a,1,2.5,500,1024", "b,2,,0,0", "c,3,1,1,1"]
        self.assertEqual(list(read_arrivals(lines, 2)), [Pod(1, 2.5, 500, 1024), Pod(2, math.inf, 0, 0)])
        self.assertEqual(len(list(read_arrivals(lines))), 3)

    def test_bad_rows_are_errors_that_name_the_line(self):
        for row in ["a,0,1,1", "a,x,1,1,1", "a,0,-1,1,1", "a,0,1,1.5,1", "a,-1,1,1,1", "a,nan,1,1,1", "a,0,nan,1,1"]:
            with self.subTest(row), self.assertRaisesRegex(ValueError, "line 2"):
                list(read_arrivals([",".join(COLUMNS), row]))
        with self.assertRaisesRegex(ValueError, "line 3"):
            list(read_arrivals([",".join(COLUMNS), "a,5,1,1,1", "b,4,1,1,1"]))
        with self.assertRaisesRegex(ValueError, "want the columns"):
            list(read_arrivals(["name"]))

    def test_quantities_are_those_of_kubernetes(self):
        self.assertEqual([cpu_milli(text) for text in ("48", "0.5", "1500m")], [48000, 500, 1500])
        self.assertEqual([memory_bytes(text) for text in ("384Gi", "1M", "17")], [384 * GIB, 10**6, 17])
        for parse, text in [(cpu_milli, "0"), (cpu_milli, "many"), (cpu_milli, "inf"), (memory_bytes, "1Xi"), (memory_bytes, "1iG"), (memory_bytes, "-1")]:
            with self.subTest(text), self.assertRaises(ValueError):
                parse(text)


if __name__ == "__main__":
    unittest.main()
