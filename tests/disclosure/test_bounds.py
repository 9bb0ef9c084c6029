"""Every bound against the truth over a grid, each with a control that must fail."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from scipy import special

import miaudit.disclosure.bounds as bounds_module
from disclosure import truths
from miaudit.disclosure import advantage, bound, bound_of, bound_of_logit_normal, curve_of
from miaudit.disclosure.bounds import Form, binary_divergence, lemma_1, set_divergences, tight_bound
from miaudit.disclosure.dirichlet import World
from miaudit.disclosure.logit_normal import Law, averaged_confidence_vector, label_margin, log_density, sample
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


# -- logit-normal laws ------------------------------------------------------------------------------------------------

PAIRS = [  # mean and standard deviation of the label's log-odds, with the record and without
    ((3.0, 1.0), (2.0, 1.0)),
    ((5.0, 0.5), (1.0, 2.0)),
    ((0.0, 1.0), (0.0, 1.2)),
    ((2.0, 0.4), (-1.0, 3.0)),
    ((0.05, 1.0), (0.0, 1.0)),
]


def one_label(pair: tuple[float, float]) -> Law:
    return Law([-pair[0]], [[pair[1] ** 2]])  # of log((1 - p) / p)


def log_densities(pair: tuple[float, float], x: np.ndarray) -> np.ndarray:
    """Log density of the log-odds of the label's confidence."""
    return -0.5 * ((x - pair[0]) / pair[1]) ** 2 - math.log(pair[1] * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("mine", "other"), PAIRS, ids=str)
def test_proposition_2_of_logit_normal_laws_is_above_the_truth_by_quadrature(mine, other) -> None:
    x = np.linspace(-60, 60, 1_200_001)
    logs = [log_densities(pair, x) for pair in (mine, other)]
    apart, step = np.exp(logs[0]) - np.exp(logs[1]), x[1] - x[0]
    j = float((apart * (logs[0] - logs[1])).sum() * step)
    largest = float(np.maximum(apart, 0).sum() * step)  # sup(TPR - FPR) is the total variation
    laws = one_label(mine), one_label(other)
    found = {form: bound_of_logit_normal(*laws, disclosure="true-label", form=form) for form in get_args(Form)[:3]}
    assert found["tight"].out_in + found["tight"].in_out == pytest.approx(j, rel=1e-5)
    assert largest <= found["tight"].value <= found["pinsker"].value <= found["printed"].value
    tight = found["tight"].value
    assert 4 * tight * math.atanh(tight) == pytest.approx(j, rel=1e-4)  # erratum E1
    # The control that must fail: J of one direction alone, or a quarter of the printed form, is no bound.
    if mine[1] == other[1]:
        assert float(tight_bound(min(found["tight"].out_in, found["tight"].in_out))) < largest
        assert found["printed"].value * 0.38 < largest


def test_the_average_over_alpha_is_bounded_by_lemma_1_s_region() -> None:
    law_in, law_out = (Law(np.array([[-m] for m, _ in side]), np.array([[[s**2]] for _, s in side]))
                       for side in zip(*PAIRS, strict=True))  # fmt: skip
    truth = averaged_confidence_vector(law_in, law_out)
    found = bound_of_logit_normal(law_in, law_out, disclosure="true-label", form="region")
    assert (found.value >= truth).all()
    assert (found.value <= bound_of_logit_normal(law_in, law_out, disclosure="true-label").value).all()
    at = bound_of_logit_normal(law_in, law_out, disclosure="true-label", form="region", alpha=0.99)
    assert (at.value <= 0.99).all()
    assert at.alpha == 0.99
    assert (0.5 * found.value < truth).any()  # the control that must fail


