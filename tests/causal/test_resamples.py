"""Resamples in blocks: the counts of whole arrays, drawn again where they are many, in memory that is bounded."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from miaudit import Evidence, Nuisance, Plan
from miaudit.auditing import zero_run
from miaudit.causal import crossfit, propensity, replicates, resamples
from miaudit.causal.covariates import resample
from miaudit.causal.resamples import Columns, Resamples
from miaudit.errors import InputError


def evidence_of(n: int, *, each: int = 1, d: int = 2) -> Evidence:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d))
    member = rng.random(n) < 1 / (1 + np.exp(-0.7 * x[:, 0]))
    unit = None if each == 1 else rng.integers(0, n // each, n)
    score = rng.normal(size=n) + 0.5 * member
    return Evidence(score=score, member=member, covariates=x, unit=unit, design="zero-run")


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in small blocks, and no counts kept."""
    monkeypatch.setattr(resamples, "_COUNTS", 0)
    monkeypatch.setattr(resamples, "_NUMBERS", 2_000)


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("strata", [None, 3])
def test_blocks_are_those_of_the_whole_array(lean: None, each: int, strata: int | None) -> None:
    evidence = evidence_of(200, each=each)
    given: dict[str, Any] = {"strata": None if strata is None else np.arange(200) // each % strata}
    if strata is not None and each > 1:
        given["strata"] = np.asarray(evidence.unit_codes) % strata  # folds hold whole units
    rng, again = np.random.default_rng(7), np.random.default_rng(7)
    whole, counts = resample(evidence, 23, **given, rng=rng), Resamples(evidence, 23, **given, rng=again)
    assert counts._kept is None
    assert len(counts) == 23
    for block in (slice(0, 5), slice(20, 23), slice(4, 6), slice(20, 99), slice(None), slice(7, 7)):
        np.testing.assert_array_equal(counts[block], whole[block])
    np.testing.assert_array_equal(np.asarray(counts), whole)
    assert (np.asarray(counts).dtype, np.asarray(counts, dtype=np.float32).dtype) == (whole.dtype, np.float32)
    rows = np.array([3, 1, 150])
    part = Columns(counts, slice(5, 30), rows)
    assert len(part) == 18
    np.testing.assert_array_equal(part[2:4], whole[7:9][:, rows])
    assert rng.bit_generator.state == again.bit_generator.state  # what is drawn afterwards is the same
    assert not np.array_equal(whole, Resamples(evidence, 23, **given, rng=again)[:])  # the control: another draw


def test_few_counts_are_kept_and_a_callers_are_checked() -> None:
    evidence = evidence_of(50)
    counts = Resamples(evidence, 9, rng=np.random.default_rng(0))
    assert counts._kept is not None
    np.testing.assert_array_equal(counts[2:4], resample(evidence, 9, rng=np.random.default_rng(0))[2:4])
    for bad in (np.ones((2, 49), int), np.ones((2, 50)), -np.ones((2, 50), int), np.ones(50, int)):
        with pytest.raises(InputError, match="counts"):
            resamples.of(evidence, 2, bad, strata=None, rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("how", ["learned", "classifier", "given"])
def test_limits_of_small_blocks_are_those_of_large_ones(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for last digits of linear algebra, which sums blocks of other shapes."""
    from sklearn.linear_model import LogisticRegression

    evidence, rng = evidence_of(400), np.random.default_rng
    nuisance = {
        "learned": Nuisance(),
        "classifier": Nuisance(classifier=LogisticRegression()),
        "given": Nuisance(propensity=propensity.Propensity.given(np.full(400, 0.5))),
    }[how]
    count = 120
    plan = Plan(n_bootstrap=count, fpr_targets=(0.1,), bounds=None, propensity_model="line")
    assessed = zero_run.assess(evidence, plan, nuisance, rng=rng(0))
    assert not isinstance(assessed, str)
    large = zero_run.bootstrapped(evidence, assessed, plan, 0.95)["score"]
    monkeypatch.setattr(resamples, "_COUNTS", 0)
    monkeypatch.setattr(resamples, "_NUMBERS", 2_000)
    sizes: list[int] = []
    estimates = replicates.estimates

    def spied(one: Evidence, odds: Any, times: Any, **options: Any) -> Any:
        sizes.append(len(times))
        return estimates(one, odds, times, **options)

    monkeypatch.setattr(replicates, "estimates", spied)
    small = zero_run.bootstrapped(evidence, assessed, plan, 0.95)["score"]
    for name, limits in large.items():
        assert small[name] == pytest.approx(limits, rel=1e-10)
    assert max(sizes) <= 5 and sum(sizes) == count


def test_differences_of_scores_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    one = evidence_of(300)
    other = one.replace(score=one.score + np.random.default_rng(3).normal(size=300))
    large = replicates.difference(one, other, replicates=120, rng=np.random.default_rng(0))
    monkeypatch.setattr(resamples, "_COUNTS", 0)
    monkeypatch.setattr(resamples, "_NUMBERS", 2_000)
    assert replicates.difference(one, other, replicates=120, rng=np.random.default_rng(0)) == large


@pytest.mark.long
@pytest.mark.parametrize("n", [2_000, 8_000])
def test_the_size_of_a_block_bounds_what_is_held(lean: None, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Bytes beside those of one replicate do not grow with the replicates, nor blocks of propensities with n."""
    monkeypatch.setattr(resamples, "_NUMBERS", 16_000)
    evidence = evidence_of(n)
    counts, blocks = crossfit.refits(evidence, None, 60, rng=np.random.default_rng(0))
    for block, values in blocks:
        assert values.size <= 16_000
        assert counts[block].shape == values.shape
    tracemalloc.start()
    try:
        drawn = Resamples(evidence, 400, rng=np.random.default_rng(0))
        for start in range(0, 400, resamples.together(n)):
            drawn[start : start + resamples.together(n)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 120 * n + 16_000 * 16 + 900_000  # rows of one replicate, a block, and the states of the generator
    assert 400 * n * 2 > 1_200_000 + 120 * n or n == 2_000  # the control: all counts would be more
