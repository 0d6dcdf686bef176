"""A cluster simulator as one writes it in Python: a plain loop around numpy.

The yardstick for what the simulation costs without an engine of its own: pods arrive and leave on a virtual clock, and every
decision is one vectorised pass over all nodes. It takes the arrivals and the flags of stock-sim (without -sample: every node is
always examined) and prints the same JSON line.

    python3 sim.py -nodes 1000 -policy best-fit < arrivals.csv
"""

import argparse
import csv
import heapq
import json
import math
import re
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Iterable, Iterator, NamedTuple

import numpy as np

COLUMNS = ["name", "arrival_s", "lifetime_s", "cpu_milli", "memory_bytes"]

# Suffixes of Kubernetes quantities that make sense for whole amounts.
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "": 1}


class Pod(NamedTuple):
    """One row of the arrivals; an endless pod has an infinite lifetime."""

    arrival: float
    lifetime: float
    cpu: int
    memory: int


class Fleet:
    """Equal nodes, as one array for each amount; scoring never looks at one node alone."""

    def __init__(self, nodes: int, cpu: int, memory: int, pods: int) -> None:
        self.cpu_capacity = cpu
        self.memory_capacity = memory
        self.pods_capacity = pods
        self.free_cpu = np.full(nodes, cpu, dtype=np.int64)
        self.free_memory = np.full(nodes, memory, dtype=np.int64)
        self.free_pods = np.full(nodes, pods, dtype=np.int64)
        self.active = 0

    def feasible(self, pod: Pod) -> np.ndarray:
        """Which nodes have room for the pod."""
        return (self.free_cpu >= pod.cpu) & (self.free_memory >= pod.memory) & (self.free_pods > 0)

    def start(self, node: int, pod: Pod) -> None:
        """Take the pod's room on the node."""
        self.active += bool(self.free_pods[node] == self.pods_capacity)
        self.free_cpu[node] -= pod.cpu
        self.free_memory[node] -= pod.memory
        self.free_pods[node] -= 1

    def stop(self, node: int, pod: Pod) -> None:
        """Give the pod's room back."""
        self.free_cpu[node] += pod.cpu
        self.free_memory[node] += pod.memory
        self.free_pods[node] += 1
        self.active -= bool(self.free_pods[node] == self.pods_capacity)


def best_fit(fleet: Fleet, pod: Pod) -> np.ndarray:
    """The less is left over, the better: the mean over CPU and memory of (free - wanted) / capacity."""
    left = (fleet.free_cpu - pod.cpu) / fleet.cpu_capacity + (fleet.free_memory - pod.memory) / fleet.memory_capacity
    return left * -0.5


