"""Training as `plimsoll train` has it, here or with runs that are made elsewhere."""

import json
import logging
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _engine
from ._common import Source, scenario

Job = tuple[npt.NDArray[np.float32], int]
"""A run that is to be made: the weights of a network, and the place of a case."""

Result = tuple[list[float], float, int, npt.NDArray[np.float32]]
"""What a run came to: its figures, the share of pods that were lost, decisions, and the least and greatest value of each feature in turn."""

log = logging.getLogger("plimsoll")


def train(
    source: Source,
    out: str | os.PathLike[str],
    *,
    seed: int | None = None,
    steps: int | None = None,
    resume: bool = False,
    replace: bool = False,
    begin_with: str | os.PathLike[str] | None = None,
    measure: Callable[[list[Job]], Sequence[Result]] | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Trains the model of a scenario into a folder, with checkpoints and logs for TensorBoard, as `plimsoll train` does; either goes on where the other was.

    `measure` makes the runs of an evolution: it is given jobs, and answers with what `Stage.measure` answers, in their order. Whoever makes them and
    wherever, the model is the same. `progress` is told after each generation how far it is. An exception from there, or Ctrl-C, ends training with a
    checkpoint, from which `resume` goes on. A folder that holds a model is refused, unless `replace` has the model give way.
    """
    where, folder = scenario(source), os.fspath(out)
    if command is None:
        named = os.fspath(source) if isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source) else where.name
        command = train_command("plimsoll train", named, folder, begin_with, seed, steps)
    told = None if progress is None else lambda text: progress(json.loads(text))
    begin = None if begin_with is None else os.fspath(begin_with)
    return json.loads(_engine.train(where, folder, seed, steps, resume, replace, begin, command, measure, told, log.info))


def train_command(program: str, named: str, folder: str, begin_with: str | os.PathLike[str] | None, seed: int | None, steps: int | None) -> str:
    """The command that makes a model anew, for its card."""
    words = [*program.split(), named, "--out", folder]
    words += [] if begin_with is None else ["--from", os.fspath(begin_with)]
    for flag, value in (("--seed", seed), ("--steps", steps)):
        words += [] if value is None else [flag, str(value)]
    return shlex.join(words)


class Stage:
    """What runs on the training data of a scenario need beside their networks. Whoever has one can make runs for a training elsewhere."""

    def __init__(self, source: Source, seed: int | None = None) -> None:
        self._engine = _engine.Stage(scenario(source), seed)

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return self._engine.cases

    @property
    def weights(self) -> int:
        """How many numbers a network has."""
        return self._engine.weights

    @property
    def fingerprint(self) -> str:
        """A hash of the scenario and of the files it names: where it is the same, so are the runs."""
        return self._engine.fingerprint

    def measure(self, jobs: Sequence[Job]) -> list[Result]:
        """Makes runs on all cores."""
        return self._engine.measure(list(jobs))
