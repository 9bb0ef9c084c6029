"""A pair of laws in both orders: from laws, from a ROC curve, and what it promises as a claim."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp.directed_profile import EPSILONS, DirectedProfile
from miaudit.dp.tradeoff import Gaussian
from miaudit.errors import InputError

P, Q = np.array([0.6, 0.25, 0.1, 0.05, 0.0]), np.array([0.5, 0.3, 0.17, 0.01, 0.02])


def test_laws_give_their_hockey_sticks_in_both_orders() -> None:
    pair = DirectedProfile.of_laws(P, Q)
    for epsilon in (0.0, 0.1, 0.4, 1.0, 2.0):
        forward = np.maximum(P - math.exp(epsilon) * Q, 0).sum()
        backward = np.maximum(Q - math.exp(epsilon) * P, 0).sum()
        assert pair.orders[0].deltas(epsilon) == pytest.approx(forward, abs=1e-11)
        assert pair.orders[1].deltas(epsilon) == pytest.approx(backward, abs=1e-11)
        assert pair.delta_at(epsilon) == pytest.approx(max(forward, backward), abs=1e-11)
    assert pair.epsilon_at(0.5) == 0
    assert pair.epsilon_at(0.01) == math.inf  # an output that only Q has, with probability 0.02
    assert pair.largest_loss == pytest.approx(math.log(5))


def test_the_claim_is_below_the_best_test_in_either_order() -> None:
    pair = DirectedProfile.of_laws(P, Q)
    rates = np.linspace(0, 1, 101)
    for p, q in ((P, Q), (Q, P)):
        order = np.argsort(-p / np.maximum(q, 1e-300))
        power = np.interp(rates, np.append(0, np.cumsum(q[order])), np.append(0, np.cumsum(p[order])))
        assert (pair(rates) <= 1 - power + 1e-12).all()
    np.testing.assert_allclose(pair.fpr_at_tpr(rates), pair(1 - rates), atol=1e-12)
    scalar = pair.scalar_fpr_at_tpr()
    np.testing.assert_allclose([scalar(float(x)) for x in rates], pair.fpr_at_tpr(rates), atol=1e-15)


def test_of_more_ratios_than_are_kept_the_lines_err_upwards() -> None:
    cells = np.linspace(-6, 7, 6001)
    p, q = np.exp(-((cells - 1) ** 2) / 2), np.exp(-(cells**2) / 2)
    p, q = p / p.sum(), q / q.sum()
    pair = DirectedProfile.of_laws(p, q)
    assert len(pair.epsilons) <= len(EPSILONS) + 1
    for epsilon in (0.03, 0.31, 1.2, 3.3):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert exact - 1e-12 <= pair.delta_at(epsilon) <= exact + 1e-4
        assert pair.delta_at(epsilon) == pytest.approx(Gaussian(1.0).delta_at(epsilon), abs=2e-4)


def test_a_roc_curve_is_the_laws_of_its_steps() -> None:
    fpr, tpr = [0.0, 0.1, 0.5], [0.05, 0.4, 0.8]
    pair = DirectedProfile.of_roc(fpr, tpr)
    steps = DirectedProfile.of_laws([0.05, 0.35, 0.4, 0.2], [0.0, 0.1, 0.4, 0.5])
    assert pair.deltas == pytest.approx(steps.deltas)
    assert pair.reverse == pytest.approx(steps.reverse)
    dented = DirectedProfile.of_roc([0.0, 0.1, 0.3, 0.5], [0.05, 0.4, 0.45, 0.8])
    assert dented.delta_at(0.0) >= pair.delta_at(0.0) - 1e-12


def test_equal_laws_give_nothing_away() -> None:
    same = DirectedProfile.of_laws(P[:4] / P[:4].sum(), P[:4] / P[:4].sum())
    assert same.delta_at(0.0) == pytest.approx(0.0, abs=1e-12)
    assert same(0.3) == pytest.approx(0.7, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            lambda: DirectedProfile((0.5, 0.1), (0.1, 0.1), (0.1, 0.1)),
            "epsilons: expected rising numbers from 0 to 700",
        ),
        (
            lambda: DirectedProfile((0.5,), (0.1, 0.1), (0.1,)),
            "deltas: expected numbers in .0, 1., one for each epsilon",
        ),
        (lambda: DirectedProfile((0.5,), (0.1,), (math.nan,)), "reverse: expected numbers"),
        (lambda: DirectedProfile.of_laws([0.5, 0.4], [0.5, 0.5]), "first: expected probabilities"),
        (lambda: DirectedProfile.of_laws([0.5, 0.5], [1.0]), "second: expected probabilities"),
        (lambda: DirectedProfile.of_roc([0.2, 0.1], [0.1, 0.2]), "fpr: expected rates that rise"),
        (lambda: DirectedProfile.of_roc([0.2, 0.3], [0.1]), "tpr: expected one for each fpr"),
    ],
    ids=["order", "length", "nan", "sum", "shape", "falling", "number"],
)
def test_what_is_no_pair_is_refused_in_one_line(make, line: str) -> None:
    with pytest.raises(InputError, match=line):
        make()
