"""A federation with Flower: a server that averages, and clients that learn where their recordings are."""

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Flower tells its makers who uses it unless it is asked not to; nothing leaves a cluster here that is not said.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise ImportError("federation between machines needs Flower: pip install 'plimsoll[federation]'") from error

import grpc
import numpy as np
from flwr.client import NumPyClient, start_client
from flwr.common import (
    Code,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetPropertiesIns,
    Parameters,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import ServerConfig, start_server
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from .. import _engine, models
from .arithmetic import Arrays, average, moved
from .member import Member, differences
from .simulation import weight

log = logging.getLogger("plimsoll")
# What users should know is said here; Flower would say it twice, with colours.
logging.getLogger("flwr").setLevel(logging.ERROR)
logging.getLogger("flwr").propagate = False

HELLO = 600.0
"""Seconds that a client has to say who it is: it may still be making runs."""


class Federation(Strategy):
    """The server's part: who takes part, what they start with, and the mean of what they learned."""

    def __init__(
        self,
        *,
        clients: int,
        generations: int,
        weighting: str,
        out: str | os.PathLike[str],
        begin_with: str | os.PathLike[str] | None = None,
        patience: float = 3600.0,
        command: str = "",
        watch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        weight(weighting, 1)
        self.clients, self.generations, self.weighting, self.patience = clients, generations, weighting, patience
        self.out, self.begin_with, self.command, self.watch = Path(out), begin_with, command, watch
        self.common: dict[str, Any] = {}
        self.network: Arrays = []
        self.names: dict[str, str] = {}
        self.refused: set[str] = set()
        self.history: list[dict[str, Any]] = []

    def _meet(self, proxy: ClientProxy) -> None:
        """Hears who a client is; one that learns something else is refused."""
        answer = proxy.get_properties(GetPropertiesIns({}), timeout=HELLO, group_id=None)
        told = json.loads(str(answer.properties["about"]))
        name, common = told["name"], told["common"]
        differs = differences(self.common, common) if self.common else []
        if name in self.names.values():
            differs.append("another one has its name")
        if differs:
            self.refused.add(proxy.cid)
            log.warning("%s is refused: %s", name, "; ".join(differs))
            return
        self.common = self.common or common
        self.names[proxy.cid] = name

    def _there(self, manager: ClientManager) -> list[ClientProxy]:
        """Those who take part now, by name."""
        there = manager.all()
        self.names = {cid: name for cid, name in self.names.items() if cid in there}
        for cid, proxy in sorted(there.items()):
            if cid in self.names or cid in self.refused:
                continue
            try:
                self._meet(proxy)
            except Exception as error:  # Whatever is wrong with one is no reason to leave the others alone.
                log.warning("a client did not say who it is: %s", error)
        return sorted((there[cid] for cid in self.names), key=lambda proxy: self.names[proxy.cid])

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        if not client_manager.wait_for(self.clients, timeout=int(self.patience)):
            raise RuntimeError(f"{client_manager.num_available()} of {self.clients} clients came within {self.patience:.0f} s")
        there = self._there(client_manager)
        if not there:
            raise RuntimeError("none of the clients said who it is")
        if self.begin_with is None:
            found = there[0].get_parameters(GetParametersIns({}), timeout=HELLO, group_id=None)
            self.network = parameters_to_ndarrays(found.parameters)
        else:
            stored = models.read_weights(self.begin_with)
            tensors = self.common["tensors"]
            if missing := [name for name, shape in tensors.items() if name not in stored or list(stored[name].shape) != shape]:
                raise ValueError(f"{self.begin_with}: {', '.join(missing)} is missing, or of another shape than clients have")
            self.network = [stored[name] for name in tensors]
        return ndarrays_to_parameters(self.network)

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[tuple[ClientProxy, FitIns]]:
        config = {"generations": self.generations, "round": server_round}
        return [(proxy, FitIns(parameters, config)) for proxy in self._there(client_manager)]

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Any]]:
        self._say_failures(server_round, failures)
        found = [(self.names.get(proxy.cid, proxy.cid), answer) for proxy, answer in results if answer.status.code == Code.OK]
        # The sum of numbers depends on their order, and who is first on chance.
        found.sort(key=lambda pair: pair[0])
        if found:
            updates = [parameters_to_ndarrays(answer.parameters) for _, answer in found]
            shapes = [array.shape for array in self.network]
            sound = [[array.shape for array in update] == shapes and all(np.isfinite(array).all() for array in update) for update in updates]
            for (name, _), is_sound in zip(found, sound, strict=True):
                if not is_sound:
                    log.warning("round %d: what %s sent holds what is no number, or is of another network, and is left out", server_round, name)
            kept = [(update, weight(self.weighting, answer.num_examples)) for update, (_, answer), ok in zip(updates, found, sound, strict=True) if ok]
            if kept:
                self.network = moved(self.network, average([update for update, _ in kept], [weight for _, weight in kept]))
        self._save(server_round)
        return ndarrays_to_parameters(self.network), {}

    def configure_evaluate(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[tuple[ClientProxy, EvaluateIns]]:
        return [(proxy, EvaluateIns(parameters, {"round": server_round})) for proxy in self._there(client_manager)]

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Any]]:
        self._say_failures(server_round, failures)
        figures = {self.names.get(proxy.cid, proxy.cid): float(answer.metrics["figure"]) for proxy, answer in results if answer.status.code == Code.OK}
        told = {"round": server_round, "figures": dict(sorted(figures.items()))}
        self.history.append(told)
        if self.watch is not None:
            self.watch(told)
        return (sum(figures.values()) / len(figures) if figures else None), {}

    def evaluate(self, server_round: int, parameters: Parameters) -> None:
        """The server has nothing to measure on."""

    def _say_failures(self, server_round: int, failures: list[Any]) -> None:
        for failure in failures:
            why = failure if isinstance(failure, BaseException) else failure[1].status.message
            log.warning("round %d: a client did not answer: %s", server_round, why)

    def _save(self, server_round: int) -> None:
        """The network after each round, for clusters that join later: `plimsoll train --from`."""
        common = {name: value for name, value in self.common.items() if name != "tensors"}
        arrays = [(name, np.ascontiguousarray(array, np.float32)) for name, array in zip(self.common["tensors"], self.network, strict=True)]
        about = f"learned together by {len(self.names)} clusters in {server_round} rounds; it has no predictor of lifetimes"
        _engine.save_network(os.fspath(self.out), json.dumps(common), arrays, about, self.command)


