"""Multi-run evidence against ridge regression: one fit and rank-one updates beside one fit for each record.

``python benchmarks/ridge.py`` times 400 models, d = 2,500, n = 2,000, against a sample of refits, whose time is scaled
to 400; ``--all`` refits all 400. Time is process CPU during the call, one thread of linear algebra.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge as Usual

from miaudit.collect import ridge

N, D, MODELS, PENALTY = 2000, 2500, 400, 1e4


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def refit_scores(a: np.ndarray, y: np.ndarray, member: np.ndarray, records: range, usual: bool) -> np.ndarray:
    """One fit for each record, on the base rows and, for a member, that record."""
    base, scores = np.arange(MODELS, MODELS + N), []
    for i in records:
        rows = np.append(base, i) if member[i] else base
        if usual:
            w = Usual(alpha=PENALTY, fit_intercept=False, solver="cholesky").fit(a[rows], y[rows]).coef_
        else:
            w = ridge.Ridge.fit(a[rows], y[rows], penalty=PENALTY).coefficients
        scores.append(-((y[i] - a[i] @ w) ** 2) / 2)
    return np.array(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="refit for every record, not for a sample of eight")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    a = rng.standard_normal((MODELS + N, D))
    y = a @ rng.standard_normal(D) + rng.standard_normal(len(a))
    base = np.arange(MODELS, len(a))

    def closed() -> Any:
        return ridge.multi_run(a, y, records=MODELS, base=base, penalty=PENALTY, rng=np.random.default_rng(1))

    closed()
    ours, evidence = cpu(closed)
    sample = range(MODELS if options.all else 8)
    print(f"multi-run of {MODELS} models, n = {N:,}, d = {D:,}, one fit and rank-one updates: {ours:.2f} CPU s")
    for usual, name in ((True, "scikit-learn's Ridge, Cholesky"), (False, "miaudit's own fit")):
        seconds, scores = cpu(lambda usual=usual: refit_scores(a, y, evidence.member, sample, usual))
        total = seconds / len(sample) * MODELS
        gap = np.abs(scores - evidence.score[: len(sample)]).max() / np.abs(scores).max()
        how = "measured" if options.all else f"from {len(sample)} fits"
        print(
            f"{MODELS} fits by {name}: {total:.0f} CPU s ({how}); ratio {total / ours:.0f} times "
            f"(target: at least 30); largest relative difference of scores {gap:.1e} (target: at most 1e-8)"
        )


if __name__ == "__main__":
    main()
