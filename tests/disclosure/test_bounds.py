"""Every bound against the truth over a grid, each with a control that must fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

import miaudit.disclosure.bounds as bounds_module
from disclosure import truths
from miaudit.disclosure import advantage, bound, bound_of, curve_of
from miaudit.disclosure.bounds import binary_divergence, lemma_1, set_divergences, tight_bound
from miaudit.disclosure.dirichlet import World
from miaudit.errors import InputError

RATES = np.array([0.001, 0.05, 0.3, 0.5, 0.8, 0.95, 0.999])
SHOWN = [
    ("confidence-vector", {}),
    ("true-label", {}),
    ("decision-set", {"threshold": 0.2}),
    ("decision-set", {"threshold": 0.6}),
    ("decision-set", {"threshold": 0.4, "temperature": 0.1}),
]
NAMES = ("classes", "aleatoric", "epistemic", "calibration_error")
FAILS = (100, 0.7, 4.0, 0.05)  # erratum E1


def of(values: tuple[int, float, float, float]) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=True))


CASES = [
    (values, disclosure, options)
    for values in truths.GRID
    for disclosure, options in SHOWN
    if values[0] < 100 or "temperature" not in options  # a second each, and nothing new
]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("values", "disclosure", "options"), CASES, ids=str)
def test_every_bound_is_above_the_truth(
    values: tuple[int, float, float, float], disclosure: str, options: dict[str, float]
) -> None:
    world = World(*values)
    curve = curve_of(world.alpha_in, world.alpha_out, disclosure, **options)
    largest, averaged = curve.largest(), curve.averaged()
    found = {
        form: bound(disclosure, **of(values), **options, form=form)
        for form in ("printed", "pinsker", "tight", "region")
    }
    for form in ("printed", "pinsker", "tight"):
        assert found[form].value >= largest - 1e-6, form
        assert found[form].holds
    assert found["region"].value >= averaged - 1e-6
    assert found["region"].value <= found["tight"].value + 1e-9  # an average of what tight bounds everywhere
    assert found["tight"].value < 1
    assert found["tight"].value <= found["pinsker"].value + 1e-9 <= found["printed"].value + 1e-9
    for rate in RATES:
        at = bound(disclosure, **of(values), **options, form="region", alpha=float(rate)).value
        assert float(curve.advantage(rate)) <= at + float(curve.error(rate)) + 1e-6


def test_the_approximation_halved_is_no_bound() -> None:
    """Control, erratum E1: at K = 100, Delta = 0.05, eps_a = 0.7, eps_e = 4 Eq. (32) halved is below the truth."""
    truth = curve_of(World(*FAILS).alpha_in, World(*FAILS).alpha_out, "confidence-vector").largest()
    halved = bound("confidence-vector", **of(FAILS), form="approximate").value / 2
    assert truth == pytest.approx(0.088, abs=5e-4)
    assert halved == pytest.approx(0.079, abs=5e-4)
    assert halved < truth
    assert not bound("confidence-vector", **of(FAILS), form="approximate").holds
    assert bound("confidence-vector", **of(FAILS), form="pinsker").value > truth


@pytest.mark.long
def test_seven_tenths_of_pinskers_bound_fail_somewhere() -> None:
    """Control: the grid would notice a bound that is too small by a constant."""
    failed = 0
    for values in truths.GRID:
        world = World(*values)
        largest = curve_of(world.alpha_in, world.alpha_out, "true-label").largest()
        failed += 0.7 * bound("true-label", **of(values), form="pinsker").value < largest
    assert failed >= len(truths.GRID) // 2


def test_the_tight_bound_is_attained() -> None:
    """Two outcomes with shares (1 +- A) / 2 have advantage A and reach the bound: nothing smaller holds for J alone."""
    for a in (0.01, 0.3, 0.9, 0.999):
        out, into = [(1 + a) / 2, (1 - a) / 2], [(1 - a) / 2, (1 + a) / 2]
        assert tight_bound(sum(set_divergences(out, into))) == pytest.approx(a, rel=1e-9)
    assert tight_bound(np.array([0.0, np.inf])).tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="0 or more"):
        tight_bound(-0.1)


def test_check_values_of_the_tight_bound() -> None:
    for disclosure, symmetrised in (("confidence-vector", 0.56458), ("true-label", 0.21074)):
        found = bound(disclosure, classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2)
        assert 4 * found.value * math.atanh(found.value) == pytest.approx(symmetrised, abs=1e-5)
        assert found.out_in + found.in_out == pytest.approx(symmetrised, abs=1e-5)
        printed = bound(disclosure, classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2, tight=False)
        assert printed.value == pytest.approx(math.sqrt(symmetrised), abs=1e-5)


@pytest.mark.parametrize(("alpha", "forward", "backward"), [(0.5, 0.1, 0.1), (0.9, 0.05, 0.3), (0.02, 0.4, 0.02)])
def test_lemma_1_against_a_fine_search(alpha: float, forward: float, backward: float) -> None:
    beta = np.linspace(0, alpha, 1_000_001)
    inside = (binary_divergence(alpha, beta) <= forward) & (binary_divergence(beta, alpha) <= backward)
    found = float(lemma_1(alpha, forward, backward))
    assert found == pytest.approx(beta[inside].min(), abs=2e-6)
    assert found <= beta[inside].min()


def test_lemma_1_at_the_ends() -> None:
    np.testing.assert_array_equal(lemma_1([0.0, 1.0], 0.3, 0.3), [0.0, 1.0])
    np.testing.assert_allclose(lemma_1([0.2, 0.7], 0.0, 0.0), [0.2, 0.7], atol=1e-12)
    np.testing.assert_allclose(lemma_1([0.2, 0.7], np.inf, np.inf), 0.0, atol=1e-12)


@pytest.mark.long
def test_the_average_of_the_region_is_not_understated() -> None:
    forward, backward = 0.3, 0.25
    rates = (np.arange(200_000) + 0.5) / 200_000
    exact = float((rates - lemma_1(rates, forward, backward)).mean())
    ours = float(bounds_module._value("region", np.array(forward), np.array(backward), None))
    assert exact <= ours <= exact + 1e-4


def test_propositions_as_printed() -> None:
    """Eq. (34) is Eq. (31) with K = 2, Eq. (38) multiplies it by delta, approximations are near for small eps_e."""
    values = {"aleatoric": 0.5, "epistemic": 0.01, "calibration_error": 0.1}
    of_label = bound("true-label", classes=10, **values, tight=False)
    assert of_label.value == pytest.approx(bound("confidence-vector", classes=2, **values, tight=False).value)
    for disclosure in ("confidence-vector", "true-label"):
        exact = bound(disclosure, classes=10, **values, tight=False).value
        assert bound(disclosure, classes=10, **values, form="approximate").value == pytest.approx(exact, rel=0.02)
    of_set = bound("decision-set", classes=10, **values, threshold=0.3, temperature=0.5, tight=False)
    assert of_set.delta is not None
    of_vector = bound("confidence-vector", classes=10, **values, tight=False).value
    assert of_set.value == pytest.approx(of_set.delta.upper * of_vector)
    near = bound("decision-set", classes=10, **values, threshold=0.3, temperature=0.5, form="approximate")
    assert near.value == pytest.approx(of_set.value, rel=0.02)


def test_sets_use_their_own_divergences() -> None:
    """Erratum E9: as T -> 0 delta is 1, and only the divergences of the sets say that they tell less."""
    values = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2}
    own = bound("decision-set", **values, threshold=0.2)
    by_delta = bound("decision-set", **values, threshold=0.2, form="pinsker")
    assert own.value < 0.5 * by_delta.value
    assert by_delta.value == pytest.approx(bound("confidence-vector", **values, form="pinsker").value)


def test_sets_whose_law_costs_too_much_are_bounded_all_the_same() -> None:
    a, b = [1e6, 1e6, 1e6], [1e6, 1e6, 1.001e6]
    found = bound_of(a, b, disclosure="decision-set", threshold=0.3333)
    assert found.value == pytest.approx(bound_of(a, b, disclosure="confidence-vector").value)


@pytest.mark.long
def test_many_records() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 5)) + 0.2, rng.random((4, 5)) + 0.2
    label = np.array([0, 3, 1, 4])
    for disclosure in ("confidence-vector", "true-label", "decision-set"):
        for form in ("tight", "printed", "pinsker", "region"):
            together = bound_of(a, b, disclosure=disclosure, label=label, threshold=0.3, form=form)
            each = [
                bound_of(x, y, disclosure=disclosure, label=int(k), threshold=0.3, form=form).value
                for x, y, k in zip(a, b, label, strict=True)
            ]
            np.testing.assert_allclose(together.value, each, rtol=1e-9)
        truth = [curve_of(x, y, disclosure, int(k), 0.3).largest() for x, y, k in zip(a, b, label, strict=True)]
        assert np.all(bound_of(a, b, disclosure=disclosure, label=label, threshold=0.3).value >= truth)


def test_what_is_not_known_is_refused() -> None:
    values = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2}
    with pytest.raises(InputError, match=r"form: .* did you mean printed\?"):
        bound("true-label", **values, form="print")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="need a World"):
        bound_of([1.0, 2.0], [2.0, 1.0], disclosure="true-label", form="approximate")
    with pytest.raises(InputError, match="threshold"):
        bound("decision-set", **values)
    with pytest.raises(InputError, match="alpha"):
        bound("true-label", **values, form="region", alpha=2.0)
    with pytest.raises(InputError, match="aleatoric"):
        bound("true-label", **(values | {"aleatoric": 0.1}))


def test_the_advantage_at_one_rate_is_below_the_region() -> None:
    values = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2}
    for disclosure, options in SHOWN:
        found = advantage(disclosure, **values, **options, alpha=0.999).value
        assert found <= bound(disclosure, **values, **options, form="region", alpha=0.999).value
