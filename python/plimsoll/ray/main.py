"""`plimsoll-ray`: training and tuning on a cluster of Ray."""

import argparse
import json
import logging
import signal
import sys
import time
from typing import Any

from .. import __version__
from .._command import ended

SAY = 10.0
"""Seconds between two lines on how far training is, where nobody watches a terminal."""


class Stopped(KeyboardInterrupt):
    """Somebody wants training to end."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="plimsoll-ray", description="Train and tune on a cluster of Ray.")
    top.add_argument("--version", action="version", version=f"plimsoll-ray {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("scenario", metavar="SCENARIO", help="a scenario file with a [learn] section")
    common.add_argument("--address", help='a cluster of Ray: its address, or "auto"; without, this machine alone')
    common.add_argument("--seed", type=int, metavar="N", help="the seed; the scenario's if not given")
    common.add_argument("--steps", type=int, metavar="N", help="how many environment steps; the scenario's if not given")
    common.add_argument("--cpus", type=float, default=1.0, metavar="N", help="cores for each worker or trial; 1 if not given")
    common.add_argument("--quiet", action="store_true", help="show no progress")
    train = commands.add_parser("train", parents=[common], help="train a model, with runs in actors of Ray")
    train.add_argument("--out", required=True, metavar="DIR", help="the folder of the model: weights, card, and what training leaves")
    train.add_argument("--workers", type=int, required=True, metavar="N", help="how many actors make runs")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint, if there is one")
    train.add_argument("--replace", action="store_true", help="replace the model that is in the folder, or the training that was under way there")
    train.add_argument("--from", dest="begin_with", metavar="DIR", help="begin with the weights of the model in this folder")
    train.add_argument("--patience", type=float, default=300.0, metavar="S", help="seconds without any answer after which it gives up; 300 if not given")
    tune = commands.add_parser("tune", parents=[common], help="search for better hyper-parameters with Ray Tune (ASHA)")
    tune.add_argument("--concurrent", type=int, metavar="N", help="trials at a time; as many as there are cores if not given")
    tune.add_argument("--storage", metavar="DIR", help="where Ray Tune keeps its results; ~/ray_results if not given")
    tune.add_argument("--json", action="store_true", help="print JSON")
    return top


class Watcher:
    """Says how far training is, and has it end with a checkpoint when somebody asks for it; asked once more, it ends at once."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.said, self.asked = quiet, 0.0, False

    def listen(self) -> None:
        """From now on, Ctrl-C and SIGTERM are heard."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise Stopped
        self.asked = True

    def __call__(self, now: dict[str, Any]) -> None:
        if self.asked:
            raise Stopped
        on_terminal = sys.stderr.isatty()
        is_last = now["progress"] >= 1.0
        if self.quiet or (time.monotonic() - self.said < (0.2 if on_terminal else SAY) and not is_last):
            return
        self.said = time.monotonic()
        parts = [f"{100 * now['progress']:.0f} %", f"{now['steps']} steps", f"{now['steps_per_second']:.0f}/s"]
        parts += [f"{name} {value:.5g}" for name, value in now["scalars"].items()]
        if now["remaining"]:
            parts.append(f"{now['remaining']:.0f} s left")
        line = ", ".join(parts)
        sys.stderr.write(f"\r\x1b[K{line}{chr(10) if is_last else ''}" if on_terminal else f"{line}\n")
        sys.stderr.flush()


def run_train(args: argparse.Namespace) -> int:
    """Trains a model."""
    from .training import train

    watcher = Watcher(args.quiet)
    given = {name: getattr(args, name) for name in ("workers", "address", "seed", "steps", "resume", "replace", "begin_with", "cpus", "patience")}
    try:
        found = train(args.scenario, args.out, progress=watcher, started=watcher.listen, **given)
    except Stopped:
        print(f"stopped; go on with --resume from the checkpoint in {args.out}/training", file=sys.stderr)
        return 130
    if not found["trained"]:
        return 0
    print(f"{args.out} is trained: {found['steps']} steps in {found['seconds']:.1f} s with {found['workers']} workers, {found['lost']} lost on the way")
    for name, value in found["scalars"].items():
        print(f"  {name} {value:.6g}")
    print(f"measure it with: plimsoll evaluate {args.out} {args.scenario}")
    return 0


def run_tune(args: argparse.Namespace) -> int:
    """Searches, and says what was best."""
    from .search import tune

    given = {name: getattr(args, name) for name in ("address", "seed", "steps", "cpus", "concurrent", "storage")}
    found = tune(args.scenario, **given)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    measure = found["objective"]["measure"]
    print(f"{'CONFIGURATION':>13} {'STEPS':>10} {measure.upper():>12}  VALUES")
    for trial in found["trials"]:
        figure = trial["problem"] or "-" if trial["figure"] is None else f"{trial['figure']:.6g}"
        print(f"{trial['configuration']:>13} {trial['steps']:>10} {figure:>12}  {values(trial['values'], ', ')}")
    print(f"best: configuration {found['best']['configuration']}")
    print(values(found["best"]["values"], "\n"))
    print("judged on the last part of the training data; windows to evaluate on were not looked at")
    return 0


def values(configuration: dict[str, Any], between: str) -> str:
    """A configuration as it would stand in a scenario."""
    return between.join(f"{name} = {json.dumps(value)}" for name, value in configuration.items()) or "as the scenario has it"


def main(words: list[str] | None = None) -> int:
    """The command."""
    args = parser().parse_args(words)
    logging.basicConfig(level=logging.WARNING if args.quiet else logging.INFO, format="%(message)s")
    return ended(lambda: run_train(args) if args.command == "train" else run_tune(args))


if __name__ == "__main__":
    sys.exit(main())