class FlowerMember(NumPyClient):
    """The client's part."""

    def __init__(self, member: Member, out: str | os.PathLike[str], watch: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.member, self.out, self.watch = member, out, watch
        self.rounds = 0
        """Rounds that it has seen the end of."""

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"about": json.dumps({"name": self.member.name, "common": self.member.common})}

    def get_parameters(self, config: dict[str, Any]) -> Arrays:
        return self.member.network()

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        return self.member.learn(parameters, int(config["generations"])), self.member.pods, {}

    def evaluate(self, parameters: Arrays, config: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        figure = self.member.take(parameters)
        # After every round: whoever is cut off has the last model that it heard of.
        self.member.save(self.out)
        self.rounds += 1
        if self.watch is not None:
            self.watch({"round": int(config["round"]), "figures": {self.member.name: figure}})
        return figure, self.member.pods, {"figure": figure}


def serve(
    address: str, federation: Federation, rounds: int, *, certificates: tuple[bytes, bytes, bytes] | None = None, round_timeout: float | None = None
) -> list[dict[str, Any]]:
    """Runs a federation to its end. `certificates` are those of the authority, of the server, and the server's key, in PEM."""
    config = ServerConfig(num_rounds=rounds, round_timeout=round_timeout)
    start_server(server_address=address, config=config, strategy=federation, certificates=certificates)
    return federation.history


def join(address: str, member: FlowerMember, *, root_certificates: bytes | None = None, patience: float = 600.0) -> None:
    """Takes part until the server ends the federation. A server that is not there is waited for, and so is one that is lost on the way."""
    deadline = time.monotonic() + patience
    while True:
        rounds = member.rounds
        try:
            start_client(
                server_address=address, client=member.to_client(), root_certificates=root_certificates, insecure=root_certificates is None, max_retries=0
            )
            return
        except grpc.RpcError as error:
            if member.rounds > rounds:
                deadline = time.monotonic() + patience
            if time.monotonic() > deadline:
                details = error.details() if isinstance(error, grpc.Call) else error
                raise ConnectionError(f"{address}: the server has not been reached for {patience:.0f} s: {details}") from error
            time.sleep(1.0)
