"""The search for better hyper-parameters with Ray Tune: the configurations of `plimsoll tune`, by asynchronous successive halving (ASHA)."""

import json
import os
from typing import Any

from .. import _engine
from .crew import Play
from .training import connect


def tune(
    path: str | os.PathLike[str],
    *,
    address: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    concurrent: int | None = None,
    cpus: float = 1.0,
    storage: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Tries what `[learn.tune]` of a scenario names: the same configurations as `plimsoll tune` with this seed, judged on the same data.

    ASHA does not wait for a round to end: whoever is among the best of those that got as far goes on. Which these are depends on who was faster, so
    that the list of trials is not the same each time. The answer has `trials`, the best first, and the `best` configuration.
    """
    connect(address, concurrent or 1)
    from ray import tune as ray_tune
    from ray.tune.schedulers import ASHAScheduler

    play = Play.read(path, seed)
    plan = json.loads(_engine.search(play.scenario(), seed, steps))
    configurations, budgets = plan["configurations"], plan["budgets"]

    def trial(config: dict[str, Any]) -> None:
        def report(budget: int, score: float) -> None:
            ray_tune.report({"steps": budget, "score": score})

        _engine.trial(play.scenario(), json.dumps(configurations[config["number"]]), budgets, plan["seed"], report)

    scheduler = ASHAScheduler(time_attr="steps", max_t=budgets[-1], grace_period=budgets[0], reduction_factor=plan["keep_one_in"])
    tuner = ray_tune.Tuner(
        ray_tune.with_resources(trial, {"cpu": cpus}),
        param_space={"number": ray_tune.grid_search(list(range(len(configurations))))},
        tune_config=ray_tune.TuneConfig(metric="score", mode="max", scheduler=scheduler, max_concurrent_trials=concurrent),
        run_config=ray_tune.RunConfig(verbose=0, storage_path=None if storage is None else os.path.abspath(storage)),
    )
    sign = 1.0 if plan["objective"]["better"] == "more" else -1.0
    trials = []
    for result in tuner.fit():
        number = result.config["number"] if result.config else -1
        score = result.metrics.get("score") if result.metrics else None
        problem = None if result.error is None else str(result.error)
        trials.append(
            {
                "configuration": number,
                "values": configurations[number],
                "steps": result.metrics.get("steps", 0) if result.metrics else 0,
                "figure": None if score is None else sign * score,
                "problem": problem,
            }
        )
    if all(trial["figure"] is None for trial in trials):
        raise RuntimeError(f"no configuration could be trained; the first says: {trials[0]['problem']}")
    # Who got further was among the best before; figures of unequal budgets say little of each other.
    trials.sort(key=lambda trial: (trial["figure"] is None, -trial["steps"], -sign * (trial["figure"] or 0.0), trial["configuration"]))
    return {"objective": plan["objective"], "trials": trials, "best": trials[0]}