def default(fleet: Fleet, pod: Pod) -> np.ndarray:
    """LeastAllocated plus BalancedAllocation, in whole points as kube-scheduler counts them."""
    cpu, memory = fleet.free_cpu - pod.cpu, fleet.free_memory - pod.memory
    least = (cpu * 100 // fleet.cpu_capacity + memory * 100 // fleet.memory_capacity) // 2
    gain = balance(fleet, cpu, memory) - balance(fleet, fleet.free_cpu, fleet.free_memory)
    return least + 50 + (50 + gain) // 2


def balance(fleet: Fleet, free_cpu: np.ndarray, free_memory: np.ndarray) -> np.ndarray:
    """100 where CPU and memory are used alike, 50 where one is full and the other empty."""
    used_cpu = (fleet.cpu_capacity - free_cpu) / fleet.cpu_capacity
    used_memory = (fleet.memory_capacity - free_memory) / fleet.memory_capacity
    apart = np.abs(used_cpu - used_memory)
    return ((1 - apart / 2) * 100).astype(np.int64)


# most-allocated is what kube-scheduler calls the ranking of best fit.
POLICIES = {"default": default, "best-fit": best_fit, "most-allocated": best_fit}


def choose(fleet: Fleet, pod: Pod, policy) -> int | None:
    """The feasible node with the highest score, ties to the lowest index; None if the pod fits nowhere."""
    scores = np.where(fleet.feasible(pod), policy(fleet, pod), -np.inf)
    node = int(scores.argmax())
    return node if scores[node] > -np.inf else None


@dataclass
class Result:
    """The line that a run prints, less the memory."""

    placements: int
    seconds: float
    placements_per_s: float
    active_nodes_mean: float
    waiting: int


def simulate(fleet: Fleet, pods: list[Pod], policy) -> Result:
    """Run until the last arrival was tried.

    Whenever pods end, the waiting ones are tried again, oldest first, until one still fits nowhere.
    """
    running: list[tuple[float, int, int, Pod]] = []
    waiting: deque[Pod] = deque()
    placements = 0
    active_seconds = 0.0
    first = now = pods[0].arrival if pods else 0.0

    def attempt(pod: Pod) -> bool:
        nonlocal placements
        node = choose(fleet, pod, policy)
        if node is None:
            return False
        fleet.start(node, pod)
        placements += 1
        # The count breaks ties between ends, so that pods are never compared.
        heapq.heappush(running, (now + pod.lifetime, placements, node, pod))
        return True

    began = time.perf_counter()
    for pod in pods:
        while running and running[0][0] <= pod.arrival:
            active_seconds += fleet.active * (running[0][0] - now)
            now = running[0][0]
            while running and running[0][0] <= now:
                _, _, node, ended = heapq.heappop(running)
                fleet.stop(node, ended)
            while waiting and attempt(waiting[0]):
                waiting.popleft()
        active_seconds += fleet.active * (pod.arrival - now)
        now = pod.arrival
        if not attempt(pod):
            waiting.append(pod)
    seconds = time.perf_counter() - began

    mean = active_seconds / (now - first) if now > first else float(fleet.active)
    return Result(placements, seconds, placements / seconds if seconds > 0 else 0.0, mean, len(waiting))


def read_arrivals(lines: Iterable[str], limit: int = 0) -> Iterator[Pod]:
    """Yield up to limit rows, or all if it is 0. Raises ValueError with the line of a bad row."""
    rows = csv.reader(lines)
    header = next(rows, [])
    if header != COLUMNS:
        raise ValueError(f"want the columns {','.join(COLUMNS)}, got {','.join(header)}")
    last = 0.0
    for count, row in enumerate(rows):
        if limit and count >= limit:
            return
        try:
            _, arrival, lifetime, cpu, memory = row
            pod = Pod(float(arrival), float(lifetime) if lifetime else math.inf, int(cpu), int(memory))
        except ValueError as error:
            raise ValueError(f"line {rows.line_num}: {error}") from error
        if not (last <= pod.arrival < math.inf and pod.lifetime >= 0 and pod.cpu >= 0 and pod.memory >= 0):
            raise ValueError(f"line {rows.line_num}: amounts and times are at least 0, and rows go by arrival")
        last = pod.arrival
        yield pod


def cpu_milli(text: str) -> int:
    """CPU as Kubernetes writes it, in thousandths of a core: 48 or 1500m."""
    match = re.fullmatch(r"([0-9.]+)(m?)", text)
    if not match:
        raise ValueError("want a number of cores, or of thousandths with m")
    return positive(round(float(match[1]) * (1 if match[2] else 1000)))


def memory_bytes(text: str) -> int:
    """Memory as Kubernetes writes it: 384Gi or a number of bytes."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    if not match or match[2] not in SUFFIXES:
        raise ValueError("want a number and a suffix such as Gi")
    return positive(round(float(match[1]) * SUFFIXES[match[2]]))


def positive(value: int) -> int:
    """Refuse a cluster without room."""
    if value < 1:
        raise ValueError("must be positive")
    return value


def peak_resident() -> int:
    """Peak of resident memory; what getrusage gives can be the peak of the program that started this one."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def whole(text: str) -> int:
    """A count of at least one."""
    return positive(int(text))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-nodes", type=whole, default=1000, help="nodes of the cluster (1000)")
    parser.add_argument("-cpu", type=cpu_milli, default="48", help="CPU of a node (48)")
    parser.add_argument("-memory", type=memory_bytes, default="384Gi", help="memory of a node (384Gi)")
    parser.add_argument("-pods", type=whole, default=110, help="pods that a node may run (110)")
    parser.add_argument("-policy", choices=POLICIES, default="default")
    parser.add_argument("-limit", type=int, default=0, help="stop after this many arrivals; 0: all")
    args = parser.parse_args()
    try:
        pods = list(read_arrivals(sys.stdin, args.limit))
    except ValueError as error:
        sys.exit(f"sim.py: arrivals: {error}")
    result = simulate(Fleet(args.nodes, args.cpu, args.memory, args.pods), pods, POLICIES[args.policy])
    print(json.dumps({**vars(result), "rss_bytes": peak_resident()}))


if __name__ == "__main__":
    main()
