"""Zero-run audits: time of whole audits, and ratios against the plain loops that they replace.

``python benchmarks/zero_run.py [--quick] [--json FILE]``. The slow ways are a loop of scikit-learn propensities and the
plain Poisson-binomial recursion with a bisection for each replicate. They are sampled, a few fits and a few replicates,
and **extrapolated** to the whole; the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit import Bounds, Evidence, Plan, audit
from miaudit.causal import propensity
from miaudit.causal.propensity import Propensity
from miaudit.dp import zero_run
from miaudit.dp.selection import Bonferroni
from miaudit.dp.zero_run.independent_guesses import quantile_bound
from miaudit.metrics.trials import tail

FloatArray = NDArray[np.float64]
SIX = (1000, 500, 200, 100, 50, 25)


def evidence_of(n: int, d: int, seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    member = rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))
    return Evidence(score=1.5 * member + rng.normal(size=n), member=member, covariates=x, design="zero-run")


def wall(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spent(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall clock and process CPU of some work, in seconds."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - busy


def paper() -> tuple[tuple[float, float], FloatArray, Evidence]:
    """Learn propensities on a separate sample, 600 replicates, three bounds with the paper's six numbers of guesses."""
    audited, train = evidence_of(10_000, 50, 1), evidence_of(10_000, 50, 2)
    rng = np.random.default_rng(0)
    propensity.fit(evidence_of(100, 1, 0), rng=rng)  # scikit-learn is imported once in a process, and not timed
    kept: dict[str, Any] = {}

    six = Bonferroni(counts=SIX)

    def first() -> None:
        kept["estimate"] = estimate = propensity.fit(audited, train=train, rng=rng)
        kept["drawn"] = propensity.bootstrap(audited, train, 600, rng=rng)
        zero_run.epsilon_lower_bound(audited, estimate, guesses=six, replicates=kept["drawn"], rng=rng)

    def others() -> None:
        estimate = kept["estimate"]
        zero_run.mu_lower_bound(audited, estimate, guesses=six, replicates=kept["drawn"], rng=rng)
        zero_run.mu_lower_bound(
            audited, estimate, guesses=six, replicates=kept["drawn"], correction="conditional", rng=rng
        )

    (one, busy), (two, _) = spent(first), spent(others)
    return (one + two, busy), kept["drawn"], audited


def million() -> dict[str, float]:
    rng = np.random.default_rng(3)
    n = 1_000_000
    logit = rng.normal(size=n)
    pi = 1 / (1 + np.exp(-logit))
    member = rng.random(n) < pi
    ev = Evidence(score=member + rng.normal(size=n), member=member, covariates=logit, design="zero-run")
    known = Propensity.given(pi)
    return {
        "epsilon, Poisson-binomial, pilot": wall(lambda: zero_run.epsilon_lower_bound(ev, known, rng=rng)),
        "mu, thinning, pilot": wall(lambda: zero_run.mu_lower_bound(ev, known, rng=rng)),
        "epsilon, a guess at every record": wall(lambda: zero_run.epsilon_lower_bound(ev, known, guesses=n, rng=rng)),
    }


def stacked(n: int, d: int) -> tuple[float, float, float]:
    """Wall clock, CPU and peak memory (MB) of a whole audit with the stack, six numbers of guesses and all bounds."""
    work = f"import zero_run; print(*zero_run.spent(lambda: zero_run.audited({n}, {d})))"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    code = f"{work}; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    wall_clock, busy, peak = map(float, done.stdout.split())
    return wall_clock, busy, peak


def audited(n: int, d: int) -> None:
    """What :func:`stacked` measures, in a process of its own; imports count."""
    plan = Plan(estimator="aipw", propensity_model="stack", bounds=Bounds(guesses=Bonferroni(counts=SIX)))
    audit(evidence_of(n, d, 1), plan=plan, rng=np.random.default_rng(0))


