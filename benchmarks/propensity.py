"""Propensities beside the straightforward way: ``python benchmarks/propensity.py [--quick] [--json FILE]``.

Time is process CPU during the call, imports excluded, one thread of linear algebra on either side. The loops run a few
times and are scaled to 600; each resamples rows, fits, and predicts the other sample.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from target_table import row, show, write

import miaudit as ma
from miaudit.causal import propensity

REPLICATES = 600


def evidence_of(n: int, d: int, seed: int) -> ma.Evidence:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    member = rng.random(n) < 1 / (1 + np.exp(-x @ np.full(d, 0.7 / np.sqrt(d))))
    return ma.Evidence(score=rng.normal(size=n), member=member, covariates=x, design="zero-run")


def cpu(call: Callable[[], Any]) -> float:
    """CPU seconds of the second call; the first one loads what is loaded when used."""
    call()
    start = time.process_time()
    call()
    return time.process_time() - start


def loop(make: Callable[[], Any], train: ma.Evidence, audited: ma.Evidence, count: int) -> float:
    """CPU seconds of 600 fits on resampled rows, from ``count`` of them."""
    rng = np.random.default_rng(0)
    x, target, member = np.array(train.covariates), np.array(audited.covariates), np.array(train.member)
    start = time.process_time()
    for _ in range(count):
        rows = rng.integers(0, len(x), len(x))
        make().fit(x[rows], member[rows]).predict_proba(target)
    return (time.process_time() - start) * REPLICATES / count


def plain() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


def chosen() -> Any:
    return make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(cv=5, scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False),
    )


def ratios(count: int) -> list[dict[str, Any]]:
    train, audited = evidence_of(10_000, 50, 1), evidence_of(10_000, 50, 2)
    whole = cpu(lambda: propensity.bootstrap(audited, train, REPLICATES, rng=np.random.default_rng(0)))
    crossed = cpu(lambda: propensity.bootstrap(audited, None, REPLICATES, rng=np.random.default_rng(0)))
    full = loop(lambda: CalibratedClassifierCV(chosen(), cv=5), train, audited, count)
    strength = loop(chosen, train, audited, count)
    calibrated = loop(lambda: CalibratedClassifierCV(plain(), cv=5), train, audited, 5 * count)
    simple = loop(plain, train, audited, 10 * count)
    small = evidence_of(4_000, 20, 3)
    fitted = cpu(lambda: propensity.fit(small, rng=np.random.default_rng(0)))
    curve = cpu(lambda: propensity.learning_curve(small, rng=np.random.default_rng(0)))
    return [
        row("600 replicates, 10,000 x 50, evaluated on 10,000 others", whole, "CPU s", 3.0),
        row("600 replicates, 10,000 x 50, cross-fitted in 5 folds", crossed, "CPU s", None),
        row("scikit-learn: the default pipeline (strength, Platt)", full, "CPU s", None),
        row("  loop / 600 replicates", full / whole, "times", 50.0, at_least=True),
        row("scikit-learn: strength by cross-validation, no Platt", strength, "CPU s", None),
        row("  loop / 600 replicates", strength / whole, "times", 50.0, at_least=True),
        row("scikit-learn: one strength, Platt", calibrated, "CPU s", None),
        row("  loop / 600 replicates", calibrated / whole, "times", None),
        row("scikit-learn: one strength, no Platt", simple, "CPU s", None),
        row("  loop / 600 replicates", simple / whole, "times", None),
        row("fit, 4,000 x 20, cross-fitted in 5 folds", fitted, "CPU s", 1.0),
        row("learning curve, 4,000 x 20", curve, "CPU s", None),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each loop from one fit")
    parser.add_argument("--json", type=Path, help="write the table here too")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)
    rows = ratios(1 if options.quick else 10)
    show(rows)
    write(rows, options.json)


if __name__ == "__main__":
    main()
