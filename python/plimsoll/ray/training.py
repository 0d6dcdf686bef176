"""`plimsoll train`, with runs that are made by Ray's actors."""

import os
from collections.abc import Callable
from typing import Any

from .. import training
from .crew import Crew, Play, ray


def connect(address: str | None, workers: int) -> None:
    """Joins a cluster of Ray; without an address, one of this machine alone is started."""
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    if address is None:
        ray.init(num_cpus=max(workers, os.cpu_count() or 1), include_dashboard=False, **quiet)
    else:
        ray.init(address=address, **quiet)


def train(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int,
    address: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    resume: bool = False,
    replace: bool = False,
    begin_with: str | os.PathLike[str] | None = None,
    cpus: float = 1.0,
    patience: float = 300.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
    started: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Trains the model of a scenario file on a cluster of Ray.

    The model is the same, bit for bit, as that of `plimsoll train` with the same seed, however many workers there are and whoever of them is lost.
    The learner is in this process, and `out` is a folder of this machine. `started` is called once workers are on their way.
    """
    connect(address, workers)
    crew = Crew(Play.read(path, seed), workers, cpus=cpus, patience=patience)
    try:
        if started is not None:
            started()
        command = training.train_command("plimsoll train", os.fspath(path), os.fspath(out), begin_with, seed, steps)
        found = training.train(
            path,
            out,
            seed=seed,
            steps=steps,
            resume=resume,
            replace=replace,
            begin_with=begin_with,
            measure=crew,
            progress=progress,
            command=command,
        )
        return found | {"workers": workers, "lost": crew.lost}
    finally:
        crew.close()
