"""What can be named, with what each is."""

from ._engine import names as _names


def policies() -> dict[str, str]:
    """The policies, which are the baselines of evaluations."""
    return dict(_names("policies"))


def bases() -> dict[str, str]:
    """The heuristics that a model can build on or fall back to."""
    return dict(_names("bases"))


def rewards() -> dict[str, str]:
    """What can be rewarded."""
    return dict(_names("rewards"))


def generators() -> dict[str, str]:
    """What can make up a workload."""
    return dict(_names("generators"))


def node_features() -> dict[str, str]:
    """The features of nodes, in the order that a model has them."""
    return dict(_names("node features"))


def pod_features() -> dict[str, str]:
    """The features of pods."""
    return dict(_names("pod features"))


def measures() -> dict[str, str]:
    """What is measured of a run."""
    return dict(_names("measures"))
