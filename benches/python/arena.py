"""The cluster on which learners are compared, as a Gymnasium environment around numpy.

The same pods, rules, observations and rewards as the arena of plimsoll-learn: pods come by chance, run for a while and leave; each is
put on one of the nodes that have room. Pods are drawn as there, so that equal seeds give equal episodes in both; test_arena.py
holds them against each other.
"""

import heapq
from dataclasses import dataclass

import gymnasium
import numpy as np

GIB = 2**30
SECOND = 10**9

# What describes a node: free CPU, free memory, disk, pods, latency, presence. Disk and latency are unknown here.
NODE_WIDTH = 6
# What describes a pod: CPU, memory, and the latencies that it bears.
POD_WIDTH = 4
# As much as counts as 1.
PODS, CORES, BYTES = 110.0, 16.0, 64.0 * GIB


@dataclass(frozen=True)
class Workload:
    """Which pods come to which nodes; times are in nanoseconds, CPU in thousandths of a core."""

    # (nodes, CPU, memory, pods) of each kind.
    kinds: tuple[tuple[int, int, int, int], ...] = ((50, 24_000, 80 * GIB, 110),)
    # (CPU, memory), each as likely as the others.
    shapes: tuple[tuple[int, int], ...] = ((500, GIB), (1000, 4 * GIB), (2000, 2 * GIB), (4000, 8 * GIB))
    gap: float = 1.0 * SECOND
    lifetime: float = 320.0 * SECOND
    # Pods of an episode.
    pods: int = 1000

    @property
    def nodes(self) -> int:
        return sum(kind[0] for kind in self.kinds)


def splitmix(seed: int, count: int) -> np.ndarray:
    """The first numbers of the generator SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def arrivals(workload: Workload, seed: int) -> tuple[list[int], list[int], list[int]]:
    """When each pod comes, when it ends, and its shape."""
    numbers = splitmix(seed, 3 * workload.pods).reshape(-1, 3)
    units = (numbers[:, :2] >> np.uint64(11)).astype(np.float64) / 2.0**53
    times = (-np.log(1.0 - units) * (workload.gap, workload.lifetime)).astype(np.uint64)
    at = np.cumsum(times[:, 0])
    # The upper half of the product of a number and how many shapes there are.
    count, half = np.uint64(len(workload.shapes)), np.uint64(32)
    low = ((numbers[:, 2] & np.uint64(0xFFFFFFFF)) * count) >> half
    shapes = ((numbers[:, 2] >> half) * count + low) >> half
    return at.tolist(), (at + times[:, 1]).tolist(), shapes.tolist()


class Arena(gymnasium.Env):
    """A cluster in which pods are placed one after the other.

    An observation is flat: the rows of all nodes, then the pod. The reward is `compress`: 1 when each node is full or empty, 0 when all
    are half full. A pod that fits nowhere is turned away, one that fits on a single node is put there without asking.
    """

    metadata = {"render_modes": []}

    def __init__(self, workload: Workload = Workload()) -> None:
        self.workload = workload
        nodes = workload.nodes
        repeats = [kind[0] for kind in workload.kinds]
        self.cpu_capacity, self.memory_capacity, self.pods_capacity = (
            np.repeat([kind[column] for kind in workload.kinds], repeats) for column in (1, 2, 3)
        )
        # Rows of a pod's observation, one for each shape.
        self.pod_rows = np.zeros((len(workload.shapes), POD_WIDTH), np.float32)
        self.pod_rows[:, :2] = np.array(workload.shapes) / (1000.0 * CORES, BYTES)
        self.observation_space = gymnasium.spaces.Box(-1.0, 2.0, (nodes * NODE_WIDTH + POD_WIDTH,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(nodes)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**63))
        nodes = self.workload.nodes
        self.at, self.ends_at, self.shape_of = arrivals(self.workload, seed)
        self.pod = -1
        self.running: list[tuple[int, int, int]] = []
        self.free_cpu = self.cpu_capacity.astype(np.float64)
        self.free_memory = self.memory_capacity.astype(np.float64)
        self.pods = np.zeros(nodes, np.int64)
        # Twice a node's utilisation less one, of which the reward is the mean square.
        self.off_half = np.full(nodes, -1.0)
        self.observation = np.zeros(nodes * NODE_WIDTH + POD_WIDTH, np.float32)
        self.rows = self.observation[: nodes * NODE_WIDTH].reshape(nodes, NODE_WIDTH)
        self.rows[:] = (1.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        if not self.advance():
            raise ValueError(f"seed {seed}: no pod has a choice of nodes")
        return self.observation.copy(), {}

    def step(self, action):
        if not self.mask[action]:
            raise ValueError(f"the pod does not fit on node {action}")
        self.put(int(action))
        reward = float(self.off_half @ self.off_half) / len(self.off_half)
        terminated = not self.advance()
        return self.observation.copy(), reward, terminated, False, {}

    def action_masks(self) -> np.ndarray:
        """Which nodes have room for the pod."""
        return self.mask

    def put(self, node: int) -> None:
        """Place the pod that came."""
        shape = self.shape_of[self.pod]
        self.change(node, shape, 1)
        heapq.heappush(self.running, (self.ends_at[self.pod], node, shape))

    def change(self, node: int, shape: int, sign: int) -> None:
        """A pod comes to a node (1) or leaves it (-1)."""
        cpu, memory = self.workload.shapes[shape]
        pods = self.pods[node] + sign
        self.pods[node] = pods
        free_cpu = self.free_cpu[node] - sign * cpu
        free_memory = self.free_memory[node] - sign * memory
        self.free_cpu[node] = free_cpu
        self.free_memory[node] = free_memory
        # Single precision, as observations are: ties must be ties.
        cpu_capacity, memory_capacity = self.cpu_capacity[node], self.memory_capacity[node]
        cpu_used = np.float32(cpu_capacity - free_cpu) / np.float32(cpu_capacity)
        memory_used = np.float32(memory_capacity - free_memory) / np.float32(memory_capacity)
        self.off_half[node] = float(cpu_used + memory_used) - 1.0
        row = self.rows[node]
        row[0], row[1], row[3] = 1.0 - cpu_used, 1.0 - memory_used, pods / PODS

    def advance(self) -> bool:
        """Go on to the next decision; False when no pod comes any more."""
        while self.pod + 1 < len(self.at):
            self.pod += 1
            now = self.at[self.pod]
            while self.running and self.running[0][0] <= now:
                _, node, shape = heapq.heappop(self.running)
                self.change(node, shape, -1)
            shape = self.shape_of[self.pod]
            cpu, memory = self.workload.shapes[shape]
            self.mask = (self.free_cpu >= cpu) & (self.free_memory >= memory) & (self.pods < self.pods_capacity)
            choices = np.count_nonzero(self.mask)
            if choices == 1:
                self.put(int(self.mask.argmax()))
            elif choices > 1:
                self.observation[-POD_WIDTH:] = self.pod_rows[shape]
                return True
        return False


def best_fit(observation: np.ndarray, mask: np.ndarray) -> int:
    """The node with the least free CPU and memory."""
    rows = observation[:-POD_WIDTH].reshape(-1, NODE_WIDTH)
    return int(np.where(mask, rows[:, 0] + rows[:, 1], np.inf).argmin())


def episode(arena: Arena, seed: int, choose) -> float:
    """The return of an episode."""
    observation, _ = arena.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        observation, reward, over, _, _ = arena.step(choose(observation, arena.action_masks()))
        total += reward
    return total
