"""delta_{T,q} against enumeration of sets for random pairs of confidence vectors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

from miaudit.disclosure.contraction import contraction
from miaudit.disclosure.contraction import total_variation as variation
from miaudit.disclosure.decision_sets import laws
from miaudit.errors import InputError


def enumerated(p: np.ndarray, other: np.ndarray, q: float, temperature: float) -> np.ndarray:
    """Eq. (39) by its sum over 2^K sets, for pairs (m, K)."""
    enters, enters_other = (special.expit((v - q) / temperature) for v in (p, other))
    apart = np.zeros(len(p))
    for b in itertools.product((0, 1), repeat=p.shape[1]):
        chosen = np.array(b) == 1
        one, two = (np.prod(np.where(chosen, e, 1 - e), axis=1) for e in (enters, enters_other))
        apart += np.abs(one - two) / 2
    return apart


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("q", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("temperature", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_no_pair_exceeds_the_upper_value_and_one_attains_the_lower(q: float, temperature: float, classes: int) -> None:
    found = contraction(classes, q, temperature)
    rng = np.random.default_rng(0)
    spread = rng.choice([0.05, 0.3, 1.0], size=(3000, 1))
    p, other = (np.array([rng.dirichlet(np.full(classes, s[0])) for s in spread]) for _ in range(2))
    # and pairs without a common label, where the maximum lies
    side = rng.random((3000, classes)) < 0.5
    side[:, 0], side[:, -1] = True, False
    apart = [np.where(keep, v, 0) / np.where(keep, v, 0).sum(axis=1, keepdims=True).clip(1e-300)
             for v, keep in ((p, side), (other, ~side))]  # fmt: skip
    proper = (np.abs(apart[0].sum(axis=1) - 1) < 1e-9) & (np.abs(apart[1].sum(axis=1) - 1) < 1e-9)
    at_random = np.sqrt(enumerated(p, other, q, temperature).max())
    without = np.sqrt(enumerated(apart[0][proper], apart[1][proper], q, temperature).max())
    assert at_random <= found.upper + 1e-12
    assert without <= found.upper + 1e-12
    assert found.lower <= found.upper <= 1
    assert found.lower >= 0.97 * max(at_random, without)
    assert at_random <= max(without, found.lower) + 1e-9  # disjoint labels are enough


@pytest.mark.parametrize(("q", "temperature"), [(0.5, 0.25), (0.0, 0.1), (0.3, 1.0), (0.9, 0.02)])
def test_two_classes_are_exact(q: float, temperature: float) -> None:
    x = np.linspace(0, 1, 201)
    p, other = (v.ravel() for v in np.meshgrid(x, x))
    pairs = [np.stack([v, 1 - v], axis=1) for v in (p, other)]
    found = contraction(2, q, temperature)
    assert found.lower == found.upper == pytest.approx(math.sqrt(enumerated(*pairs, q, temperature).max()))


def test_two_sure_vectors_understate_the_maximum() -> None:
    """Control of erratum E9: the pair that a search from the corners returns is not the largest."""
    corner = enumerated(np.array([[1.0, 0, 0]]), np.array([[0, 0, 1.0]]), 0.2, 0.5)[0]
    assert contraction(3, 0.2, 0.5).lower > math.sqrt(corner) + 0.01


def test_limits() -> None:
    assert contraction(10, 0.3, 0.0).upper == 1
    assert contraction(10, 0.0, 0.0).upper == contraction(10, 1.0, 0.0).upper == 0
    assert contraction(10, 0.3, 1e3).upper < 0.03  # infinite temperature: coins only
    # Eq. (39) tends to sqrt(1/2) at q = 0 and q = 1 with two classes, where the text says 0
    assert contraction(2, 0.0, 1e-6).upper == pytest.approx(math.sqrt(0.5))
    assert contraction(2, 1.0, 1e-6).upper == pytest.approx(math.sqrt(0.5))


def test_more_classes_never_tell_less() -> None:
    values = [contraction(k, 0.2, 0.2) for k in (2, 3, 5, 10, 100)]
    assert all(a.lower <= b.lower + 1e-12 for a, b in itertools.pairwise(values))
    assert all(a.upper <= b.upper + 1e-9 for a, b in itertools.pairwise(values[1:]))


@pytest.mark.long
def test_the_contraction_of_divergences_holds() -> None:
    """Eq. (44): D(sets) <= delta^2 D(vectors), in both orders."""
    from miaudit.disclosure.bounds import set_divergences
    from miaudit.disclosure.dirichlet import divergence

    for a, b in (([3.0, 1.0, 0.5], [2.0, 1.5, 1.0]), ([0.5, 0.2, 0.1], [0.2, 0.3, 0.3])):
        for q, temperature in ((0.2, 0.05), (0.5, 0.3), (0.8, 1.0)):
            law = laws(np.array(a), np.array(b), q, temperature)
            forward, backward = set_divergences(law.mass_out, law.mass_in)
            most = contraction(3, q, temperature).upper ** 2
            assert forward <= most * float(divergence(b, a))
            assert backward <= most * float(divergence(a, b))


@pytest.mark.parametrize(("q", "temperature"), [(0.2, 0.05), (0.0, 0.3), (0.5, 1.0)])
def test_total_variation_without_enumeration(q: float, temperature: float) -> None:
    rng = np.random.default_rng(1)
    for classes in (2, 5, 12):
        p, other = rng.dirichlet(np.full(classes, 0.4), size=(2, 1))
        truth = enumerated(p, other, q, temperature)[0]
        found = variation(p[0], other[0], threshold=q, temperature=temperature)
        assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
        assert found.upper - found.lower < 2e-3
    assert variation(p[0], p[0], threshold=q, temperature=temperature).upper == 0


def test_total_variation_of_a_hundred_classes() -> None:
    """Equal shares make counts sufficient: two binomials are a second truth where nothing can be enumerated."""
    from scipy import stats

    q, temperature, n = 0.05, 0.1, 40
    p, other = np.zeros(100), np.zeros(100)
    p[:n], other[n : 2 * n] = 1 / n, 1 / n
    share, none = special.expit((1 / n - q) / temperature), special.expit(-q / temperature)
    with_mass, without = (stats.binom.pmf(np.arange(n + 1), n, s) for s in (share, none))
    truth = float(np.abs(np.outer(with_mass, without) - np.outer(without, with_mass)).sum() / 2)
    found = variation(p, other, threshold=q, temperature=temperature)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 0.01
    assert truth <= contraction(100, q, temperature).upper ** 2
    smooth = variation(p, other * 0.9, threshold=q, temperature=temperature)
    assert not smooth.lower <= truth <= smooth.upper  # control


def test_total_variation_refuses_what_is_no_pair() -> None:
    for p, temperature in (([0.5], 0.1), ([0.5, np.nan], 0.1), ([0.5, 0.5], 0.0)):
        with pytest.raises(InputError, match="two finite vectors"):
            variation(p, [0.5, 0.5], threshold=0.2, temperature=temperature)
