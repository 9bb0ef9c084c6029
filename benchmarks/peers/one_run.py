"""Bounds from one run: fair coins, one model, 95% confidence, at the delta of the trials."""

from __future__ import annotations

from typing import Any

import measure
import numpy as np
from measure import Trials, Way, Ways

LEVEL = 0.05
FIXED, CHOSEN = "epsilon, threshold fixed", "epsilon, threshold chosen on the data"
FIXED_GAUSS, CHOSEN_GAUSS = "Gaussian, threshold fixed", "Gaussian, threshold chosen on the data"
OUT_OF_RUN = "proof assumes independent guesses (erratum B17)"


def as_epsilon(mu: float, delta: float) -> float:
    from miaudit.dp.tradeoff import Gaussian

    return Gaussian(mu).epsilon_at(delta) if mu > 0 else 0.0


def ours_fixed(parameter: str) -> Any:
    def load() -> Any:
        from miaudit.dp import one_run

        def call(trials: Trials) -> measure.Answer:
            guessed = trials.score >= trials.threshold
            counts = {
                "correct": int(np.count_nonzero(trials.member[guessed])),
                "guesses": int(np.count_nonzero(guessed)),
                "canaries": len(guessed),
            }
            if parameter == "mu":
                value = as_epsilon(one_run.mu_lower_bound(**counts).value, trials.delta)
            else:
                value = one_run.epsilon_lower_bound(**counts, delta=trials.delta).value
            return value, value

        return call

    return load


def ours_chosen(parameter: str, option: str) -> Any:
    def load() -> Any:
        import miaudit as ma
        from miaudit.dp import one_run, selection

        rule = getattr(selection, option)()

        def call(trials: Trials) -> measure.Answer:
            evidence = ma.Evidence(score=trials.score, member=trials.member, design="one-run")
            rng = np.random.default_rng(trials.seed)
            delta = trials.delta if parameter == "epsilon" else 0.0
            bound = one_run.audit(evidence, parameter=parameter, delta=delta, guesses=rule, rng=rng)
            value = bound.value if parameter == "epsilon" else as_epsilon(bound.value, trials.delta)
            return value, value

        return call

    return load


def jax_privacy(method: str, strategy: str) -> Any:
    def load() -> Any:
        from jax_privacy import auditing

        def call(trials: Trials) -> measure.Answer:
            auditor = auditing.CanaryScoreAuditor(trials.inside, trials.outside)
            seeded = {"seed": trials.seed} if "Split" in strategy else {}
            rule = (
                auditing.Explicit(trials.threshold) if strategy == "Explicit" else getattr(auditing, strategy)(**seeded)
            )
            value = float(getattr(auditor, method)(LEVEL, trials.delta, threshold_strategy=rule))
            return value, value

        return call

    return load


def opake_estimate() -> Any:
    from opake import auditing
    from opake.auditing.types import CoinFlip

    def estimate(trials: Trials) -> Any:
        rows = np.arange(len(trials.score))
        coins = CoinFlip(len(rows), rows, trials.member, rows[trials.member], rows[~trials.member])
        return auditing.one_run(auditing.canary_scores(trials.score, canary_indices=rows), coin_flip=coins)

    return estimate


def opake(method: str, fixed: bool, grid: int | None = None) -> Any:
    def load() -> Any:
        estimate = opake_estimate()

        def call(trials: Trials) -> measure.Answer:
            audit = getattr(estimate(trials), method)(**({} if grid is None else {"grid_size": grid}))
            threshold = trials.threshold if fixed else None
            value = float(audit.epsilon_at(delta=trials.delta, significance=LEVEL, threshold=threshold))
            return value, value

        return call

    return load


def ours() -> dict[str, Way]:
    found = {
        "epsilon_lower_bound": Way(FIXED, ours_fixed("epsilon"), "epsilon"),
        "mu_lower_bound": Way(FIXED_GAUSS, ours_fixed("mu"), "mu"),
    }
    for parameter, question in (("epsilon", CHOSEN), ("mu", CHOSEN_GAUSS)):
        for option in ("Pilot", "Bonferroni", "Schedule", "Hedged", "Exploratory"):
            held = option != "Exploratory"
            note = (
                "the default"
                if option == "Hedged"
                else ""
                if held
                else "labelled exploratory: says that it does not hold"
            )
            name = f"audit, {parameter}, {option}"
            found[name] = Way(question, ours_chosen(parameter, option), parameter, note, held)
    return found


def jax() -> dict[str, Way]:
    found = {}
    for method, family, fixed, chosen in (
        ("epsilon_one_run", "epsilon", FIXED, CHOSEN),
        ("epsilon_one_run_fdp", "mu", FIXED_GAUSS, CHOSEN_GAUSS),
    ):
        for strategy in ("Explicit", "Bonferroni", "Split", "MultiSplit"):
            question = fixed if strategy == "Explicit" else chosen
            note = "its default" if strategy == "Bonferroni" else ""
            found[f"{method}, {strategy}"] = Way(question, jax_privacy(method, strategy), family, note)
    return found


WAYS: Ways = {
    "miaudit": ours(),
    "jax-privacy": jax(),
    "opake": {
        "eps_delta, threshold given": Way(FIXED, opake("eps_delta", True), "epsilon", OUT_OF_RUN),
        "eps_delta": Way(CHOSEN, opake("eps_delta", False), "epsilon", OUT_OF_RUN),
        "gdp, threshold given": Way(FIXED_GAUSS, opake("gdp", True), "mu", OUT_OF_RUN),
        "gdp, grid of 1,000": Way(CHOSEN_GAUSS, opake("gdp", False, 1_000), "mu", OUT_OF_RUN),
        "gdp (its default)": Way(CHOSEN_GAUSS, opake("gdp", False), "mu", OUT_OF_RUN),
    },
}

if __name__ == "__main__":
    measure.main(WAYS)
