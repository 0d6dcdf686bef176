"""A federation within one process: to try what it would come to before anybody is asked to take part."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .arithmetic import Arrays, average, moved
from .member import Member, differences

WEIGHTINGS = ("pods", "equal")
"""How members count: by the pods they learn from, or all the same."""


def weight(weighting: str, pods: int) -> float:
    """What a member counts."""
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting {weighting!r} is not known; there are {', '.join(WEIGHTINGS)}")
    return float(max(1, pods)) if weighting == "pods" else 1.0


def rounds_of(
    members: Sequence[Member],
    *,
    rounds: int,
    generations: int,
    weighting: str,
    network: Arrays | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> Arrays:
    """Has members learn for some rounds; returns the network, which all of them have by then."""
    for member in members[1:]:
        if differs := differences(members[0].common, member.common):
            raise ValueError(f"{member.name} cannot learn with {members[0].name}: {'; '.join(differs)}")
    network = members[0].network() if network is None else network
    for number in range(1, rounds + 1):
        updates = [member.learn(network, generations) for member in members]
        network = moved(network, average(updates, [weight(weighting, member.pods) for member in members]))
        figures = {member.name: member.take(network) for member in members}
        if watch is not None:
            watch({"round": number, "figures": figures})
    return network


def simulate(
    sources: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    rounds: int,
    generations: int = 2,
    weighting: str = "equal",
    clip: float | None = None,
    noise: float = 0.0,
    seed: int | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Has clusters learn together, and stores a model for each in the folder of its name. Equal seeds give equal models."""
    members = [
        Member(source, seed=seed, clip=clip, noise=noise, noise_seed=None if noise == 0.0 else [seed or 0, number], command="plimsoll-federate simulate")
        for number, source in enumerate(sources)
    ]
    names = [member.name for member in members]
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"members need names of their own; these are {', '.join(names) or 'none'}")
    history: list[dict[str, Any]] = []

    def note(told: dict[str, Any]) -> None:
        history.append(told)
        if watch is not None:
            watch(told)

    rounds_of(members, rounds=rounds, generations=generations, weighting=weighting, watch=note)
    for member in members:
        member.save(Path(out) / member.name)
    return {"members": names, "rounds": history, "folders": {name: str(Path(out) / name) for name in names}}
