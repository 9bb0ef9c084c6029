"""Deletion as equivalence: its level at the boundary, its power, and deviations that the AUC does not show."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.metrics import deletion

N, K = 2000, 19
Scores = tuple[np.ndarray, np.ndarray]


def decoys(rng: np.random.Generator, shift: np.ndarray | float = 0.0, n: int = N) -> Scores:
    return rng.normal(size=n) + shift, rng.normal(size=(n, K))


def never_seen(rng: np.random.Generator, shift: np.ndarray | float = 0.0, n: int = N) -> Scores:
    return rng.normal(size=n) + shift, rng.normal(size=n)


def statuses(after: object, repeats: int = 40) -> list[str]:
    found = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        shift = after(rng) if callable(after) else after
        found.append(deletion.among_decoys(decoys(rng, shift), decoys(rng, 1.0), rng=rng).status)
    return found


def test_a_clean_model_is_equivalent_and_a_deletion_that_did_nothing_deviates() -> None:
    assert statuses(0.0).count("equivalent") >= 36
    assert statuses(1.0) == ["deviates"] * 40


def test_at_the_boundary_of_the_auc_equivalence_is_rare() -> None:
    assert statuses(0.10645, 100).count("equivalent") <= 12  # an AUC of .53; 5% are expected


@pytest.mark.parametrize("sign", [1, -1])
def test_a_few_records_fully_kept_or_pushed_below_all_are_seen_where_the_auc_is_not(sign: int) -> None:
    found = statuses(lambda rng: sign * 8.0 * (rng.random(N) < 0.07))
    assert "equivalent" not in found and found.count("deviates") >= 10


def test_what_was_not_seen_before_cannot_be_tested() -> None:
    rng = np.random.default_rng(0)
    assert deletion.among_decoys(decoys(rng), decoys(rng), rng=rng).status == "not-testable"
    assert deletion.among_decoys(decoys(rng, 1.0), decoys(rng), rng=rng).status == "deviates"


def test_few_records_leave_the_question_open() -> None:
    rng = np.random.default_rng(0)
    assert deletion.among_decoys(decoys(rng, n=100), decoys(rng, 1.0, 100), rng=rng).status == "unresolved"


def test_equal_scores_are_equivalent_not_a_deviation() -> None:
    rng = np.random.default_rng(0)
    found = deletion.among_decoys((np.zeros(N), np.zeros((N, K))), decoys(rng, 1.0), rng=rng)
    assert found.status == "equivalent"


def test_a_pass_states_how_many_may_still_be_known() -> None:
    rng = np.random.default_rng(3)
    found = deletion.among_decoys(decoys(rng), decoys(rng, 1.0), rng=rng)
    assert found.status == "equivalent" and 0 < found.most_kept < 0.032


def test_never_seen_records_give_the_same_answers() -> None:
    counts = []
    for shift in (0.0, 1.0):
        rng = np.random.default_rng(5)
        found = [
            deletion.beside_never_seen(never_seen(rng, shift, 4000), never_seen(rng, 1.0, 4000)).status
            for _ in range(20)
        ]
        counts.append(found.count("equivalent" if shift == 0 else "deviates"))
    assert counts[0] >= 14 and counts[1] == 20


def test_the_limits_of_the_auc_are_those_of_the_mean_place() -> None:
    """A second truth: Student's limits of the mean."""
    rng = np.random.default_rng(0)
    scores = decoys(rng, 0.3)
    found = deletion.among_decoys(scores, decoys(rng, 1.0), rng=rng).deviations[0]
    place = (scores[1] < scores[0][:, None]).mean(axis=1)
    half = 1.645 * place.std(ddof=1) / N**0.5
    assert found.value == pytest.approx(place.mean())
    assert (found.low, found.high) == pytest.approx((place.mean() - half, place.mean() + half), abs=2e-4)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ((np.zeros(30), np.zeros((30, 3))), "after: expected arrays .* at least 9 decoys"),
        ((np.zeros(30), np.zeros((29, 20))), "after: expected arrays"),
        ((np.full(30, np.nan), np.zeros((30, 20))), "after: expected finite numbers"),
        ((np.zeros(3), np.zeros((3, 20))), "after: expected at least 20 records"),
    ],
)
def test_bad_input_is_named(after: Scores, message: str) -> None:
    with pytest.raises(InputError, match=message):
        deletion.among_decoys(after, after, rng=np.random.default_rng(0))


def test_a_margin_outside_its_range_is_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="margin: expected a number above 0"):
        deletion.among_decoys(decoys(rng), decoys(rng), margin=0.5, rng=rng)
