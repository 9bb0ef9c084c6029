"""Scores of records from shadow models: n records by M models, half of the models trained on each record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import numpy as np
from measure import Way, Ways


@dataclass(frozen=True)
class Shadow:
    """Statistics of the target model (n,) and of the shadow models (n, M), and who learned what (n, M)."""

    target: Any
    shadow: Any
    included: Any
    columns: tuple[Any, Any]  # the same as lists of an (m, 1) array for each record: the form TensorFlow Privacy takes
    out: Any  # (n, M / 2): the models that did not learn the record, the form Privacy Meter takes


def rows_of(folder: Path) -> list[Shadow]:
    with np.load(folder / "shadow.npz") as held:
        target, shadow, included = held["target"], held["shadow"], held["included"]
    inside = [row[chosen][:, None] for row, chosen in zip(shadow, included, strict=True)]
    outside = [row[~chosen][:, None] for row, chosen in zip(shadow, included, strict=True)]
    out = np.array(outside)[:, :, 0]
    return [Shadow(target, shadow, included, (inside, outside), out)] * 4


def ours_online() -> Any:
    from miaudit.attacks import lira

    return lambda given: lira.online(given.target, given.shadow, given.included)


def ours_global() -> Any:
    from miaudit.attacks import lira

    return lambda given: lira.online(given.target, given.shadow, given.included, variance="global")


def ours_offline() -> Any:
    from miaudit.attacks import lira

    return lambda given: lira.offline(given.target, given.shadow, given.included)


def tensorflow(option: str, fixed: bool, average: str) -> Any:
    def load() -> Any:
        from tensorflow_privacy.privacy.privacy_tests.membership_inference_attack import advanced_mia

        def call(given: Shadow) -> Any:
            inside, outside = given.columns
            target = given.target[:, None]
            return -advanced_mia.compute_score_lira(target, inside, outside, option, fixed, average)

        return call

    return load


def privacy_meter() -> Any:
    from privacy_meter.hypothesis_test import gaussian_threshold_func

    levels = np.array([0.01])

    def call(given: Shadow) -> Any:
        return given.target - gaussian_threshold_func(given.out, levels)[0]

    return call


WAYS: Ways = {
    "miaudit": {
        "online": Way("LiRA, own variances", ours_online),
        "online, global variance": Way("LiRA, one variance", ours_global),
        "offline": Way("LiRA, offline", ours_offline),
    },
    "tensorflow-privacy": {
        "compute_score_lira, mean": Way("LiRA, own variances", tensorflow("both", False, "mean")),
        "compute_score_lira, median": Way("LiRA, own variances", tensorflow("both", False, "median")),
        "compute_score_lira, mean, fix_variance": Way("LiRA, one variance", tensorflow("both", True, "mean")),
        "compute_score_lira, out only": Way(
            "LiRA, offline", tensorflow("out", False, "mean"), note="density, not tail: another order of records"
        ),
    },
    "privacy-meter": {
        "gaussian_threshold_func": Way("LiRA, offline", privacy_meter, note="decisions at one FPR, no scores"),
    },
}

if __name__ == "__main__":
    measure.main(WAYS, rows_of)
