"""Three clusters that learn together, beside each alone and beside one that has all their workloads; on samples that nobody learned from.

    python python/examples/federation/compare.py [--out DIR] [--rounds N] [--generations N]

All have the same number of generations: each cluster alone, each cluster in the federation, and the pooled training, which makes the runs of all three in
each of its own. Figures are differences to the heuristic that all of them build on, in percent of its energy: less is better.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import plimsoll
from plimsoll.federation import Member, simulate

HERE = Path(__file__).parent
CLUSTERS = ("office", "bursts", "shopfront")
BASE = "efficient-first"
HELD_OUT = range(1, 11)


def scenario(name: str) -> Path:
    return HERE / f"{name}.toml"


def network(folder: Path, member: Member) -> list:
    """The shared part of a model."""
    weights = plimsoll.read_weights(folder)
    return [weights[name] for name in member.common["tensors"]]


def pooled(out: Path, generations: int) -> None:
    """Trains one network on the workloads of all clusters: what would come of it if recordings could be brought together."""
    stages = [plimsoll.Stage(scenario(name)) for name in CLUSTERS]
    each = stages[0].cases

    def measure(jobs):
        results = [None] * len(jobs)
        for at, stage in enumerate(stages):
            own = [number for number, (_, case) in enumerate(jobs) if case // each == at]
            for number, result in zip(own, stage.measure([(jobs[number][0], jobs[number][1] % each) for number in own]), strict=True):
                results[number] = result
        return results

    # The engine counts as many cases as there are samples; where they are from is for `measure` to know.
    text = scenario(CLUSTERS[0]).read_text()
    samples = ", ".join(str(101 + number) for number in range(each * len(stages)))
    changes = {"samples = [101, 102, 103, 104]": f"samples = [{samples}]", "cases = 2": f"cases = {2 * len(stages)}", "generations = 24": f"generations = {generations}"}
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    plimsoll.train(text, out, replace=True, measure=measure)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=Path("target/federation"))
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--generations", type=int, default=2, help="in each round")
    options.add_argument("--weights", default="equal", choices=["equal", "pods"])
    args = options.parse_args()
    out, generations = args.out, args.rounds * args.generations
    began = time.monotonic()
    for name in CLUSTERS:
        text = scenario(name).read_text().replace("generations = 24", f"generations = {generations}")
        plimsoll.train(text, out / "own" / name, replace=True)
        print(f"{name} alone: {plimsoll.read_card(out / 'own' / name)['figures']['training']['of_base']:.4f} of the heuristic's energy in training")
    told = simulate([scenario(name) for name in CLUSTERS], out / "federated", rounds=args.rounds, generations=args.generations, weighting=args.weights)
    print("together: " + ", ".join(f"{name} {figure:.4f}" for name, figure in told["rounds"][-1]["figures"].items()))
    pooled(out / "pooled", generations)
    print(f"pooled: {plimsoll.read_card(out / 'pooled')['figures']['training']['of_base']:.4f}; trained in {time.monotonic() - began:.0f} s")

    members = {name: Member(scenario(name)) for name in CLUSTERS}
    table: dict[str, dict[str, dict]] = {}
    for name, member in members.items():
        models = {f"own model of {other}": out / "own" / other for other in CLUSTERS}
        # A model of elsewhere has a predictor of elsewhere; with the one from here, what differs is the network alone.
        for label, folder in [(f"network of {other}", out / "own" / other) for other in CLUSTERS if other != name] + [("pooled", out / "pooled")]:
            member.take(network(folder, member))
            member.save(out / "here" / name / label.replace(" ", "-"))
            models[label] = out / "here" / name / label.replace(" ", "-")
        models["federated"] = out / "federated" / name
        found = plimsoll.compare(scenario(name), [BASE, *models.values()], seeds=HELD_OUT, measure="kwh")
        table[name] = {label: found["differences"][str(folder)] for label, folder in models.items()}

    def percent(name: str, label: str) -> str:
        found = table[name].get(label)
        if found is None:
            return "-"
        low, high = found["relativeInterval"]
        return f"{100 * found['relative']:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"

    labels = [f"own model of {other}" for other in CLUSTERS] + [f"network of {other}" for other in CLUSTERS] + ["federated", "pooled"]
    print(f"\nenergy against {BASE} in percent, with 95 % intervals, on {len(HELD_OUT)} samples that nobody learned from\n")
    print(f"| | {' | '.join(CLUSTERS)} |\n|---|{'---|' * len(CLUSTERS)}")
    for label in labels:
        print(f"| {label} | {' | '.join(percent(name, label) for name in CLUSTERS)} |")

    def mean(pairs) -> float:
        return 100 * statistics.mean(table[name][label]["relative"] for name, label in pairs)

    summary = {label: mean((name, label) for name in CLUSTERS) for label in ("federated", "pooled")}
    summary["each at home"] = mean((name, f"own model of {name}") for name in CLUSTERS)
    print("\nmeans over the clusters: " + ", ".join(f"{label} {value:+.2f} %" for label, value in summary.items()))
    print("\nmeans over the clusters that a model was not trained on, beside the federated one there\n")
    print("| trained by | own model | its network, with the predictor from there | federated |\n|---|---|---|---|")
    away: dict[str, list[float]] = {}
    for other in CLUSTERS:
        elsewhere = [name for name in CLUSTERS if name != other]
        away[other] = [mean((name, label) for name in elsewhere) for label in (f"own model of {other}", f"network of {other}", "federated")]
        print(f"| {other} | " + " | ".join(f"{value:+.2f}" for value in away[other]) + " |")
    own, networks, together = (statistics.mean(values) for values in zip(*away.values(), strict=True))
    print(f"| all | {own:+.2f} | {networks:+.2f} | {together:+.2f} |")
    beaten = [other for other, (model, _, federated) in away.items() if federated < model]
    print(f"\nat the others', the federated model is better than the own model of: {', '.join(beaten) or 'none'}; on average over all, {together:+.2f} % against {own:+.2f} %")
    (out / "report.json").write_text(json.dumps({"table": table, "means": summary, "away": away, "beaten": beaten}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
