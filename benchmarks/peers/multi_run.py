"""Bounds from many runs: independent trials, epsilon at the delta of the trials, 95% confidence."""

from __future__ import annotations

from typing import Any

import measure
import numpy as np
from measure import Trials, Way, Ways

LEVEL = 0.05
FIXED, CHOSEN = "threshold fixed", "threshold chosen on the data"
GAUSS = "Gaussian, threshold chosen on the data"


def ours(parameter: str, rule: str, method: str) -> Any:
    def load() -> Any:
        from one_run import as_epsilon

        import miaudit as ma
        from miaudit.dp import multi_run

        test = getattr(multi_run, method)()

        def call(trials: Trials) -> measure.Answer:
            evidence = ma.Evidence(score=trials.score, member=trials.member, design="multi-run")
            threshold = multi_run.Threshold(trials.threshold) if rule == "Threshold" else getattr(multi_run, rule)()
            rng = np.random.default_rng(trials.seed)
            if parameter == "mu":
                bound = multi_run.mu_lower_bound(evidence, threshold=threshold, method=test, rng=rng)
                value = as_epsilon(bound.value, trials.delta)
            else:
                value = multi_run.epsilon_lower_bound(
                    evidence, delta=trials.delta, threshold=threshold, method=test, rng=rng
                ).value
            return value, value

        return call

    return load


def jax_privacy(strategy: str, one_sided: bool) -> Any:
    def load() -> Any:
        from jax_privacy import auditing

        def call(trials: Trials) -> measure.Answer:
            auditor = auditing.CanaryScoreAuditor(trials.inside, trials.outside)
            seeded = {"seed": trials.seed} if "Split" in strategy else {}
            rule = (
                auditing.Explicit(trials.threshold) if strategy == "Explicit" else getattr(auditing, strategy)(**seeded)
            )
            value = float(auditor.epsilon_clopper_pearson(LEVEL, trials.delta, one_sided, threshold_strategy=rule))
            return value, value

        return call

    return load


def jax_gauss() -> Any:
    from jax_privacy import auditing

    def call(trials: Trials) -> measure.Answer:
        value = float(auditing.CanaryScoreAuditor(trials.inside, trials.outside).epsilon_from_gdp(LEVEL, trials.delta))
        return value, value

    return call


def tensorflow(method: str, fixed: bool, two_sided: bool) -> Any:
    def load() -> Any:
        from tensorflow_privacy.privacy.privacy_tests import epsilon_lower_bound as elb

        bound = elb.BoundMethod[method]

        def call(trials: Trials) -> measure.Answer:
            thresholds = np.array([trials.threshold]) if fixed else None
            lower = elb.EpsilonLowerBound(trials.inside, trials.outside, LEVEL, two_sided, thresholds)
            best = lower.compute_epsilon_lower_bound(bound, k=1)
            value = max(0.0, float(best[0])) if len(best) else 0.0
            return value, value

        return call

    return load


def privacy_estimates(method: str) -> Any:
    def load() -> Any:
        from privacy_estimates import AttackResults, compute_eps_lo

        def call(trials: Trials) -> measure.Answer:
            above, below = trials.score >= trials.threshold, trials.score < trials.threshold
            true, missed = int(np.sum(above & trials.member)), int(np.sum(below & trials.member))
            false, silent = int(np.sum(above & ~trials.member)), int(np.sum(below & ~trials.member))
            counts = AttackResults(FN=missed, FP=false, TN=silent, TP=true)
            value = float(compute_eps_lo(counts, trials.delta, LEVEL, method))
            return value, value

        return call

    return load


def ours_all() -> dict[str, Way]:
    found = {}
    for rule, question in (("Threshold", FIXED), ("Bonferroni", CHOSEN), ("Split", CHOSEN), ("Exploratory", CHOSEN)):
        for method in ("ClopperPearson", "Joint"):
            held = rule != "Exploratory"
            note = "the default" if (rule, method) == ("Bonferroni", "Joint") else ""
            note = note if held else "labelled exploratory: says that it does not hold"
            found[f"epsilon, {rule}, {method}"] = Way(question, ours("epsilon", rule, method), "epsilon", note, held)
            if rule in ("Bonferroni", "Split"):
                found[f"mu, {rule}, {method}"] = Way(GAUSS, ours("mu", rule, method), "mu", note)
    return found


def jax_all() -> dict[str, Way]:
    found = {}
    for strategy in ("Explicit", "Bonferroni", "Split", "MultiSplit"):
        for one_sided in (True, False):
            question = FIXED if strategy == "Explicit" else CHOSEN
            note = "its default" if (strategy, one_sided) == ("Bonferroni", True) else ""
            side = "one-sided" if one_sided else "two-sided"
            name = f"epsilon_clopper_pearson, {strategy}, {side}"
            found[name] = Way(question, jax_privacy(strategy, one_sided), "epsilon", note)
    found["epsilon_from_gdp"] = Way(GAUSS, jax_gauss, "mu")
    return found


def tensorflow_all() -> dict[str, Way]:
    found = {}
    for method in ("CLOPPER_PEARSON", "KATZ_LOG", "ADJUSTED_LOG", "BAILEY", "INV_SINH"):
        for fixed, two_sided in ((True, True), (True, False), (False, True), (False, False)):
            question = FIXED if fixed else CHOSEN
            where = "one threshold" if fixed else "all thresholds (its default)"
            side = "two-sided" if two_sided else "one-sided"
            name = f"{method}, {where}, {side}"
            found[name] = Way(question, tensorflow(method, fixed, two_sided), "pure", "takes no delta")
    return found


WAYS: Ways = {
    "miaudit": ours_all(),
    "jax-privacy": jax_all(),
    "tensorflow-privacy": tensorflow_all(),
    "privacy-estimates": {
        "beta (Clopper-Pearson)": Way(FIXED, privacy_estimates("beta"), "epsilon"),
        "jeffreys": Way(FIXED, privacy_estimates("jeffreys"), "epsilon"),
        "joint-beta": Way(
            FIXED,
            privacy_estimates("joint-beta"),
            "epsilon",
            "a posterior quantile: never 0, so always above a truth of 0",
        ),
        "joint-dirichlet": Way(FIXED, privacy_estimates("joint-dirichlet"), "", "fails in this version"),
    },
}

if __name__ == "__main__":
    measure.main(WAYS)
