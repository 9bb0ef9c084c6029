"""The stacked propensity on shifts that are no line, by the audits of experiments/causal_mia; run with ``-s``.

Where the truth is one half, at most 4% of lower limits are above it, and at most 4% of upper limits below. An audit
takes seconds, so that 12% has to be noticed, and not 8%.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal_mia import shift_worlds
from threadpoolctl import threadpool_limits

from validity.claims import Claims
from validity.sequential import SequentialTest

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2].parent / "shared" / "data"
AUDITS, N = 40, 2000
SIDE, FLAGGED, FEW_ANSWERS = SequentialTest(0.04, 0.12), SequentialTest(0.025, 0.1), SequentialTest(0.12, 0.3)
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


def one(name: str, rng: np.random.Generator) -> dict[str, bool | None]:
    """What one audit gets wrong where the truth is one half; limits are None where there is no answer."""
    with threadpool_limits(1):
        row = shift_worlds.audit(name, N, int(rng.integers(2**32)), DATA)
    answered = row["status"] in shift_worlds.ANSWERED
    low, high = (row["low"], row["high"]) if answered else (None, None)
    return {
        "no answer": not answered,
        "low > truth": low > 0.5 if answered else None,
        "high < truth": high < 0.5 if answered else None,
        "flagged": row["status"] == "flagged" if answered else None,
        "clear": row["status"] == "clear" if answered else None,
    }


@pytest.mark.validity
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
def test_where_the_covariates_suffice_it_is_answered_and_right(claim: Claims, name: str) -> None:
    """The control: a leak behind an opposite shift, which is flagged."""
    holds = {"no answer": FEW_ANSWERS, "low > truth": SIDE, "high < truth": SIDE, "flagged": FLAGGED}
    claim(lambda rng: one(name, rng), holds=holds)
    claim(lambda rng: one("hidden leak", rng), fails={"flagged": FLAGGED, "low > truth": SIDE})


@pytest.mark.parametrize("name", ["sign of three", pytest.param("SURF amazon / caltech10", marks=of_data)])
def test_what_cannot_be_learned_is_refused(pool: Executor, name: str) -> None:
    assert len(of_answers(audited(pool, name))) <= 0.1 * AUDITS


@pytest.mark.validity
def test_a_leak_behind_an_opposite_shift_is_found_and_never_clear(claim: Claims) -> None:
    """The control: where nothing leaks most audits are clear."""
    claim(
        lambda rng: one("hidden leak", rng), holds={"no answer": FEW_ANSWERS, "clear": FLAGGED}, fails={"flagged": 0.4}
    )
    claim(lambda rng: one("line", rng), fails={"clear": FLAGGED})
