"""Features of synthetic sets against plain loops, on every kind of column, with and without missing values."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack import closeness
from miaudit.synthesis.retraining_attack.features import (
    EXTRACTORS,
    MISSING,
    PARTS,
    Extractor,
    Layout,
    extract,
    fractional,
)
from miaudit.synthesis.retraining_attack.sets import compact
from miaudit.synthesis.schema import Column, Schema

MIXED = Schema(
    (
        Column("b", missing=True),
        Column("c", "categorical", categories=("x", "y", "z"), missing=True),
        Column("o", "ordinal", categories=(1, 2, 3, 4)),
        Column("g", "continuous", low=-2, high=3, missing=True),
    )
)


def mixed_sets(m: int = 30, s: int = 17, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sets = np.stack(
        [
            rng.integers(0, 2, (m, s)),
            rng.integers(0, 3, (m, s)),
            rng.integers(0, 4, (m, s)),
            np.clip(rng.normal(size=(m, s)), -2, 3),
        ],
        axis=2,
    ).astype(float)
    for place in (0, 1, 3):
        sets[..., place][rng.random((m, s)) < 0.2] = np.nan
    sets[0, :, 0] = np.nan
    sets[1, :, 2] = 2
    return sets


def feature_names(layout: Layout, extractor: Extractor) -> tuple[str, ...]:
    """Name the features of an extractor (but of nearness), in their order."""
    columns = layout.schema.columns
    if extractor == "ensemble":
        return tuple(name for part in PARTS for name in feature_names(layout, part))
    if extractor == "correlation":
        expanded = []
        for column in columns:
            indicators = [f"{column.name} is {category}" for category in column.categories[1:]]
            expanded += indicators if column.kind == "categorical" else [column.name]
        return tuple(f"{a} ~ {b}" for i, a in enumerate(expanded) for b in expanded[i + 1 :])
    found: list[str] = []
    for column in columns:
        if extractor == "histogram":
            levels = layout.bins if layout.numeric(column) else column.levels
            kind = "bin" if layout.numeric(column) else "category"
            found += [f"{column.name}: share of {kind} {level}" for level in range(levels)]
        elif column.kind == "categorical":
            found += [f"{column.name}: {what}" for what in ("categories", "most frequent", "least frequent")]
        else:
            found += [f"{column.name}: {what}" for what in ("mean", "median", "variance")]
        if column.missing:
            found.append(f"{column.name}: share missing")
    return tuple(found)


def test_features_have_names() -> None:
    layout = Layout(Schema((Column("a"), Column("b"))))
    assert feature_names(layout, "naive") == tuple(f"{c}: {n}" for c in "ab" for n in ("mean", "median", "variance"))
    assert feature_names(layout, "correlation") == ("a ~ b",)


def naive_loop(one: np.ndarray) -> list[float]:
    found: list[float] = []
    for column, values in zip(MIXED.columns, one.T, strict=True):
        known = [float(v) for v in values if not np.isnan(v)]
        if not known:
            found += [0, 0, 0]
        elif column.kind == "categorical":
            counts = {level: known.count(level) for level in range(column.levels)}
            present = [level for level, count in counts.items() if count]
            found += [len(present), max(counts, key=lambda k: counts[k]), min(present, key=lambda k: counts[k])]
        else:
            found += [statistics.fmean(known), statistics.median(known), statistics.pvariance(known)]
        if column.missing:
            found.append(1 - len(known) / len(values))
    return found


def histogram_loop(one: np.ndarray) -> list[float]:
    found: list[float] = []
    for column, values in zip(MIXED.columns, one.T, strict=True):
        known = values[~np.isnan(values)]
        if column.kind == "continuous":
            counts = np.histogram(known, bins=10, range=(column.low, column.high))[0].tolist()
        else:
            counts = [int((known == level).sum()) for level in range(column.levels)]
        found += [count / max(len(known), 1) for count in counts]
        if column.missing:
            found.append(1 - len(known) / len(values))
    return found


def correlation_loop(one: np.ndarray) -> list[float]:
    b, c, o, g = one.T
    columns = [b, np.where(np.isnan(c), np.nan, c == 1), np.where(np.isnan(c), np.nan, c == 2), o, g]
    found = []
    for i, x in enumerate(columns):
        for y in columns[i + 1 :]:
            both = ~np.isnan(x) & ~np.isnan(y)
            varies = both.any() and np.ptp(x[both]) > 0 and np.ptp(y[both]) > 0
            found.append(float(np.corrcoef(x[both], y[both])[0, 1]) if varies else 0.0)
    return found


@pytest.mark.parametrize(
    ("extractor", "loop"), [("naive", naive_loop), ("histogram", histogram_loop), ("correlation", correlation_loop)]
)
def test_mixed_columns_agree_with_a_loop(extractor, loop) -> None:
    sets = mixed_sets()
    found = extract(sets, MIXED, extractor)
    expected = np.array([loop(one) for one in sets])
    assert found.shape == expected.shape == (30, Layout(MIXED).width(extractor))
    assert len(feature_names(Layout(MIXED), extractor)) == found.shape[1]
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("extractor", ["naive", "histogram", "correlation"])
@pytest.mark.parametrize("size", [1, 2, 100, 300])  # 300 ones overflow a byte
def test_codes_in_bytes_say_the_same_as_numbers(extractor, size) -> None:
    rng = np.random.default_rng(1)
    schema = Schema(tuple(Column(f"c{i}", missing=i == 3) for i in range(5)))
    sets = (rng.random((40, size, 5)) < 0.7).astype(float)
    sets[..., 3][rng.random((40, size)) < 0.3] = np.nan
    small = compact(sets, schema)
    assert small.dtype == np.uint8
    assert small.max() == MISSING
    np.testing.assert_allclose(extract(small, schema, extractor), extract(sets, schema, extractor), atol=1e-5)


def test_the_histogram_keeps_the_order_of_categories() -> None:
    """Bins sorted by count (as one public extractor does) would make 70% ones and 30% ones look the same."""
    schema = Schema((Column("a"),))
    many, few = np.zeros((1, 10, 1)), np.zeros((1, 10, 1))
    many[0, :7], few[0, :3] = 1, 1
    assert not np.allclose(extract(many, schema, "histogram"), extract(few, schema, "histogram"))


def test_an_ensemble_is_all_of_them_and_constants_are_flagged() -> None:
    sets = mixed_sets()
    sets[:, :, 2] = 1
    parts = [extract(sets, MIXED, name) for name in ("naive", "histogram", "correlation")]
    joined = extract(sets, MIXED, "ensemble")
    np.testing.assert_array_equal(joined, np.concatenate(parts, axis=1))
    named = dict(zip(feature_names(Layout(MIXED), "ensemble"), np.ptp(joined, axis=0) == 0, strict=True))
    assert named["o: mean"] and named["o: variance"] and named["o: share of category 2"]
    assert named["b ~ o"]
    assert not named["b: mean"]
    assert len(feature_names(Layout(MIXED), "ensemble")) == joined.shape[1]


def test_released_probabilities_are_noticed_and_described() -> None:
    rng = np.random.default_rng(2)
    schema = Schema((Column("a"), Column("b")))
    sets = rng.random((20, 50, 2))
    sets[..., 1] = sets[..., 1] < 0.5
    assert fractional(sets, schema) == {"a"}
    assert compact(sets, schema).dtype == np.float32
    found = extract(sets, Layout(schema, frozenset({"a"})), "naive")
    np.testing.assert_allclose(found[:, 0], sets[..., 0].mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found[:, 1], np.median(sets[..., 0], axis=1), atol=1e-6)
    np.testing.assert_allclose(found[:, 2], sets[..., 0].var(axis=1), atol=1e-6)
    with pytest.raises(InputError, match="no order"):
        Layout(MIXED, frozenset({"c"}))


def test_values_beyond_a_range_count_at_its_ends() -> None:
    schema = Schema((Column("g", "continuous", low=0, high=1),))
    sets = np.array([[[-5.0], [0.5], [7.0], [1.0]]])
    assert extract(sets, schema, "histogram")[0].tolist() == [0.25, 0, 0, 0, 0, 0.25, 0, 0, 0, 0.5]


def test_nearness_agrees_with_a_loop() -> None:
    sets, record = mixed_sets(), np.array([1.0, np.nan, 2.0, 0.5])
    found = closeness.extract(sets, Layout(MIXED), record)
    assert found.shape == (30, 60)
    for one, row in zip(sets, found, strict=True):
        distances = []
        for values in one:
            gaps = []
            for column, x, t in zip(MIXED.columns, values, record, strict=True):
                if np.isnan(x) or np.isnan(t):
                    gaps.append(float(np.isnan(x) != np.isnan(t)))
                    continue
                width = {"ordinal": 3, "continuous": 5}.get(column.kind)
                gaps.append(float(x != t) if width is None else abs(x - t) / width)
            distances.append(float(np.mean(gaps)))
        distances.sort()
        np.testing.assert_allclose(row[:6], [*(distances[i] for i in (0, 1, 2, 4, 9)), np.mean(distances)], atol=1e-6)
        np.testing.assert_allclose(
            row[6:12], [np.mean(np.array(distances) <= x) for x in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)], atol=1e-6
        )


def test_incomplete_strangers_are_not_as_near_as_a_copy() -> None:
    schema = Schema((Column("a"), Column("b", "continuous", low=0, high=10, missing=True)))
    record, stranger = np.array([1.0, 3.0]), np.array([1.0, np.nan])
    sets = np.stack([np.tile(record, (4, 1)), np.tile(stranger, (4, 1))])
    near = closeness.extract(sets, Layout(schema), record)[:, 0]
    assert near.tolist() == [0.0, 0.5]
    assert closeness.extract(sets, Layout(schema), stranger)[:, 0].tolist() == [0.5, 0.0]


def test_a_copy_of_the_record_agrees_on_every_part() -> None:
    schema = Schema(tuple(Column(f"c{i}") for i in range(9)))
    record = np.array([1.0, 0, 1, 1, 0, 1, 0, 0, 1])
    sets = np.stack([np.tile(record, (4, 1)), np.tile(1 - record, (4, 1))])
    parts = closeness.extract(sets, Layout(schema), record)[:, 12:]
    assert (parts[0] == 1).all()
    assert (parts[1] == 0).all()


@pytest.mark.parametrize(
    ("sets", "extractor", "message"),
    [
        (np.zeros((2, 3, 2)), "naive", r"sets: expected shape \(m, s, 4\)"),
        (np.zeros((2, 0, 4)), "naive", "at least one record"),
        (np.zeros((2, 3, 4)), "histgram", "did you mean histogram"),
        (np.zeros((2, 3, 4)), "nearness", "closeness.extract"),
    ],
)
def test_bad_input(sets, extractor, message) -> None:
    with pytest.raises(InputError, match=message):
        extract(sets, MIXED, extractor)
    assert "nearness" in EXTRACTORS


def test_no_sets_are_no_features() -> None:
    assert extract(np.zeros((0, 3, 4)), MIXED, "naive").shape == (0, Layout(MIXED).width("naive"))
