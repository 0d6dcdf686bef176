"""`plimsoll-federate`: clusters that learn together."""

import argparse
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import Any

from .. import __version__
from .._command import ended
from .simulation import WEIGHTINGS, simulate

ADDRESS = "127.0.0.1:9099"


CLIP = 2.0
"""The length that updates are cut to unless another is given."""


def length(text: str) -> float | None:
    """A length, or none."""
    return None if text == "none" else float(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="plimsoll-federate", description="Learn together with other clusters: only weights leave each.")
    top.add_argument("--version", action="version", version=f"plimsoll-federate {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rounds = argparse.ArgumentParser(add_help=False)
    rounds.add_argument("--rounds", type=int, default=10, metavar="N", help="how often networks are averaged; 10 if not given")
    rounds.add_argument("--generations", type=int, default=2, metavar="N", help="generations that each cluster learns in a round; 2 if not given")
    rounds.add_argument("--weights", choices=WEIGHTINGS, default="equal", help="how clusters count: all the same, or by the pods they learn from")
    private = argparse.ArgumentParser(add_help=False)
    private.add_argument("--clip", type=length, default=CLIP, metavar="L", help=f"the length that an update is cut to, or none; {CLIP:g} if not given")
    private.add_argument("--noise", type=float, default=0.0, metavar="X", help="Gaussian noise on every number of an update, as a multiple of --clip")
    private.add_argument("--seed", type=int, metavar="N", help="the seed; the scenario's if not given")

    server = commands.add_parser("server", parents=[rounds], help="average what clients learn")
    server.add_argument("--clients", type=int, required=True, metavar="N", help="how many clients it waits for before it begins")
    server.add_argument("--out", required=True, metavar="DIR", help="the folder of the network, for clusters that join later")
    server.add_argument("--address", default=ADDRESS, help=f"where it listens; {ADDRESS} if not given")
    server.add_argument("--from", dest="begin_with", metavar="DIR", help="begin with the network of the model in this folder")
    server.add_argument("--patience", type=float, default=3600.0, metavar="S", help="seconds that it waits for clients, and for the answers of a round")
    for name, what in (("ca", "certificate of the authority"), ("cert", "own certificate"), ("key", "own key")):
        server.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"TLS: {what}, in PEM")

    client = commands.add_parser("client", parents=[private], help="learn from a scenario's workload, and share the network")
    client.add_argument("scenario", metavar="SCENARIO", help="a scenario file with a [learn] section")
    client.add_argument("--out", required=True, metavar="DIR", help="the folder of the model")
    client.add_argument("--server", default=ADDRESS, help=f"where the server listens; {ADDRESS} if not given")
    client.add_argument("--name", help="the name that others see; the scenario's if not given")
    client.add_argument("--patience", type=float, default=600.0, metavar="S", help="seconds that it tries to reach the server")
    client.add_argument("--tls-ca", type=Path, metavar="FILE", help="TLS: certificate of the authority that the server's is of, in PEM")

    simulated = commands.add_parser("simulate", parents=[rounds, private], help="all of it in one process, without a network")
    simulated.add_argument("scenarios", nargs="+", metavar="SCENARIO", help="scenario files, one for each cluster")
    simulated.add_argument("--out", required=True, metavar="DIR", help="a folder with a model for each cluster")
    return top


def say(told: dict[str, Any]) -> None:
    """A line for a round: how the network does everywhere, as a share of the heuristic's figure."""
    figures = ", ".join(f"{name} {figure:.5f}" for name, figure in told["figures"].items())
    print(f"round {told['round']}: {figures}", flush=True)


def run_server(args: argparse.Namespace, command: str) -> int:
    """Averages."""
    from .flower import Federation, serve

    tls = (args.tls_ca, args.tls_cert, args.tls_key)
    if any(tls) and not all(tls):
        raise ValueError("TLS needs all of --tls-ca, --tls-cert and --tls-key")
    given = {name: getattr(args, name) for name in ("clients", "generations", "out", "begin_with", "patience")}
    federation = Federation(weighting=args.weights, command=command, watch=say, **given)
    certificates = tuple(path.read_bytes() for path in tls) if all(tls) else None
    serve(args.address, federation, args.rounds, certificates=certificates, round_timeout=args.patience)
    if not federation.history:
        print("error: no round came to an end", file=sys.stderr)
        return 1
    (Path(args.out) / "rounds.json").write_text(json.dumps(federation.history, indent=2) + "\n", encoding="utf-8")
    print(f"{args.out}: the network after {len(federation.history)} rounds; begin with it elsewhere: plimsoll train SCENARIO --out DIR --from {args.out}")
    return 0


def run_client(args: argparse.Namespace, command: str) -> int:
    """Takes part."""
    from .flower import FlowerMember, join
    from .member import Member

    member = Member(args.scenario, name=args.name, seed=args.seed, clip=args.clip, noise=args.noise, command=command)
    print(f"{member.name}: {member.pods} pods to learn from", flush=True)
    heard: list[int] = []

    def watch(told: dict[str, Any]) -> None:
        heard.append(told["round"])
        say(told)

    join(args.server, FlowerMember(member, args.out, watch), root_certificates=args.tls_ca and args.tls_ca.read_bytes(), patience=args.patience)
    if not heard:
        print("error: the federation ended without a round", file=sys.stderr)
        return 1
    print(f"measure it with: plimsoll evaluate {args.out} {args.scenario}")
    return 0


def run_simulate(args: argparse.Namespace) -> int:
    """All in one process."""
    given = {name: getattr(args, name) for name in ("rounds", "generations", "clip", "noise", "seed")}
    found = simulate(args.scenarios, args.out, weighting=args.weights, watch=say, **given)
    (Path(args.out) / "rounds.json").write_text(json.dumps(found["rounds"], indent=2) + "\n", encoding="utf-8")
    for (name, folder), scenario in zip(found["folders"].items(), args.scenarios, strict=True):
        print(f"{name}: plimsoll evaluate {folder} {scenario}")
    return 0


def main(words: list[str] | None = None) -> int:
    """The command."""
    words = sys.argv[1:] if words is None else words
    args = parser().parse_args(words)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    command = shlex.join(["plimsoll-federate", *words])
    work = {"server": lambda: run_server(args, command), "client": lambda: run_client(args, command), "simulate": lambda: run_simulate(args)}
    return ended(work[args.command])


if __name__ == "__main__":
    sys.exit(main())
