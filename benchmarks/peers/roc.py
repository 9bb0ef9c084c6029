"""ROC of scores whose membership is known: AUC and TPR at an FPR of 1%, with 90% intervals, so 5% below and above."""

from __future__ import annotations

from typing import Any

import measure
import numpy as np
from measure import Trials, Way, Ways

LEVEL = 0.05
TARGET = 0.01
REPLICATES = 200
CURVE = "AUC, bootstrap"
TAIL = "TPR at 1%, bootstrap"


def sample_of(trials: Trials) -> Any:
    import miaudit as ma
    from miaudit.metrics.classical import Sample

    return Sample.of(ma.Evidence(score=trials.score, member=trials.member, design="one-run"))


def ours_auc() -> Any:
    import miaudit.causal.classical  # noqa: F401 - imports are not counted

    def call(trials: Trials) -> measure.Answer:
        found = sample_of(trials).auc(1 - 2 * LEVEL)
        return found.value, found.low

    return call


def ours_tpr() -> Any:
    import miaudit.causal.classical  # noqa: F401

    def call(trials: Trials) -> measure.Answer:
        found = sample_of(trials).tpr_at_fpr(TARGET, 1 - 2 * LEVEL)
        return np.nan if found.value is None else found.value, found.low

    return call


def ours_bootstrap(metric: str) -> Any:
    """AUC, TPR and advantage come from the same replicates; a TPR has the outer limits, as in audits."""

    def load() -> Any:
        from miaudit.metrics import bootstrap
        from miaudit.metrics.classical import tpr_name

        def call(trials: Trials) -> measure.Answer:
            sample = sample_of(trials)
            drawn = bootstrap.replicates(sample, (TARGET,), REPLICATES, rng=np.random.default_rng(trials.seed))
            found = bootstrap.estimates(sample, drawn, (TARGET,), 1 - 2 * LEVEL)
            if metric == "auc":
                return found["auc"].value, found["auc"].low
            tpr = found[tpr_name(TARGET)]
            plain = sample.tpr_at_fpr(TARGET, 1 - 2 * LEVEL)
            return np.nan if tpr.value is None else tpr.value, min(tpr.low, plain.low)

        return call

    return load


def confidenceinterval(method: str) -> Any:
    def load() -> Any:
        from confidenceinterval import roc_auc_score

        def call(trials: Trials) -> measure.Answer:
            more = {} if method == "delong" else {"n_resamples": REPLICATES, "random_state": trials.seed}
            value, (low, _high) = roc_auc_score(
                trials.member.astype(int), trials.score, 1 - 2 * LEVEL, method=method, **more
            )
            return float(np.ravel(value)[0]), float(low)

        return call

    return load


def mlstatkit() -> Any:
    import MLstatkit
    from MLstatkit import ci

    ci.tqdm = lambda steps, **_: steps  # no progress bar

    def call(trials: Trials) -> measure.Answer:
        label = trials.member.astype(int)
        value, low, _high = MLstatkit.Bootstrapping(
            label, trials.score, "roc_auc", REPLICATES, 1 - 2 * LEVEL, random_state=trials.seed
        )
        return value, low

    return call


def roc_utils(interval: str, stratified: bool) -> Any:
    def load() -> Any:
        import roc_utils as ru

        def call(trials: Trials) -> measure.Answer:
            mean = ru.compute_roc_bootstrap(
                trials.score,
                trials.member,
                True,
                n_bootstrap=REPLICATES,
                random_state=trials.seed,
                stratified=stratified,
            )
            return float(mean.auc_mean), float(np.ravel(mean[interval])[0])

        return call

    return load


def jax_privacy(metric: str, correct: bool | None, accelerate: bool = False) -> Any:
    def load() -> Any:
        from jax_privacy import auditing

        def call(trials: Trials) -> measure.Answer:
            auditor = auditing.CanaryScoreAuditor(trials.inside, trials.outside)
            params = auditing.BootstrapParams(
                REPLICATES, (LEVEL, 1 - LEVEL), bool(correct), accelerate, seed=trials.seed
            )
            if metric == "auc":
                return auditor.attack_auroc(), auditor.attack_auroc(bootstrap_params=params)[0]
            return auditor.tpr_at_given_fpr(TARGET), auditor.tpr_at_given_fpr(TARGET, bootstrap_params=params)[0]

        return call

    return load


def opake() -> Any:
    from one_run import opake_estimate
    from opake.random import key

    estimate = opake_estimate()

    def call(trials: Trials) -> measure.Answer:
        found = estimate(trials)
        low, _high = found.attack_auc(confidence=1 - 2 * LEVEL, num_samples=REPLICATES, key=key(trials.seed))
        return found.attack_auc(), low

    return call


def art() -> Any:
    from art.metrics.privacy import get_roc_for_fpr

    def call(trials: Trials) -> measure.Answer:
        ((_fpr, tpr, _threshold),) = get_roc_for_fpr(trials.score, trials.member.astype(int), targeted_fpr=TARGET)
        return float(tpr), float(tpr)

    return call


WAYS: Ways = {
    "miaudit": {
        "AUC, default": Way("AUC, no resampling", ours_auc, "auc"),
        "TPR, default": Way("TPR at 1%, no resampling", ours_tpr, "tpr"),
        "AUC, bootstrap": Way(CURVE, ours_bootstrap("auc"), "auc", "AUC, TPR and advantage from the same replicates"),
        "TPR, bootstrap": Way(TAIL, ours_bootstrap("tpr"), "tpr", "AUC, TPR and advantage from the same replicates"),
    },
    "confidenceinterval": {
        "delong": Way("AUC, no resampling", confidenceinterval("delong"), "auc"),
        "bootstrap_percentile": Way(CURVE, confidenceinterval("bootstrap_percentile"), "auc"),
        "bootstrap_basic": Way(CURVE, confidenceinterval("bootstrap_basic"), "auc"),
        "bootstrap_bca (its default bootstrap)": Way(CURVE, confidenceinterval("bootstrap_bca"), "auc"),
    },
    "MLstatkit": {"Bootstrapping": Way(CURVE, mlstatkit, "auc")},
    "roc-utils": {
        "auc95_ci": Way(CURVE, roc_utils("auc95_ci", False), "auc", "95% only, so 2.5% below; of the replicates' mean"),
        "auc95_ti": Way(CURVE, roc_utils("auc95_ti", False), "auc", "95% only, so 2.5% below"),
        "auc95_ti, stratified": Way(CURVE, roc_utils("auc95_ti", True), "auc", "95% only, so 2.5% below"),
    },
    "jax-privacy": {
        "attack_auroc": Way(CURVE, jax_privacy("auc", True), "auc", "of the concave hull of the curve"),
        "attack_auroc, not bias-corrected": Way(CURVE, jax_privacy("auc", False), "auc"),
        "attack_auroc, accelerated": Way(CURVE, jax_privacy("auc", True, True), "auc"),
        "tpr_at_given_fpr": Way(TAIL, jax_privacy("tpr", True), "tpr", "of the concave hull of the curve"),
        "tpr_at_given_fpr, not bias-corrected": Way(TAIL, jax_privacy("tpr", False), "tpr"),
        "tpr_at_given_fpr, accelerated": Way(TAIL, jax_privacy("tpr", True, True), "tpr"),
    },
    "opake": {"attack_auc": Way(CURVE, opake, "auc")},
    "art": {"get_roc_for_fpr": Way("TPR at 1%, no resampling", art, "", "no interval")},
}

if __name__ == "__main__":
    measure.main(WAYS)
