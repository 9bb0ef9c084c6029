"""Signals of several labels against those of all 2^L label vectors as classes, which are listed here."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miaudit.attacks import multi_label, signals
from miaudit.errors import InputError

EXACT = ("loss", "logit_confidence", "margin", "entropy")


def listed(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, 2^L) of all label vectors, and the number (n,) of the one that each record has."""
    vectors = np.array(list(itertools.product((0, 1), repeat=z.shape[1])))
    return z @ vectors.T, (y[:, None, :] == vectors).all(axis=2).argmax(axis=1)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("name", EXACT)
def test_each_signal_is_that_of_all_label_vectors_as_classes(name: str, width: int, scale: float) -> None:
    rng = np.random.default_rng(width)
    z = scale * rng.normal(size=(50, width))
    y = rng.integers(0, 2, z.shape)
    y[:10] = z[:10] > 0
    logits, classes = listed(z, y)
    slow = signals.member_scores(labels=classes, logits=logits, names=[name])[name]
    found = multi_label.member_scores(labels=y, logits=z, names=[name])[name]
    np.testing.assert_allclose(found, slow, rtol=1e-9, atol=1e-12)


def test_the_log_odds_are_not_those_against_the_opposite_vector() -> None:
    z, y = np.array([[1.0, 2.0]]), np.array([[1, 1]])
    signed_sum = float(z.sum())
    assert multi_label.logit_confidence(z, y)[0] < signed_sum - 1
    p = 1 / (1 + np.exp(-z))
    opposite = np.log(p.prod() / (1 - p).prod())
    assert opposite == pytest.approx(signed_sum)  # the control: what the sum of signed logits is


def test_log_odds_keep_their_digits_where_probabilities_round() -> None:
    y = np.ones((3, 2), dtype=int)
    z = np.array([[800.0, 900.0], [40.0, 40.0], [-900.0, 900.0]])
    found = multi_label.logit_confidence(z, y)
    np.testing.assert_allclose(found, [800.0, 40.0 - np.log(2), -900.0], rtol=1e-12)
    assert np.isfinite(multi_label.logit_confidence(np.full((1, 3), 1e150), y[:1, :1].repeat(3, 1))).all()


def test_modified_entropy_is_the_sum_over_labels() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 3))
    each = [signals.modified_entropy(np.stack([np.zeros(20), z[:, j]], 1), y[:, j]) for j in range(3)]
    np.testing.assert_allclose(multi_label.modified_entropy(z, y), sum(each))


def test_probabilities_are_log_odds() -> None:
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 3))
    by_p = multi_label.member_scores(labels=y, probabilities=1 / (1 + np.exp(-z)), names=EXACT)
    by_z = multi_label.member_scores(labels=y, logits=z, names=EXACT)
    for name in EXACT:
        np.testing.assert_allclose(by_p[name], by_z[name], rtol=1e-9)
    tiny = multi_label.log_odds(np.array([[1.0]]), np.array([[1e-30]]))
    assert tiny[0, 0] == pytest.approx(-np.log(1e-30))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": [[0, 2]]}, "expected 0 and 1, whether a record has each label, received 2 in row 0, column 1"),
        ({"labels": [0]}, "a column for each label"),
        ({"labels": [[[0]]]}, "expected 0 and 1 of shape"),
        ({"labels": [[0, 1, 1]]}, "a column for each label"),
        ({"names": ["label_only"]}, "for several labels, received 'label_only'"),
        ({"logits": [[np.nan, 0.0]]}, "finite numbers"),
        ({"logits": None}, "exactly one of the two"),
        ({"logits": None, "probabilities": [[0.5, 1.5]]}, "numbers from 0 to 1"),
    ],
)
def test_bad_input_is_one_line(changed: dict, said: str) -> None:
    good = {"labels": [[0, 1]], "logits": [[0.5, 0.5]], "names": ["loss"]}
    with pytest.raises(InputError, match=said) as error:
        multi_label.member_scores(**{**good, **changed})
    assert "\n" not in str(error.value)
