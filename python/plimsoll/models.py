"""Models in folders: their cards and weights."""

import json
import os
from typing import Any

import numpy as np

from . import _engine


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model is: its network, its features, what it was trained on and what it reached."""
    return json.loads(_engine.read_card(os.fspath(folder)))


def read_weights(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The weights of a model, by name."""
    return {name: data.reshape(shape) for name, shape, data in _engine.read_weights(os.fspath(folder))}


def check_model(folder: str | os.PathLike[str]) -> None:
    """Raises a `ValueError` where a model cannot be used."""
    _engine.check_model(os.fspath(folder))


def list_models(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The models of a folder: name, card or problem, and what each is promoted for."""
    return json.loads(_engine.list_models(os.fspath(folder)))
