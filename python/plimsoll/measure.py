"""What policies come to: simulations, comparisons, evaluations and bounds, as the commands of these names have them."""

import json
import os
from collections.abc import Sequence
from typing import Any

from . import _engine
from ._common import Source, scenario

PathLike = str | os.PathLike[str]


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)


def simulate(
    source: Source,
    policy: PathLike | None = None,
    *,
    seed: int | None = None,
    timeline: PathLike | None = None,
    report: PathLike | None = None,
) -> dict[str, Any]:
    """Runs a policy, or the model in a folder, on a scenario: its measures, and what no policy can beat.

    `timeline` is a file for every decision, `report` one for a page with plots.
    """
    return json.loads(_engine.simulate(scenario(source), _path(policy), seed, _path(timeline), _path(report)))


def compare(
    source: Source,
    policies: Sequence[PathLike] = (),
    *,
    seeds: Sequence[int] = (),
    windows: Sequence[str] = (),
    measure: str = "mean_kw",
    threads: int | None = None,
    report: PathLike | None = None,
) -> dict[str, Any]:
    """Runs policies on the same pods: `rows`, one for each run, and `differences` of each policy to the first by a measure, paired, with 95 % intervals."""
    named = [os.fspath(policy) for policy in policies]
    told = _engine.compare(scenario(source), named, list(seeds), list(windows), measure, threads, _path(report))
    return json.loads(told)


def evaluate(
    model: PathLike,
    source: Source,
    *,
    objective: str | None = None,
    baselines: Sequence[str] = (),
    against: Sequence[PathLike] = (),
    report: PathLike | None = None,
    record: bool = False,
) -> dict[str, Any]:
    """Measures a model, or a policy, against baselines on data that nothing was learned from: paired, with intervals and a verdict.

    The scenario's `[learn.evaluate]` says which data that is. `findings` has it in sentences; `record` notes it in the model's card.
    """
    others = [os.fspath(other) for other in against]
    told = _engine.evaluate(os.fspath(model), scenario(source), objective, list(baselines), others, _path(report), record)
    return json.loads(told)


def bounds(source: Source, *, seed: int | None = None, exact_seconds: float | None = None) -> dict[str, Any]:
    """What no policy can beat in machines and power: `fluid` for any workload, `exact` for a few pods, searched for so many seconds."""
    return json.loads(_engine.bounds(scenario(source), seed, exact_seconds))
