"""Laws of decision sets against closed forms, integration over the triangle and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from disclosure import truths
from miaudit.disclosure import decision_sets, tradeoff
from miaudit.disclosure.decision_sets import Intractable, chance_of_entry, laws
from miaudit.disclosure.dirichlet import World


def area(alpha_in: object, alpha_out: object, q: float, temperature: float) -> float:
    found = laws(np.array(alpha_in, float), np.array(alpha_out, float), q, temperature)
    return truths.area_and_largest(found.mass_out, found.mass_in)[0]


@pytest.mark.parametrize("q", [0.05, 0.11, 0.2, 0.25, 0.4, 0.7])
@pytest.mark.parametrize("classes", [3, 5, 10])
def test_uniform_confidences_have_a_closed_form(q: float, classes: int) -> None:
    """P(j given labels are in) = (1 - j q)_+^(K - 1); the counts by inclusion and exclusion, in whole numbers."""
    ones = np.ones(classes)
    found = np.sort(laws(ones, ones, q, 0.0).mass_out)
    inside = [max(0.0, 1 - j * q) ** (classes - 1) for j in range(classes + 1)]
    counts = [
        math.comb(classes, m)
        * sum((-1) ** (j - m) * math.comb(classes - m, j - m) * inside[j] for j in range(m, classes + 1))
        for m in range(classes + 1)
    ]
    expected = np.sort([c for c in counts if c > 1e-12])
    np.testing.assert_allclose(found[found > 1e-12], expected, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("q", [0.1, 0.2, 0.3, 0.35, 0.5])
def test_different_labels_against_the_triangle(q: float) -> None:
    a, b = [3.0, 1.2, 2.0], [2.0, 1.5, 1.0]
    masses = [truths.enumerated_sets(np.array(law), q, 0.0, 500) for law in (b, a)]
    truth = truths.area_and_largest(*masses)[0]
    assert area(a, b, q, 0.0) == pytest.approx(truth, abs=1e-3)  # the grid's edge is rough
    assert abs(area([3.6, 1.2, 2.0], b, q, 0.0) - truth) > 2e-3  # control


@pytest.mark.long
@pytest.mark.parametrize(
    ("q", "temperature"), [(0.1, 0.05), (0.3, 0.1), (0.5, 0.3), (0.0, 0.2), (1.0, 0.1), (0.4, 2.0)]
)
def test_temperatures_against_the_triangle(q: float, temperature: float) -> None:
    a, b = [3.0, 1.2, 2.0], [2.0, 1.5, 1.0]
    found = laws(np.array(a), np.array(b), q, temperature)
    masses = [truths.enumerated_sets(np.array(law), q, temperature, 400) for law in (b, a)]
    np.testing.assert_allclose(np.sort(found.mass_out), np.sort(masses[0]), atol=2e-5)
    np.testing.assert_allclose(np.sort(found.mass_in), np.sort(masses[1]), atol=2e-5)


def test_two_classes_are_beta_tails() -> None:
    a, b, q = [2.0, 1.0], [1.0, 3.0], 0.3
    out = stats.beta(1.0, 3.0)
    expected = [out.cdf(q), out.cdf(1 - q) - out.cdf(q), out.sf(1 - q)]
    np.testing.assert_allclose(
        np.sort(laws(np.array(a), np.array(b), q, 0.0).mass_out)[-3:], np.sort(expected), atol=1e-9
    )

    def both(p: float) -> float:
        enter = special.expit((np.array([p, 1 - p]) - q) / 0.1)
        return float(enter.prod() * out.pdf(p))

    found = laws(np.array(a), np.array(b), q, 0.1)
    assert np.min(np.abs(found.mass_out - integrate.quad(both, 0, 1)[0])) < 1e-7


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "q", "temperature"),
    [((10, 0.5, 0.25, 0.2), 0.2, 0.0), ((10, 0.5, 0.05, 0.2), 0.4, 0.0), ((10, 0.5, 0.25, 0.2), 0.03, 0.0),
     ((10, 0.5, 0.25, 0.2), 0.6, 0.1), ((100, 0.7, 4.0, 0.05), 0.2, 0.0), ((100, 0.6, 0.25, 0.1), 0.05, 0.0)],
)  # fmt: skip
def test_worlds_agree_with_draws_of_counts(
    values: tuple[int, float, float, float], q: float, temperature: float
) -> None:
    world, draws = World(*values), 60_000 if values[0] == 10 else 20_000
    rng = np.random.default_rng(1)
    counts = []
    for law in (world.alpha_out, world.alpha_in):
        p = rng.dirichlet(law, size=draws)
        inside = p >= q if temperature == 0 else rng.random(p.shape) < special.expit((p - q) / temperature)
        counts.append(np.bincount(inside[:, 0] * world.classes + inside[:, 1:].sum(axis=1), minlength=200) / draws)
    truth = truths.area_and_largest(*counts)[0]
    assert area(world.alpha_in, world.alpha_out, q, temperature) == pytest.approx(truth, abs=0.006)


@pytest.mark.long
def test_a_hundred_classes_with_a_temperature_agree_with_their_poisson_binomials() -> None:
    """Given the confidences, entries are independent: the mean over draws of whole laws, where coins add no noise."""
    world, q, temperature = World(100, 0.6, 0.25, 0.1), 0.1, 0.2
    rng = np.random.default_rng(6)
    found = laws(world.alpha_in, world.alpha_out, q, temperature)
    for law, mass in ((world.alpha_out, found.mass_out), (world.alpha_in, found.mass_in)):
        enters = special.expit((rng.dirichlet(law, size=2000) - q) / temperature)
        others = np.zeros((2000, 101))
        others[:, 0] = 1.0
        for k in range(1, 100):
            others[:, 1:] = others[:, 1:] * (1 - enters[:, k, None]) + others[:, :-1] * enters[:, k, None]
            others[:, 0] *= 1 - enters[:, k]
        truth = np.stack([others * (1 - enters[:, :1]), others * enters[:, :1]], axis=2)[:, :100]
        error = truth.std(axis=0).ravel() / math.sqrt(2000)
        assert np.all(np.abs(mass - truth.mean(axis=0).ravel()) < 5 * error + 1e-9)


@pytest.mark.long
def test_ten_labels_that_all_differ() -> None:
    rng = np.random.default_rng(2)
    a, b = 0.3 + rng.random(10), 0.3 + rng.random(10)
    for q, temperature in ((0.2, 0.0), (0.15, 0.1)):
        masses = [truths.drawn_sets(law, q, temperature, 150_000, seed=3) for law in (b, a)]
        truth = truths.area_and_largest(*masses)[0]  # too large by what 150,000 draws learn of 1,024 sets
        assert area(a, b, q, temperature) == pytest.approx(truth, abs=0.012)


@pytest.mark.parametrize(("q", "temperature"), [(0.25, 0.0), (0.3, 0.1)])
def test_labels_left_out_cost_no_more_than_is_said(
    q: float, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = np.array([5.0, 1.0, 0.5, 0.05, 0.03, 0.02]), np.array([3.0, 1.5, 0.5, 0.06, 0.02, 0.03])
    exact = area(a, b, q, temperature)
    decision_sets._laws.cache_clear()
    monkeypatch.setattr(decision_sets, "_MOST_OUTCOMES", 9)
    short = laws(a, b, q, temperature)
    decision_sets._laws.cache_clear()
    less = truths.area_and_largest(short.mass_out, short.mass_in)[0]
    assert len(short.mass_out) <= 9
    assert short.error > 0
    assert abs(less - exact) <= short.error
    assert less <= exact + 1e-9  # what is left out can only help the attacker


def test_low_temperatures_approach_the_threshold_alone() -> None:
    world = World(10, 0.5, 0.25, 0.2)
    far, near = (area(world.alpha_in, world.alpha_out, 0.4, t) for t in (0.2, 0.04))
    still = area(world.alpha_in, world.alpha_out, 0.4, 0.0)
    assert abs(near - still) < abs(far - still)
    assert abs(near - still) < 0.004


def test_sets_that_are_always_full_or_empty_tell_nothing() -> None:
    a, b = np.array([3.0, 1.0]), np.array([1.0, 1.0])
    for q in (0.0, 1.0):
        assert laws(a, b, q, 0.0).mass_out.tolist() == [1.0]
    # with coins an entry says something all the same
    assert area(a, b, 1.0, 0.1) > 0.01


def test_what_costs_too_much_is_not_answered() -> None:
    world = World(100, 0.5, 0.25, 0.2)
    with pytest.raises(Intractable):
        laws(np.ones(100), np.full(100, 1.1), 0.001, 0.0)
    with pytest.raises(Intractable):
        laws(world.alpha_in, world.alpha_out, 0.2, 1e-3)
    with pytest.raises(Intractable):
        laws(np.array([1e6, 1e6, 1e6]), np.array([1e6, 1e6, 1.001e6]), 0.333, 0.0)
    rng = np.random.default_rng(4)
    a, b = np.array([1e6, 1e6, 1e6]), np.array([1e6, 1e6, 1.01e6])
    drawn = tradeoff.decision_set(a, b, threshold=0.3333, draws=4000, rng=rng)
    masses = [truths.drawn_sets(law, 0.3333, 0.0, 20_000, seed=7) for law in (b, a)]
    assert drawn.averaged() == pytest.approx(truths.area_and_largest(*masses)[0], abs=0.02)


def test_beta_quadrature_is_exact_for_polynomials() -> None:
    for a, b in ((0.02, 0.3), (0.5, 0.5), (1.0, 1.0), (3.0, 40.0), (2000.0, 1.0)):
        t, weight = decision_sets._beta_nodes(a, b, 12)
        for power in (0, 1, 2, 7, 20):
            moment = math.exp(special.betaln(a + power, b) - special.betaln(a, b))
            assert float(weight @ t**power) == pytest.approx(moment, rel=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.5])
def test_chances_of_entry_agree_with_draws(temperature: float) -> None:
    alpha = np.array([2.0, 0.5, 0.2])
    p = np.random.default_rng(5).dirichlet(alpha, size=200_000)
    enters = p >= 0.3 if temperature == 0 else special.expit((p - 0.3) / temperature)
    np.testing.assert_allclose(chance_of_entry(alpha, 0.3, temperature), enters.mean(axis=0), atol=0.005)


@pytest.mark.parametrize("q", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_sure_models_need_no_draws(q: float, scale: float) -> None:
    """One label decides, however large the parameters; the others never enter, or always do."""
    a, b = np.array([q + 0.02, 0.98 - q]), np.array([q + 0.01, 0.99 - q])
    truth = [stats.beta(*(law * scale)) for law in (b, a)]
    cut = np.sort([0, q, 1 - q, 1])
    masses = [np.diff(law.cdf(cut)) for law in truth]
    expected = truths.area_and_largest(*masses)[0]
    assert area(a * scale, b * scale, q, 0.0) == pytest.approx(expected, abs=1e-7)
    more = [np.concatenate([law * 1e6, [1e-3, 2.0]]) for law in (a, b)]
    found = laws(more[0], more[1], q, 0.0)
    assert found.error < 1e-7
    big = [np.diff(stats.beta(*(law * 1e6)).cdf(cut)) for law in (b, a)]
    assert truths.area_and_largest(found.mass_out, found.mass_in)[0] == pytest.approx(
        truths.area_and_largest(*big)[0], abs=1e-4
    )


def test_a_set_that_is_nearly_always_the_same_tells_nothing() -> None:
    found = laws(np.array([9e5, 1.0, 2.0]), np.array([8e5, 2.0, 1.0]), 0.5, 0.0)
    assert found.mass_out.tolist() == found.mass_in.tolist() == [1.0]
    assert found.error < 1e-7
