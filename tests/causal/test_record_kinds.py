"""Kinds of records: the division against a brute-force twin, its limits, and its words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miaudit.causal.record_kinds import FEWEST_OF_A_CLASS, Condition, Covariates, Kind, Labelled, divide


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of its own for each test."""
    return np.random.default_rng(3)


def _plain(name: str, level: float) -> str:
    return f"{level:g}"


def _labelled(effect: np.ndarray, rng: np.random.Generator, noise: float = 1.0) -> Labelled:
    member = rng.random(len(effect)) < 0.5
    return Labelled(noise * rng.standard_t(3, len(effect)) + effect * member, member, np.full(len(effect), 0.5))


def _explained(labelled: Labelled, parts: list[np.ndarray]) -> float:
    """What a division explains, part by part: the slow twin of the product of matrices."""
    sums = labelled.sums
    total = 0.0
    for rows in parts:
        product, square, inside, outside = sums[:, rows].sum(axis=1)
        if min(inside, outside) < FEWEST_OF_A_CLASS:
            return -np.inf
        total += product**2 / square
    return total


def test_brute_force(rng: np.random.Generator) -> None:
    """No division by one condition and one on each side explains more, beyond chance, than the chosen one."""
    x = rng.integers(0, 4, size=(900, 3)).astype(float)
    labelled = _labelled(0.8 * (x[:, 0] > 1) * (x[:, 2] < 2), rng)
    covariates = Covariates(x, ("a", "b", "c"))
    kinds = divide(covariates, labelled)
    by_chance = 2 * np.log(9) * (labelled.sums[0] ** 2).sum() / labelled.sums[1].sum()
    chosen = _explained(labelled, [kind.rows(covariates) for kind in kinds]) - (len(kinds) - 2) * by_chance
    halves = [x[:, i] <= cut for i, cut in itertools.product(range(3), range(3))]
    best = -np.inf
    for first in halves:
        sides = []
        for side in (first, ~first):
            options = [[side], *([side & second, side & ~second] for second in halves)]
            sides.append(max(_explained(labelled, option) - (len(option) - 1) * by_chance for option in options))
        best = max(best, sum(sides))
    assert chosen == pytest.approx(best, rel=1e-9)


def test_product(rng: np.random.Generator) -> None:
    """An effect that no single covariate shows is divided by both of its covariates."""
    x = rng.normal(size=(4000, 3))
    kinds = divide(Covariates(x, ("a", "b", "c")), _labelled(2.0 * (x[:, 0] * x[:, 1] > 0), rng))
    assert {one.covariate for kind in kinds for one in kind.conditions} == {"a", "b"}
    assert len(kinds) == 4
    assert kinds[1].predicted > 1.2 > 0.8 > kinds[2].predicted


def test_category(rng: np.random.Generator) -> None:
    """A declared category is divided by level: an order of its codes would not part the middle one alone."""
    x = rng.integers(0, 5, size=(4000, 1)).astype(float)
    labelled = _labelled(2.0 * (x[:, 0] == 2), rng)
    kinds = divide(Covariates(x, ("site",), frozenset([0])), labelled)
    assert kinds[0].in_words(_plain) == "site = 2"
    ordered = divide(Covariates(x, ("site",)), labelled)
    assert ordered[0].conditions[0].relation in ("above", "at most")


def test_few_of_a_class(rng: np.random.Generator) -> None:
    """No kind has fewer than 50 of a class, however large the effect in a small one; none is left where none may be."""
    x = rng.normal(size=(1000, 2))
    member = rng.random(1000) < 0.2
    outcome = rng.normal(size=1000) + 5.0 * member * (x[:, 0] > 2)
    covariates, labelled = Covariates(x, ("a", "b")), Labelled(outcome, member, np.full(1000, 0.2))
    for kind in divide(covariates, labelled):
        rows = kind.rows(covariates)
        assert min((rows & member).sum(), (rows & ~member).sum()) >= FEWEST_OF_A_CLASS
    few = Labelled(outcome[:300], member[:300], np.full(300, 0.2))
    assert [kind.conditions for kind in divide(Covariates(x[:300], ("a", "b")), few)] == [()]
    assert [kind.conditions for kind in divide(Covariates(np.ones((1000, 1)), ("a",)), labelled)] == [()]


def test_parts(rng: np.random.Generator) -> None:
    """The kinds divide all records: each is of exactly one."""
    x = rng.normal(size=(2000, 4))
    covariates = Covariates(x, ("a", "b", "c", "d"))
    kinds = divide(covariates, _labelled(x[:, 0], rng))
    assert np.array_equal(sum(kind.rows(covariates).astype(int) for kind in kinds), np.ones(2000))
    assert [kind.predicted for kind in kinds] == sorted((kind.predicted for kind in kinds), reverse=True)


def test_many_columns(rng: np.random.Generator) -> None:
    """More conditions than pairs are tried of are cut to the best ones, and the right one is among them."""
    x = rng.normal(size=(1200, 60))
    kinds = divide(Covariates(x, tuple(f"x{i}" for i in range(60))), _labelled(4.0 * (x[:, 41] > 0), rng, 0.5))
    assert kinds[0].conditions[0].covariate == "x41"


def test_words() -> None:
    """Conditions on one covariate that say the same twice are said once; levels and gaps have their names."""
    above = Condition("age", "above", 40.0), Condition("age", "above", 63.5)
    assert Kind(above, 0.0).in_words(_plain) == "age above 63.5"
    between = Condition("age", "above", 40.0), Condition("age", "at most", 63.0)
    assert Kind(between, 0.0).in_words(_plain) == "age above 40 and age at most 63"
    level = Condition("sex", "=", 1.0), Condition("sex", "other than", 0.0)
    assert Kind(level, 0.0).in_words(lambda name, level: "FM"[int(level)]) == "sex = M"
    missing = Condition("age missing", "=", 1.0)
    assert missing.in_words(_plain) == "age missing"
    assert missing.opposite.in_words(_plain) == "age not missing"


@pytest.mark.parametrize("relation", ["above", "at most", "=", "other than"])
def test_opposite(relation: str) -> None:
    """A condition and its opposite hold for each value exactly once."""
    condition = Condition("x", relation, 2.0)  # type: ignore[arg-type]
    values = np.array([1.0, 2.0, 3.0])
    assert (condition.holds(values) ^ condition.opposite.holds(values)).all()
    assert condition.opposite.opposite == condition
