"""One-run bounds beside the plain loops: ``python benchmarks/one_run.py [--quick] [--json FILE]``.

Time is process CPU of one whole bound with its search, imports and remembered results excluded. The plain forms are
those of tests/dp/one_run_twins.py (no early stop, a sum over the whole mass function), with the same bisection. Where
``jax-privacy`` is installed, its auditor answers the same counts.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: one thread of linear algebra on either side

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from target_table import row, show, write

import miaudit as ma
from miaudit.dp import one_run, selection
from miaudit.dp.ranking import Ranking
from miaudit.dp.schedule import gaussian_accuracy
from miaudit.dp.selection import Hedged, Pilot
from miaudit.dp.tradeoff import Gaussian

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from dp import one_run_twins as twins
from dp import ranking_twins

M, LEVEL, DELTA = 10_000, 0.05, 1e-5


def cpu(call: Callable[[], Any], times: int) -> float:
    """CPU milliseconds of a call, the mean of so many."""
    call()
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times * 1e3


def forgetting(call: Callable[[], Any]) -> Callable[[], Any]:
    def fresh() -> Any:
        for remembered in (one_run._largest_mu, one_run._largest_epsilon, one_run._p_value_of_silence):
            remembered.cache_clear()
        return call()

    return fresh


def mu_bound(c: int, r: int, m: int) -> Callable[[], Any]:
    return forgetting(lambda: one_run.mu_lower_bound(correct=c, guesses=r, canaries=m).value)


def epsilon_bound(c: int, r: int, m: int) -> Callable[[], Any]:
    return forgetting(lambda: one_run.epsilon_lower_bound(correct=c, guesses=r, canaries=m, delta=DELTA).value)


def plain_mu(c: int, r: int, m: int) -> float:
    return twins.last_rejected(lambda mu: twins.f_dp_rejects(twins.quick_gaussian_inverse(mu), c, r, m, LEVEL))


def plain_epsilon(c: int, r: int, m: int) -> float:
    return twins.last_rejected(lambda e: twins.steinke_p_value(e, c, r, m, DELTA) <= LEVEL)


def ratios(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for r in (1_000,) if quick else (1_000, 9_950):
        c = round(r * gaussian_accuracy(1.0, r / M))
        for name, ours, plain, target in (
            ("f-DP", mu_bound(c, r, M), plain_mu, 3.0),
            ("Steinke, delta 1e-5", epsilon_bound(c, r, M), plain_epsilon, 5.0),
        ):
            fast, slow = cpu(ours, 20), cpu(lambda plain=plain, c=c, r=r: plain(c, r, M), 1)
            apart = abs(ours() - plain(c, r, M))
            rows += [
                row(f"{name}: r = {r:,}, c = {c:,}, m = 10,000", fast, "ms", target),
                row("  plain loop", slow, "ms", None),
                row("  plain loop / ours", slow / fast, "times", None),
                row("  difference of the bounds", apart, "", 1e-6),
            ]
    rows.append(
        row("f-DP: r = 9,950, c = 5,200 (near nothing), m = 10,000", cpu(mu_bound(5_200, 9_950, M), 20), "ms", 3.0)
    )
    rows.append(row("f-DP: r = 50,000, m = 1,000,000", cpu(mu_bound(30_000, 50_000, 10**6), 20), "ms", None))
    rows.append(row("Steinke: r = 50,000, m = 1,000,000", cpu(epsilon_bound(30_000, 50_000, 10**6), 20), "ms", None))
    rng = np.random.default_rng(0)
    member = rng.random(M) < 0.5
    evidence = ma.Evidence(score=rng.normal(member), member=member, design="one-run")
    call = forgetting(lambda: one_run.audit(evidence, guesses=Pilot(), rng=np.random.default_rng(1)))
    rows.append(row("audit with a pilot, 10,000 records", cpu(call, 5), "ms", None))
    call = forgetting(lambda: one_run.audit(evidence, guesses=Hedged(), rng=np.random.default_rng(1)))
    rows.append(row("audit by a hedged schedule, 10,000 records", cpu(call, 5), "ms", None))
    return rows + orders(100_000 if quick else 1_000_000) + against_jax_privacy()


def orders(n: int) -> list[dict[str, Any]]:
    """The four orders that a pilot chooses between, beside a sort for each."""
    score = np.random.default_rng(0).normal(size=n)

    def ours() -> list[Any]:
        ranking, rng = Ranking.of(score), np.random.default_rng(1)
        everybody = np.ones(n, dtype=np.bool_)
        return [
            selection.two_sided(ranking, everybody, one_run.mu_lower_bound, rng=rng).places,
            selection.by_turns(ranking, everybody, one_run.mu_lower_bound, rng=rng).places,
            selection.one_sided(ranking, everybody, one_run.mu_lower_bound, guess=True, rng=rng).places,
            selection.one_sided(ranking, everybody, one_run.mu_lower_bound, guess=False, rng=rng).places,
        ]

    def plain() -> list[Any]:
        rng = np.random.default_rng(1)
        each = (ranking_twins.two_sided, ranking_twins.by_turns, ranking_twins.members, ranking_twins.nonmembers)
        return [way(score, rng)[0] for way in each]

    fast, slow = cpu(ours, 3), cpu(plain, 1)
    apart = sum(int((one != other).sum()) for one, other in zip(ours(), plain(), strict=True))
    return [
        row(f"four orders of {n:,} scores from one sort", fast, "ms", None),
        row("  a sort for each, random numbers as the second key", slow, "ms", None),
        row("  a sort for each / one sort", slow / fast, "times", 3.0, at_least=True),
        row("  rows in other places", apart, "", 0.0),
    ]


def against_jax_privacy() -> list[dict[str, Any]]:
    """The public auditor on the same counts: members only, at one threshold fixed beforehand."""
    try:
        from jax_privacy import auditing
    except ImportError:
        print("jax-privacy is not installed: no comparison with it")
        return []
    r, c = 1_000, 800
    inside, outside = np.repeat([1.0, 0.0], [c, M // 2 - c]), np.repeat([1.0, 0.0], [r - c, M // 2 - r + c])
    auditor = auditing.CanaryScoreAuditor(inside, outside)
    at = auditing.Explicit(0.5)
    theirs = cpu(lambda: auditor.epsilon_one_run(LEVEL, DELTA, threshold_strategy=at), 3)
    apart = abs(auditor.epsilon_one_run(LEVEL, DELTA, threshold_strategy=at) - epsilon_bound(c, r, M)())
    fast = cpu(epsilon_bound(c, r, M), 20)
    fdp = cpu(lambda: auditor.epsilon_one_run_fdp(LEVEL, DELTA, threshold_strategy=at), 1)
    mu = mu_bound(c, r, M)
    as_epsilon = Gaussian(mu()).epsilon_at(DELTA)
    their_fdp = auditor.epsilon_one_run_fdp(LEVEL, DELTA, threshold_strategy=at)
    return [
        row("jax-privacy, epsilon_one_run: r = 1,000", theirs, "ms", None),
        row("  jax-privacy / ours", theirs / fast, "times", None),
        row("  difference of the bounds", apart, "", 1e-5),
        row("jax-privacy, epsilon_one_run_fdp: r = 1,000", fdp, "ms", None),
        row("  jax-privacy / ours", fdp / cpu(mu, 20), "times", None),
        row("  difference of the bounds, as epsilon", abs(their_fdp - as_epsilon), "", 1e-4),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smaller number of guesses only")
    parser.add_argument("--json", type=Path, help="write the table here too")
    options = parser.parse_args()
    rows = ratios(options.quick)
    show(rows)
    write(rows, options.json)


if __name__ == "__main__":
    main()