def several(seed: int) -> Law:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    return Law(rng.normal(size=3), root @ root.T + 0.3 * np.eye(3))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_vectors_labels_and_sets_of_logit_normal_laws_are_bounded_by_simulation(seed: int) -> None:
    laws, rng = (several(2 * seed), several(2 * seed + 1)), np.random.default_rng(seed)
    p = [sample(law, 60_000, rng=rng) for law in laws]
    ratio = [log_density(one, laws[0]) - log_density(one, laws[1]) for one in p]
    vector = bound_of_logit_normal(*laws, disclosure="confidence-vector")
    j = ratio[0].mean() - ratio[1].mean()
    assert vector.out_in + vector.in_out == pytest.approx(j, rel=0.1)
    largest = (ratio[0] > 0).mean() - (ratio[1] > 0).mean()
    assert largest - 0.01 <= vector.value
    label = bound_of_logit_normal(*laws, disclosure="true-label")
    assert label.holds
    assert label.value == vector.value  # by data processing
    edges = np.quantile(np.concatenate([one[:, 0] for one in p]), np.linspace(0, 1, 101))
    counts = [np.histogram(one[:, 0], edges)[0] / len(one) for one in p]
    assert np.maximum(counts[0] - counts[1], 0).sum() - 0.03 <= label.value
    for threshold, temperature in ((0.3, 0.0), (0.5, 0.2)):
        sets = [
            one >= threshold
            if not temperature
            else rng.random(one.shape) < special.expit((one - threshold) / temperature)
            for one in p
        ]
        shares = [np.bincount(one @ (1 << np.arange(4)), minlength=16) / len(one) for one in sets]
        options = {"threshold": threshold, "temperature": temperature}
        found = bound_of_logit_normal(*laws, disclosure="decision-set", **options)
        assert np.maximum(shares[0] - shares[1], 0).sum() - 0.02 <= found.value
        assert found.delta is not None
        assert found.value <= vector.value


def test_a_gaussian_margin_is_an_approximation_that_can_fail() -> None:
    """Five labels against the true one, tied or independent, with the same mean and variance of the margin."""
    rng = np.random.default_rng(0)
    apart = Law(np.zeros(5), 9.0 * np.eye(5))
    margin = label_margin(apart, draws=400_000, rng=rng)
    centre, spread = float(margin.mean[0]), float(margin.covariance[0, 0])
    tied = Law(np.full(5, centre - math.log(5)), np.full((5, 5), spread) + 1e-6 * np.eye(5))
    found = bound_of_logit_normal(apart, tied, disclosure="true-label", form="approximate", rng=rng)
    assert not found.holds
    odds = [special.logsumexp(np.log(one[:, 1:] / one[:, :1]), axis=1)
            for one in (sample(law, 200_000, rng=rng) for law in (apart, tied))]  # fmt: skip
    edges = np.quantile(np.concatenate(odds), np.linspace(0, 1, 41))
    shares = [np.histogram(one, edges)[0] / len(one) for one in odds]
    largest = np.maximum(shares[0] - shares[1], 0).sum()
    assert largest > 0.03
    assert found.value < largest / 2  # so it is no bound, and says so
    assert bound_of_logit_normal(apart, tied, disclosure="true-label").value > largest
    two = bound_of_logit_normal(one_label(PAIRS[0][0]), one_label(PAIRS[0][1]), disclosure="true-label")
    same = bound_of_logit_normal(
        one_label(PAIRS[0][0]), one_label(PAIRS[0][1]), disclosure="true-label", form="approximate", rng=rng
    )
    assert same.value == pytest.approx(two.value)  # of two classes it is exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disclosure": "decision-set"}, "threshold: expected a number in"),
        ({"disclosure": "label"}, "disclosure: expected"),
        ({"disclosure": "true-label", "form": "approximate"}, "rng: expected a numpy Generator"),
        ({"disclosure": "confidence-vector", "form": "approximate"}, "form: expected another for vectors and sets"),
        ({"disclosure": "true-label", "alpha": 2.0}, "alpha"),
        ({"disclosure": "true-label", "law_out": Law([0.0, 0.0], np.eye(2))}, "law_in, law_out: expected one shape"),
    ],
)
def test_what_a_bound_of_logit_normal_laws_cannot_use_is_refused(options, message: str) -> None:
    given = {"law_in": Law([0.0], [[1.0]]), "law_out": Law([1.0], [[1.0]]), **options}
    with pytest.raises(InputError, match=message):
        bound_of_logit_normal(given.pop("law_in"), given.pop("law_out"), **given)