def whole_audits(*, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for n, d, cpu, memory in ((10_000, 50, 8.0, 1000.0), (1_000_000, 20, 120.0, 4000.0))[: 1 if quick else 2]:
        clock, busy, peak = stacked(n, d)
        what = f"whole audit with the stack, {n:,} x {d}, six numbers of guesses, all bounds"
        rows += [row(what, clock, "s", 5.0 if n == 10_000 else None), row("  CPU", busy, "s", cpu)]
        rows += [row("  peak memory of the process", peak, "MB", memory)]
    return rows


def plain_tail(p: FloatArray, least: int) -> float:
    """The recursion over trials, vectorised over counts."""
    law = np.zeros(len(p) + 1)
    law[0] = 1
    for q in p:
        law[1:] = law[1:] * (1 - q) + law[:-1] * q
        law[0] *= 1 - q
    return float(law[least:].sum())


def plain_bound(toward: FloatArray, correct: int, level: float) -> float:
    low, high = 0.0, 16.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if plain_tail(1 / (1 + np.exp(-toward - middle)), correct) <= level:
            low = middle
        else:
            high = middle
    return low


def ratios(sampled: int) -> list[dict[str, Any]]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression

    (whole, busy), drawn, audited = paper()
    rows = [row("whole audit, 10,000 x 50, 600 replicates, six numbers of guesses, three bounds", whole, "s", 5.0)]
    train = evidence_of(10_000, 50, 2)

    def one_fit() -> None:
        model = CalibratedClassifierCV(LogisticRegression(max_iter=1000), cv=5)
        model.fit(train.covariates, train.member).predict_proba(audited.covariates)

    fits = 600 * spent(lambda: [one_fit() for _ in range(sampled)])[1] / sampled
    batched = spent(lambda: propensity.bootstrap(audited, train, 600, rng=np.random.default_rng(4)))[1]
    rows += [
        row(f"scikit-learn propensities in a loop, 600 (extrapolated from {sampled})", fits, "s", None),
        row("  loop / all replicates at once", fits / batched, "times", None),
    ]
    order = np.argsort(-np.abs(audited.score - np.median(audited.score)))[:1000]
    toward = np.where(audited.score > np.median(audited.score), 1, -1)[order] * np.log(drawn / (1 - drawn))[:, order]
    correct = 800
    fast = spent(lambda: quantile_bound(toward, correct, 0.025, 15))[1]
    slow = 600 * spent(lambda: [plain_bound(t, correct, 0.025) for t in toward[:sampled]])[1] / sampled

    def plainly(r: int) -> None:
        for t in toward[:sampled]:
            plain_bound(t[:r], round(0.8 * r), 0.025)

    loops = fits + sum(600 * spent(lambda r=r: plainly(r))[1] / sampled for r in SIX)
    rows += [
        row("quantile of 600 Poisson-binomial bounds, r = 1,000", fast, "s", None),
        row(f"plain recursion and bisection (extrapolated from {sampled})", slow, "s", None),
        row("  recursion / quantile", slow / fast, "times", None),
        row("propensities, replicates and the bound on pure epsilon, six numbers of guesses, CPU", busy, "s", None),
        row("  plain loops for the same: scikit-learn, then the recursion, CPU", loops, "s", None),
        row("  plain loops / ours, CPU", loops / busy, "times", 50.0),
    ]
    p = 1 / (1 + np.exp(-np.random.default_rng(5).normal(size=20_000)))
    least = int(p.sum()) + 100
    exact = wall(lambda: [tail(p, least) for _ in range(5)]) / 5
    plain = wall(lambda: plain_tail(p, least))
    rows += [
        row("one exact tail, 20,000 trials", exact, "s", None),
        row("  plain recursion / exact tail", plain / exact, "times", None),
    ]
    return rows + [row(f"1,000,000 records: {what}", value, "s", 60.0) for what, value in million().items()]


def row(what: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "target": target,
        "met": None if target is None else (value >= target if unit == "times" else value <= target),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each loop from two samples")
    parser.add_argument("--json", type=Path, help="write the table here too")
    options = parser.parse_args()
    rows = [*whole_audits(quick=options.quick), *ratios(2 if options.quick else 10)]
    for r in rows:
        side = "at least" if r["unit"] == "times" else "at most"
        target = "" if r["target"] is None else f"{side} {r['target']:g}  {'met' if r['met'] else 'MISSED'}"
        print(f"{r['what']:84s} {r['value']:10.4g} {r['unit']:6s} {target}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
