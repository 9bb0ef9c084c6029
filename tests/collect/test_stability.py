"""Replace-one stability: closed forms, controls at both ends, nesting, and what is refused."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest

from miaudit.collect import stability
from miaudit.collect.ridge import Ridge
from miaudit.collect.stability import Stability
from miaudit.errors import InputError

N, FRESH, TEST = 40, np.arange(40, 70), np.arange(70, 130)
PENALTY = 3.0


def world(d: int = 6):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(130, d))
    return a, a @ rng.normal(size=d) + rng.normal(size=130)


def estimate(fit, score, *, records=N, replacements=FRESH, test=TEST, pairs=10, seed=0):
    return stability.estimate(
        fit,
        score,
        records=records,
        replacements=replacements,
        test=test,
        pairs=pairs,
        rng=np.random.default_rng(seed),
    )


def of_ridge(a, y, kind: str, **options) -> Stability:
    def score(model, rows):
        residual = model.residual(a[rows], y[rows])
        return residual**2 if kind == "loss" else -np.abs(residual)

    return estimate(lambda rows: Ridge.fit(a[rows], y[rows], penalty=PENALTY), score, **options)


def replace_one(a, y, train, i, j, at):
    """Predictions at rows before and after i gives way to j: a rank-two update of the inverse (Woodbury)."""
    inverse = np.linalg.inv(a[train].T @ a[train] + PENALTY * np.eye(a.shape[1]))
    w = inverse @ a[train].T @ y[train]
    u = np.column_stack([a[j], a[i]])
    signs = np.diag([1.0, -1.0])
    inner = np.linalg.inv(signs + u.T @ inverse @ u)
    new_inverse = inverse - inverse @ u @ inner @ u.T @ inverse
    moved = new_inverse @ (a[train].T @ y[train] + y[j] * a[j] - y[i] * a[i])
    return a[at] @ w, a[at] @ moved


@pytest.mark.parametrize("kind", ["loss", "score"])
@pytest.mark.parametrize("d", [6, 80])
@pytest.mark.parametrize("records", [N, np.arange(N)[::-1]])
def test_ridge_equals_its_closed_form(kind: str, d: int, records) -> None:
    a, y = world(d)
    train = np.arange(N) if isinstance(records, int) else records
    found = of_ridge(a, y, kind, records=records)
    rng = np.random.default_rng(0)
    places, fresh = rng.permutation(N), rng.permutation(FRESH)
    alphas, betas = [], []
    for place, j in zip(places[:10], fresh[:10], strict=True):
        others = np.array([k for k in train if k != train[place]])
        change = {}
        for name, at in (("test", TEST), ("others", others)):
            before, after = (y[at] - p for p in replace_one(a, y, train, train[place], j, at))
            change[name] = after**2 - before**2 if kind == "loss" else np.abs(before) - np.abs(after)
        alphas.append(abs(change["test"].mean()))
        betas.append(np.abs(change["others"]).max())
    np.testing.assert_allclose(found.alphas, alphas, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.betas, betas, rtol=0, atol=1e-8)
    assert min(betas) > 1e-4
    assert (found.alpha, found.beta, found.pairs) == (max(found.alphas), max(found.betas), 10)


def test_more_pairs_extend_fewer_and_only_grow() -> None:
    a, y = world()
    results = [of_ridge(a, y, "loss", pairs=pairs) for pairs in (1, 3, 10, 30)]
    for few, many in pairwise(results):
        assert many.alphas[: few.pairs] == few.alphas
        assert many.betas[: few.pairs] == few.betas
        assert few.alpha == max(many.alphas[: few.pairs]) <= many.alpha
        assert few.beta == max(many.betas[: few.pairs]) <= many.beta
    assert len(set(results[-1].alphas)) == len(set(results[-1].betas)) == 30
    assert of_ridge(a, y, "loss", seed=1).alphas != results[2].alphas


def test_a_constant_trainer_does_not_move() -> None:
    a, _ = world()
    found = estimate(lambda rows: np.ones(6), lambda model, rows: a[rows] @ model)
    assert (found.alpha, found.beta) == (0.0, 0.0)
    assert set(found.alphas) | set(found.betas) == {0.0}


def test_the_replaced_record_itself_does_not_count() -> None:
    """A lookup table moves at the replaced record by 1, at no other: beta is 0 by its definition, and so is alpha."""
    found = estimate(set, lambda table, rows: [float(row in table) for row in rows])
    assert (found.alpha, found.beta) == (0.0, 0.0)


def test_a_trainer_that_depends_on_one_record_moves_when_that_one_is_replaced() -> None:
    """The model is the label of the first row, so that only its replacement by another label moves the losses."""
    labels = np.random.default_rng(2).integers(0, 2, 130).astype(float)
    found = estimate(lambda rows: labels[rows[0]], lambda label, rows: np.abs(labels[rows] - label), pairs=30)
    first = int(np.flatnonzero(np.random.default_rng(0).permutation(N)[:30] == 0)[0])
    fresh = np.random.default_rng(0)
    fresh.permutation(N)
    differs = labels[fresh.permutation(FRESH)[first]] != labels[0]
    assert differs
    assert found.betas == tuple(1.0 if k == first else 0.0 for k in range(30))


def test_a_memorising_trainer_has_a_large_beta_and_a_small_alpha() -> None:
    """The set trained on seeds the scores of its own records; all others score one half, whatever was trained on."""

    def fit(rows):
        noise = np.random.default_rng(int((rows.astype(np.int64) ** 3).sum())).random(130)
        inside = np.zeros(130, dtype=bool)
        inside[rows] = True
        return np.where(inside, noise, 0.5)

    found = estimate(fit, lambda table, rows: table[rows])
    assert found.alpha == 0.0
    assert min(found.betas) > 0.7
    y = world()[1]
    averaging = estimate(lambda rows: y[rows].mean(), lambda mean, rows: -np.abs(y[rows] - mean))
    assert averaging.beta < 0.3 < found.beta


def test_functions_that_write_into_their_arrays_do_no_harm() -> None:
    a, _ = world()
    kept = np.empty(130)

    def fit(rows):
        mean = a[rows].mean(axis=0)
        rows[:] = 0
        return mean

    def score(mean, rows):
        out = kept[: len(rows)]
        out[:] = a[rows] @ mean
        rows[:] = 0
        return out

    clean = estimate(lambda rows: a[rows].mean(axis=0), lambda mean, rows: a[rows] @ mean)
    assert estimate(fit, score) == clean
    assert clean.beta > 0


def test_each_training_replaces_one_record_in_its_place() -> None:
    seen: list[np.ndarray] = []
    rows = np.arange(N)[::-1]
    estimate(lambda given: seen.append(given), lambda _, given: np.zeros(len(given)), records=rows, pairs=30)
    assert len(seen) == 31
    np.testing.assert_array_equal(seen[0], rows)
    changed = [np.flatnonzero(given != rows) for given in seen[1:]]
    assert all(len(place) == 1 for place in changed)
    assert len({int(place[0]) for place in changed}) == 30
    assert {int(given[place[0]]) for given, place in zip(seen[1:], changed, strict=True)} == set(FRESH)


def test_the_sentence_promises_nothing() -> None:
    found = Stability(0.01234, 0.5678, 2, (0.01234, 0.0), (0.1, 0.5678))
    for part in ("2 replacements", "0.0123 (alpha)", "0.568 (beta)", "LOWER estimate", "never a guarantee"):
        assert part in found.sentence
    assert "1 replacement of" in Stability(0.0, 0.0, 1, (0.0,), (0.0,)).sentence
    with pytest.raises(FrozenInstanceError):
        found.alpha = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"records": 0}, "records"),
        ({"records": 1, "pairs": 1}, "records"),
        ({"records": [0, 0, 1], "pairs": 1}, "records"),
        ({"records": [0.5, 1.5], "pairs": 1}, "records"),
        ({"replacements": []}, "replacements"),
        ({"replacements": [-1, 50]}, "replacements"),
        ({"replacements": np.arange(39, 60)}, "replacements"),
        ({"test": []}, "test"),
        ({"test": [0, 100]}, "test"),
        ({"test": [69, 100]}, "test"),
        ({"pairs": 0}, "pairs"),
        ({"pairs": 2.0}, "pairs"),
        ({"pairs": True}, "pairs"),
        ({"pairs": 31}, "pairs"),
        ({"records": 5, "pairs": 6}, "pairs"),
    ],
)
def test_rows_and_pairs_are_checked_before_any_training(options, argument: str) -> None:
    def fit(rows):
        raise AssertionError("trained")

    with pytest.raises(InputError) as caught:
        estimate(fit, lambda model, rows: rows, **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    "score",
    [
        lambda model, rows: 0.0,
        lambda model, rows: np.zeros(len(rows) + 1),
        lambda model, rows: np.zeros((len(rows), 1)),
        lambda model, rows: np.where(rows == 3, np.nan, 0.0),
        lambda model, rows: np.where(rows == 100, np.inf, 0.0),
        lambda model, rows: {"loss": np.zeros(len(rows))},
        lambda model, rows: ["high"] * len(rows),
        lambda model, rows: None,
    ],
)
def test_scores_are_checked(score) -> None:
    with pytest.raises(InputError, match="score: expected one finite number for each"):
        estimate(lambda rows: None, score)
