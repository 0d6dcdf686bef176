"""Actors that make runs. One that is lost is started anew, and what it had in hand is given to another."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise ImportError("training on a cluster needs Ray: pip install 'plimsoll[ray]'") from error

from .. import _engine
from ..training import Job, Result, Stage

log = logging.getLogger("plimsoll")

ON_HAND = 2
"""Batches that a worker has at a time: while it sends one back, it makes the other."""
SHARE = 3
"""A batch is what a worker would have of what is left, divided by this: large ones first, which cost little, and small ones last, so that nobody is waited for long."""
MOST_LOSSES = 5
"""A batch that so many workers were lost with is what they are lost by."""
TICK = 1.0
"""Seconds after which it is looked whether anybody is left."""


class LostWorkers(RuntimeError):
    """Nobody is left to make runs, or runs end those who make them. Training can be resumed from its last checkpoint."""


@dataclass(frozen=True)
class Play:
    """A scenario as workers get it: its text, and the folder that files in it are relative to."""

    text: str
    folder: str
    seed: int | None

    @classmethod
    def read(cls, path: str | Path, seed: int | None = None) -> "Play":
        """The scenario in a file."""
        path = Path(path)
        return cls(path.read_text(encoding="utf-8"), str(path.absolute().parent), seed)

    def scenario(self) -> _engine.Scenario:
        """The scenario."""
        return _engine.Scenario.parse(self.text, self.folder)


class Worker:
    """Makes runs, in a process of its own."""

    def __init__(self, play: Play, fingerprint: str, version: str) -> None:
        if _engine.__version__ != version:
            raise ValueError(f"this worker has Plimsoll {_engine.__version__}, and the learner has {version}; install the same everywhere")
        self.stage = Stage(play.scenario(), play.seed)
        if self.stage.fingerprint != fingerprint:
            raise ValueError(f"the files that the scenario names differ between this worker and the learner, beneath {play.folder}")

    def ready(self) -> tuple[str, int]:
        """Answers once the stage is set: its machine, and its process."""
        return ray.util.get_node_ip_address(), os.getpid()

    def measure(self, jobs: list[Job]) -> list[Result]:
        """Makes runs."""
        return self.stage.measure(jobs)


@dataclass(eq=False)
class Batch:
    """Runs that are given out together."""

    at: int
    jobs: list[Job]
    losses: int = 0


@dataclass(eq=False)
class Place:
    """A place for a worker: whoever is there now, and what he has in hand."""

    number: int
    actor: Any = None
    where: tuple[str, int] | None = None
    """The machine and the process, once he is ready."""
    failures: int = 0
    in_hand: dict[Any, Batch | None] = field(default_factory=dict)
    """Calls that are under way; none stands for the call that asks whether he is ready."""


def batches(jobs: list[Job], workers: int) -> Iterable[Batch]:
    """The jobs in batches for so many workers."""
    at = 0
    while at < len(jobs):
        size = max(1, (len(jobs) - at) // (SHARE * workers))
        yield Batch(at, jobs[at : at + size])
        at += size


class Crew:
    """Makes the runs of a training on a cluster of Ray. It is what `plimsoll.train` takes as `measure`."""

    def __init__(self, play: Play, workers: int, *, cpus: float = 1.0, patience: float = 300.0) -> None:
        if workers < 1:
            raise ValueError(f"workers: {workers} cannot make runs; one is the least")
        self.play, self.cpus, self.patience = play, cpus, patience
        self.fingerprint = _engine.fingerprint(play.scenario())
        self.lost = 0
        """How many workers were lost so far."""
        self.places = [Place(number) for number in range(workers)]
        for place in self.places:
            self._start(place)

    def _start(self, place: Place) -> None:
        # A run keeps one core busy; by themselves, workers would start as many threads as the machine has.
        threads = {"env_vars": {"RAYON_NUM_THREADS": str(max(1, int(self.cpus)))}}
        actor = ray.remote(Worker).options(num_cpus=self.cpus, max_restarts=0, runtime_env=threads)
        place.actor = actor.remote(self.play, self.fingerprint, _engine.__version__)
        place.where = None
        place.in_hand = {place.actor.ready.remote(): None}

    def __call__(self, jobs: list[Job]) -> list[Result]:
        """Makes all runs, and answers with what they came to, in their order."""
        todo = deque(batches(jobs, len(self.places)))
        results: list[Result | None] = [None] * len(jobs)
        left, heard = len(jobs), time.monotonic()
        while left:
            self._give_out(todo)
            calls = {call: place for place in self.places for call in place.in_hand}
            done, _ = ray.wait(list(calls), num_returns=1, timeout=TICK)
            for call in done:
                place = calls[call]
                try:
                    found = ray.get(call)
                except RayTaskError:
                    raise
                except RayError as error:
                    todo.extendleft(self._lose(place, error))
                    continue
                heard, place.failures = time.monotonic(), 0
                batch = place.in_hand.pop(call, None)
                if batch is None:
                    place.where = found
                    continue
                results[batch.at : batch.at + len(batch.jobs)] = found
                left -= len(batch.jobs)
            if time.monotonic() - heard > self.patience:
                there = {name: amount for name, amount in ray.cluster_resources().items() if name == "CPU"}
                raise LostWorkers(
                    f"no worker has answered for {self.patience:.0f} s; {len(self.places)} with {self.cpus:g} cores each are wanted, "
                    f"and the cluster has {there.get('CPU', 0):g}"
                )
        return [result for result in results if result is not None]

    def _give_out(self, todo: deque[Batch]) -> None:
        """The first to have nothing is the first to get something."""
        for have in range(ON_HAND):
            for place in self.places:
                # Near the end nothing is kept in store: whoever is free first makes it.
                is_short = have > 0 and len(todo) < len(self.places)
                if todo and place.where and len(place.in_hand) == have and not is_short:
                    batch = todo.popleft()
                    place.in_hand[place.actor.measure.remote(batch.jobs)] = batch

    def _lose(self, place: Place, error: Exception) -> Iterable[Batch]:
        """Starts a worker anew. Returns what the old one had in hand."""
        cause = str(error).strip().splitlines()
        where = "%s, process %d" % place.where if place.where else "not ready yet"
        log.warning("worker %d (%s) is lost and started anew: %s", place.number, where, cause[0] if cause else type(error).__name__)
        batches = [batch for batch in place.in_hand.values() if batch is not None]
        self.lost += 1
        place.failures += place.where is None
        if place.failures >= MOST_LOSSES:
            raise LostWorkers(f"worker {place.number} did not come up {place.failures} times: {error}") from error
        for batch in batches[:1]:
            batch.losses += 1
            if batch.losses >= MOST_LOSSES:
                raise LostWorkers(f"{batch.losses} workers were lost one after the other with the same runs: {error}") from error
        ray.kill(place.actor)
        self._start(place)
        return reversed(batches)

    def close(self) -> None:
        """Sends everybody home."""
        for place in self.places:
            ray.kill(place.actor)
