"""Workloads: recorded ones, and those that are made up by seed."""

import json
import os
from typing import Any

from . import _engine


def read_trace(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    lenient: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Sums a recorded workload up: pods, owners, demand, lifetimes, shapes; `out` is a file that it is written to in Plimsoll's own format.

    The format is `azure`, `alibaba` or `table`, known by the heading if not given; a `lenient` reader skips bad rows, and counts them.
    """
    return json.loads(_engine.read_trace(os.fspath(path), format, lenient, None if out is None else os.fspath(out)))


def generate_trace(kind: str, *, seed: int = 1, out: str | os.PathLike[str] | None = None, **settings: Any) -> dict[str, Any]:
    """Makes a workload up and sums it up; `plimsoll.generators()` lists the kinds, docs/workloads.md their settings."""
    told = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    return json.loads(_engine.generate_trace(kind, told, seed, None if out is None else os.fspath(out)))
