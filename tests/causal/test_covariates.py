"""Covariates become numbers inside the training rows, one kind at a time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from miaudit import Evidence
from miaudit.causal import covariates, propensity
from miaudit.causal.covariates import Categories, Custom, Images, Numbers, Reduced, Text
from miaudit.errors import InputError


def evidence_of(x: np.ndarray | None, n: int = 0, text: list[str] | None = None, **fields: object) -> Evidence:
    n = n or len(x)
    return Evidence(score=np.arange(n), member=np.arange(n) % 2 == 0, covariates=x, text=text, **fields)


def encoded(encoding: covariates.Encoding, x: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
    table = covariates.table_of(evidence_of(x), encoding)
    return covariates.fit(encoding, table.take(rows), seed=0)(table)


def test_numbers_are_standardised_by_the_training_rows_alone() -> None:
    x = np.random.default_rng(0).normal(5, 3, size=(40, 2))
    train = x[:30]
    assert np.allclose(encoded(Numbers(), x, slice(30)), (x - train.mean(axis=0)) / train.std(axis=0))


def test_categories_become_one_column_for_each_level_and_unknown_levels_zeros() -> None:
    x = np.array([[0, 1.0, 9], [1, 2.0, 9], [1, 3.0, 8], [7, 4.0, 8]])
    found = encoded(Categories((0, 2)), x, slice(3))
    assert found[:, :2].tolist() == [[1, 0], [0, 1], [0, 1], [0, 0]]
    assert found.shape == (4, 2 + 2 + 1)
    assert np.isclose(found[:3, 4].mean(), 0)


def test_a_constant_category_is_dropped_and_the_others_keep_their_place() -> None:
    x = np.array([[4, 0, 1.0], [4, 1, 2.0], [4, 1, 3.5]])
    evidence = Evidence(score=[1, 2, 3], member=[1, 0, 1], covariates=x, covariate_names=["site", "kind", "age"])
    table = covariates.table_of(evidence, Categories((0, 1)))
    assert table.dropped == ("site",)
    assert table.names == ("kind", "age")
    found = covariates.fit(Categories((0, 1)), table, seed=0)(table)
    assert found[:, :2].tolist() == [[1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize(("encoding", "scaled"), [(Images(3), False), (Reduced(3), True)])
def test_components_agree_with_pca(encoding: covariates.Encoding, scaled: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 8)) * np.arange(1, 9)
    reference = PCA(3).fit_transform((x - x.mean(axis=0)) / (x.std(axis=0) if scaled else 1))
    reference /= reference.std(axis=0)
    found = encoded(encoding, x)
    assert np.allclose(np.abs(found), np.abs(reference))


def test_components_never_exceed_what_there_is() -> None:
    assert encoded(Images(50), np.random.default_rng(0).normal(size=(20, 4))).shape == (20, 4)


def test_text_separates_vocabularies_and_stands_beside_numbers() -> None:
    words = ["red green", "green red blue", "seven nine", "nine eight seven"] * 10
    table = covariates.table_of(evidence_of(None, 40, words), Text(2))
    found = covariates.fit(Text(2), table, seed=0)(table)
    assert found.shape == (40, 2)
    assert np.ptp(found[0::4], axis=0).max() < 1e-9
    assert np.linalg.norm(found[0] - found[1]) < np.linalg.norm(found[0] - found[2])
    x = np.random.default_rng(0).normal(size=(40, 3))
    both = covariates.table_of(evidence_of(x, text=words), Text(2))
    assert covariates.fit(Text(2), both, seed=0)(both).shape == (40, 5)


@pytest.mark.long
def test_text_alone_makes_a_propensity() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    words = [" ".join(rng.choice(["a1", "b1", "c1"], 6, p=[0.5, 0.3, 0.2] if m else [0.2, 0.3, 0.5])) for m in member]
    evidence = Evidence(score=rng.normal(size=400), member=member, text=words)
    found = propensity.fit(evidence, encoding=Text(2), rng=rng)
    assert found.values[member].mean() > found.values[~member].mean() + 0.2
    assert propensity.bootstrap(evidence, replicates=3, encoding=Text(2), rng=rng).shape == (3, 400)


def test_texts_are_read_by_default_in_one_component_for_a_hundred_rows() -> None:
    rng = np.random.default_rng(0)
    words = [" ".join(f"w{k}" for k in rng.integers(0, 30, 5)) for _ in range(1000)]
    evidence = evidence_of(None, 1000, words)
    assert covariates.default_of(evidence) == Text()
    assert covariates.default_of(evidence_of(np.eye(4))) == Numbers()
    table = covariates.table_of(evidence, Text())
    assert covariates.fit(Text(), table, seed=0)(table).shape == (1000, 10)
    assert propensity.rows_per_covariate(evidence) == 100
    assert propensity.fit(evidence, rng=rng).how.startswith("cross-fitted in 5 folds: TF-IDF of texts,")


def test_a_vocabulary_of_no_more_words_than_components_is_kept_as_it_is() -> None:
    words = ["red green", "green red blue", "blue", "green blue"] * 10
    table = covariates.table_of(evidence_of(None, 40, words), Text(3))
    terms = StandardScaler().fit_transform(TfidfVectorizer(sublinear_tf=True).fit_transform(words).toarray())
    assert np.allclose(covariates.fit(Text(3), table, seed=0)(table), terms)
    assert covariates.fit(Text(2), table, seed=0)(table).shape == (40, 2)


def test_categories_stand_beside_texts() -> None:
    x = np.c_[np.tile([0, 1, 2, 1], 10), np.random.default_rng(0).normal(size=40)]
    words = ["red green", "blue", "red", "green blue"] * 10
    table = covariates.table_of(evidence_of(x, text=words), Text(2, beside=Categories((0,))))
    assert covariates.fit(Text(2, beside=Categories((0,))), table, seed=0)(table).shape == (40, 2 + 3 + 1)


def test_balance_is_asked_of_columns_and_of_what_stands_for_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    words = ["red green", "blue", "red", "green blue"] * 10
    named = evidence_of(x, text=words, covariate_names=["a", "b", "c"])

    def asked(encoding: covariates.Encoding) -> tuple[str, ...]:
        return covariates.compared(named, encoding, seed=0).covariate_names

    assert asked(Numbers()) == ("a", "b", "c")
    assert asked(Reduced(2)) == ("component 1", "component 2")
    assert asked(Custom(lambda rows: rows[:, 0])) == ("feature 1",)
    assert asked(Text(2)) == ("text component 1", "text component 2", "a", "b", "c")
    assert asked(Text(1, beside=Reduced(1))) == ("text component 1", "component 1")
    same = covariates.compared(named, Text(2), seed=0).covariates
    assert same is not None
    assert np.array_equal(same[:, 2:], x)


def test_a_function_of_the_caller() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    found = encoded(Custom(lambda rows: rows[:, 0] ** 2), x)
    square = x[:, 0] ** 2
    assert np.allclose(found[:, 0], (square - square.mean()) / square.std())


@pytest.mark.parametrize(
    ("encoding", "x", "text", "argument"),
    [
        ("numbers", np.eye(4), None, "encoding"),
        (Images(0), np.eye(4), None, "components"),
        (Custom("f"), np.eye(4), None, "function"),  # type: ignore[arg-type]
        (Categories((4,)), np.eye(4), None, "columns"),
        (Categories((0,)), np.eye(4) / 2, None, "columns"),
        (Numbers(), None, None, "evidence.covariates"),
        (Numbers(), np.ones((4, 2)), None, "evidence.covariates"),
        (Text(), np.eye(4), None, "evidence.text"),
        (Text(0), None, ["a"] * 4, "components"),
        (Text(beside=Images(0)), None, ["a"] * 4, "components"),
        (Text(beside=Text()), None, ["a"] * 4, "beside"),
        (Text(beside=Categories((4,))), np.eye(4), ["a"] * 4, "columns"),
        (Numbers(), None, ["a"] * 4, "evidence.covariates"),
    ],
)
def test_refusals(encoding: object, x: np.ndarray | None, text: list[str] | None, argument: str) -> None:
    with pytest.raises(InputError) as caught:
        covariates.table_of(evidence_of(x, 4, text), encoding)
    assert caught.value.argument == argument


@pytest.mark.parametrize("function", [lambda x: x[:3], lambda x: x * np.inf, lambda x: x.sum()])
def test_a_function_that_returns_something_else_is_refused(function: object) -> None:
    with pytest.raises(InputError, match="function"):
        encoded(Custom(function), np.arange(1.0, 11).reshape(5, 2))  # type: ignore[arg-type]


def test_texts_without_words_are_refused() -> None:
    table = covariates.table_of(evidence_of(None, 4, ["", "!", "?", "."]), Text())
    with pytest.raises(InputError, match="words"):
        covariates.fit(Text(), table, seed=0)


def test_a_sample_is_seeded_keeps_units_whole_and_both_classes() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 400, 1000)
    member = code < 40  # one unit in ten
    rows = covariates.sampled(member, code, 300, np.random.default_rng(1))
    assert np.array_equal(rows, covariates.sampled(member, code, 300, np.random.default_rng(1)))
    assert not np.array_equal(rows, covariates.sampled(member, code, 300, np.random.default_rng(2)))
    assert np.array_equal(np.isin(code, code[rows]), np.isin(np.arange(1000), rows))  # no unit is divided
    assert 300 <= len(rows) < 310
    assert member[rows].sum() == member.sum()  # all of the rare class
    assert np.array_equal(covariates.sampled(member, code, 1000, rng), np.arange(1000))


def test_where_both_kinds_of_units_are_many_each_supplies_half_of_a_sample() -> None:
    member = np.arange(1000) % 2 == 0
    rows = covariates.sampled(member, np.arange(1000), 300, np.random.default_rng(0))
    assert (len(rows), member[rows].sum()) == (300, 150)
    rare = np.arange(1000) >= 40  # forty non-members: the members supply the rest
    rows = covariates.sampled(rare, np.arange(1000), 300, np.random.default_rng(0))
    assert (len(rows), rare[rows].sum()) == (300, 260)


def test_texts_without_columns_are_like_those_of_another_sample() -> None:
    words = ["red green", "blue", "red", "green blue"] * 5
    table = covariates.table_of(evidence_of(None, 20, words), Text(1))
    other = covariates.like(evidence_of(None, 4, words[:4]), Text(1), table)
    assert (other.numbers, other.columns, other.text.tolist()) == (None, (), words[:4])
    with pytest.raises(InputError, match="0 columns for 2"):
        covariates.like(evidence_of(np.eye(4)[:, :2], text=words[:4]), Text(1), table)


def test_records_of_units_are_as_independent_as_their_membership() -> None:
    rng = np.random.default_rng(0)
    unit, person = np.repeat(np.arange(1000), 4), rng.random(1000) < 0.4
    assert covariates.independent_share(person[unit], unit) == pytest.approx(0.25)
    assert covariates.independent_share(rng.random(4000) < 0.4, unit) > 0.9  # each record by itself
    assert covariates.independent_share(person, rng.permutation(1000)) == 1.0


@pytest.mark.parametrize("x", [None, np.zeros((40, 1))])
def test_texts_that_are_all_equal_are_no_covariate(x: np.ndarray | None) -> None:
    evidence = Evidence(score=np.arange(40.0), member=np.arange(40) % 2 == 0, text=["the same"] * 40, covariates=x)
    with pytest.raises(InputError, match="add covariates that vary"):
        covariates.table_of(evidence, Text())
