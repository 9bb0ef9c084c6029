"""Features and likelihood: against laws written out by scipy, totals of one, and draws that follow the same laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

torch = pytest.importorskip("torch")

from miaudit.synthesis.generators.likelihood import LEAST_SCALE, Encoding  # noqa: E402
from miaudit.synthesis.schema import Column, Schema  # noqa: E402

MIXED = Schema(
    (
        Column("c", "continuous", low=-10, high=30, missing=True),
        Column("b", missing=True),
        Column("k", "categorical", categories=("x", "y", "z"), missing=True),
        Column("b2"),
        Column("o", "ordinal", categories=(1, 2, 3, 4), missing=True),
        Column("c2", "continuous", low=0, high=1),
        Column("k2", "categorical", categories=("u", "v")),
    )
)


def log_law(column: Column, own: np.ndarray, value: float) -> float:
    """The log-probability (density on [-1, 1]) of one value, written out without the code under test."""
    if np.isnan(value):
        return 0.0
    if column.kind == "continuous":
        unit = 2 * (value - column.low) / (column.high - column.low) - 1
        law = stats.norm(own[0], np.log1p(np.exp(own[1])) + LEAST_SCALE)
        return law.logcdf(-1) if unit <= -1 else law.logsf(1) if unit >= 1 else law.logpdf(unit)
    if column.kind == "categorical":
        return float(np.log(special.softmax(own)[int(value)]))
    above = special.expit(own)  # P(more than j | at least j)
    stays = np.append(1 - above, 1.0)
    return float(np.log(np.prod(above[: int(value)]) * stays[int(value)]))


def records(n: int, rng: np.random.Generator) -> np.ndarray:
    columns = []
    for column in MIXED.columns:
        drawn = (
            rng.uniform(column.low, column.high, n)
            if column.kind == "continuous"
            else rng.integers(0, column.levels, n)
        )
        if column.kind == "continuous":
            drawn[::5], drawn[1::5] = column.low, column.high
        columns.append(np.where(column.missing & (rng.random(n) < 0.3), np.nan, drawn))
    return np.column_stack(columns)


@pytest.mark.parametrize("draws_missing", [False, True])
def test_the_likelihood_is_the_product_of_the_columns_laws(draws_missing: bool) -> None:
    rng = np.random.default_rng(1)
    encoding = Encoding(MIXED, draws_missing)
    values = records(60, rng)
    outputs = rng.normal(0, 1.5, (60, encoding.outputs))
    found = encoding.log_likelihood(torch.from_numpy(outputs), torch.from_numpy(encoding.encode(values)).double())
    for row in range(60):
        expected = 0.0
        for i, column in enumerate(MIXED.columns):
            positions = encoding.outputs_of([i])
            if draws_missing and column.missing:
                present = special.expit(outputs[row, positions.pop()])
                expected += np.log(1 - present if np.isnan(values[row, i]) else present)
            expected += log_law(column, outputs[row, positions], values[row, i])
        # values of continuous columns are read in float32
        assert float(found[row]) == pytest.approx(expected, rel=1e-5)


def test_positions_cover_features_and_outputs_once() -> None:
    for draws_missing in (False, True):
        encoding = Encoding(MIXED, draws_missing)
        assert sorted(encoding.features_of(range(7))) == list(range(encoding.features))
        assert sorted(encoding.outputs_of(range(7))) == list(range(encoding.outputs))


def test_features_of_some_columns_add_up_to_all() -> None:
    values = records(20, np.random.default_rng(2))
    encoding = Encoding(MIXED)
    parts = encoding.encode(values, columns=[0, 3, 4]) + encoding.encode(values, columns=[1, 2, 5, 6])
    np.testing.assert_array_equal(parts, encoding.encode(values))


def test_a_missing_value_reads_as_zeros_and_has_no_slope() -> None:
    encoding = Encoding(MIXED)
    values = np.full((1, 7), np.nan)
    values[0, [3, 5, 6]] = [1, 0.5, 0]
    features = encoding.encode(values)
    assert not features[0, encoding.features_of([0, 1, 2, 4])].any()
    outputs = torch.randn(1, encoding.outputs, generator=torch.Generator().manual_seed(0)).requires_grad_()
    encoding.log_likelihood(outputs, torch.from_numpy(features)).sum().backward()
    assert not outputs.grad[0, encoding.outputs_of([0, 1, 2, 4])].any()
    assert outputs.grad[0, encoding.outputs_of([3, 5, 6])].all()


def test_extreme_outputs_have_finite_likelihood_and_slopes() -> None:
    encoding = Encoding(MIXED)
    features = torch.from_numpy(encoding.encode(records(40, np.random.default_rng(3))))
    for size in (-200.0, 200.0):
        outputs = torch.full((40, encoding.outputs), size).requires_grad_()
        total = encoding.log_likelihood(outputs, features)
        total.sum().backward()
        assert total.isfinite().all() and outputs.grad.isfinite().all()


def test_draws_follow_the_law() -> None:
    rng = np.random.default_rng(4)
    encoding = Encoding(MIXED)
    outputs = rng.normal(0, 1, encoding.outputs)
    n = 40_000
    drawn = encoding.draw(np.tile(outputs, (n, 1)), range(7), rng=rng)
    for i, column in enumerate(MIXED.columns):
        own = outputs[encoding.outputs_of([i])]
        if column.kind == "continuous":
            assert (drawn[:, i] >= column.low).all() and (drawn[:, i] <= column.high).all()
            for end in (column.low, column.high):
                expected = np.exp(log_law(column, own, end))
                assert abs((drawn[:, i] == end).mean() - expected) < 4 * np.sqrt(expected / n)
            inside = drawn[(drawn[:, i] > column.low) & (drawn[:, i] < column.high), i]
            unit = 2 * (inside - column.low) / (column.high - column.low) - 1
            scale = np.log1p(np.exp(own[1])) + LEAST_SCALE
            law = stats.truncnorm((-1 - own[0]) / scale, (1 - own[0]) / scale, own[0], scale)
            assert stats.kstest(unit, law.cdf).pvalue > 1e-3
            # control: twice the scale is rejected
            wrong = stats.truncnorm((-1 - own[0]) / (2 * scale), (1 - own[0]) / (2 * scale), own[0], 2 * scale)
            assert stats.kstest(unit, wrong.cdf).pvalue < 1e-6
        else:
            expected = np.exp([log_law(column, own, level) for level in range(column.levels)])
            assert expected.sum() == pytest.approx(1)
            counts = np.bincount(drawn[:, i].astype(int), minlength=column.levels)
            assert stats.chisquare(counts, expected * n).pvalue > 1e-3
            assert stats.chisquare(counts, np.full(column.levels, n / column.levels)).pvalue < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("schema", [MIXED, Schema((Column("a"), Column("b")))])
@pytest.mark.parametrize("draws_missing", [False, True])
def test_slopes_are_those_of_autograd(schema: Schema, draws_missing: bool) -> None:
    rng = np.random.default_rng(6)
    encoding = Encoding(schema, draws_missing)
    values = records(30, rng) if schema is MIXED else rng.integers(0, 2, (30, 2)).astype(float)
    features = torch.from_numpy(encoding.encode(values)).double()
    outputs = torch.from_numpy(rng.normal(0, 2, (30, encoding.outputs))).requires_grad_()
    (expected,) = torch.autograd.grad(-encoding.log_likelihood(outputs, features).sum(), [outputs])
    torch.testing.assert_close(encoding.slopes(outputs.detach(), features), expected)


def test_missing_values_are_drawn_where_they_are_modelled() -> None:
    rng = np.random.default_rng(5)
    encoding = Encoding(MIXED, draws_missing=True)
    outputs = np.zeros((20_000, encoding.outputs))
    present = encoding.outputs_of([2])[-1]
    outputs[:, present] = special.logit(0.7)
    drawn = encoding.draw(outputs, range(7), rng=rng)
    assert np.isnan(drawn[:, 2]).mean() == pytest.approx(0.3, abs=0.015)
    assert not np.isnan(drawn[:, [3, 5, 6]]).any()
    assert not np.isnan(Encoding(MIXED).draw(np.zeros((50, encoding.outputs)), range(7), rng=rng)).any()
