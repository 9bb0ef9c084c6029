"""The stacked propensity on shifts that are no line, by the audits of experiments/causal_mia; run with ``-s``.

Forty audits a world: where the truth is one half, at most 3 lower limits above it and 3 upper limits below (4% is asked
for; more than 3 of 40 has a probability of .02 there).
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from causal_mia import shift_worlds
from threadpoolctl import threadpool_limits

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2].parent / "shared" / "data"
AUDITS, N = 40, 2000
of_data = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}")]


def some(name: str, seeds: range) -> list[dict[str, Any]]:
    with threadpool_limits(1):
        return [shift_worlds.audit(name, N, seed, DATA) for seed in seeds]


def audited(pool: Executor, name: str) -> list[dict[str, Any]]:
    parts = [pool.submit(some, name, range(k, AUDITS, 4)) for k in range(4)]
    found = [row for part in parts for row in part.result()]
    print(f"\n{shift_worlds.in_words(name, found)}")
    return found


def of_answers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["status"] in shift_worlds.ANSWERED]


@pytest.mark.parametrize(
    "name",
    [
        "line",
        "product",
        "opposite correlations",
        "step",
        "log-normal",
        "t(2)",
        "30 sites as codes",
        "30 sites, declared",
        "20 weak covariates",
        "category x log-income",
        pytest.param("Adult, prime age", marks=of_data),
        pytest.param("ACS 2018 / 2019", marks=of_data),
    ],
)
def test_where_the_covariates_suffice_it_is_answered_and_right(pool: Executor, name: str) -> None:
    answers = of_answers(audited(pool, name))
    assert len(answers) >= 0.82 * AUDITS
    assert sum(row["low"] > 0.5 for row in answers) <= 3
    assert sum(row["high"] < 0.5 for row in answers) <= 3
    assert not any(row["status"] == "flagged" for row in answers)


@pytest.mark.parametrize("name", ["sign of three", pytest.param("SURF amazon / caltech10", marks=of_data)])
def test_what_cannot_be_learned_is_refused(pool: Executor, name: str) -> None:
    assert len(of_answers(audited(pool, name))) <= 0.1 * AUDITS


def test_a_leak_behind_an_opposite_shift_is_found_and_never_clear(pool: Executor) -> None:
    answers = of_answers(audited(pool, "hidden leak"))
    assert len(answers) >= 0.82 * AUDITS
    assert not any(row["status"] == "clear" for row in answers)
    assert sum(row["status"] == "flagged" for row in answers) >= 0.8 * len(answers)
