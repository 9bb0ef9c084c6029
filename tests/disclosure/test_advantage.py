"""The public door: check values, meanings, agreement of exact and drawn values, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

import miaudit.disclosure as disclosure_package
from miaudit.disclosure import advantage, advantage_of, curve_of, expected_size
from miaudit.disclosure.dirichlet import World
from miaudit.errors import InputError

PAPER = {"classes": 10, "aleatoric": 0.5, "epistemic": 0.25, "calibration_error": 0.2}
KINDS = ("confidence-vector", "true-label", "decision-set")


@pytest.mark.parametrize(("disclosure", "printed"), list(zip(KINDS, (0.201, 0.126, 0.075), strict=True)))
def test_check_values_of_the_errata(disclosure: str, printed: float) -> None:
    """Erratum E7, simulated there with 400,000 draws: a standard error of about 0.0008."""
    found = advantage(disclosure, **PAPER, threshold=0.2)
    assert found.value == pytest.approx(printed, abs=0.0015)
    assert found.error < 1e-6
    assert "AUC - 1/2" in found.meaning
    other = advantage(disclosure, **(PAPER | {"calibration_error": 0.21}), threshold=0.2).value
    assert abs(other - printed) > 0.002  # control: 5% in one parameter would be seen


@pytest.mark.long
@pytest.mark.parametrize("disclosure", KINDS)
@pytest.mark.parametrize("alpha", [None, 0.9])
def test_draws_and_exact_values_agree_within_their_errors(disclosure: str, alpha: float | None) -> None:
    options = {"threshold": 0.2, "temperature": 0.1 if disclosure == "decision-set" else 0.0, "alpha": alpha}
    exact = advantage(disclosure, **PAPER, **options)
    drawn = advantage(disclosure, **PAPER, **options, method="simulation", draws=40_000, rng=np.random.default_rng(0))
    assert abs(exact.value - drawn.value) <= drawn.error
    assert drawn.error < 0.02


def test_less_disclosed_is_less_told() -> None:
    for alpha in (None, 0.5, 0.999):
        values = [advantage(kind, **PAPER, threshold=0.2, alpha=alpha).value for kind in KINDS]
        assert values[0] > values[1] > values[2] > 0


def test_no_calibration_error_tells_nothing() -> None:
    for kind in KINDS:
        assert advantage(kind, **(PAPER | {"calibration_error": 0.0}), threshold=0.2).value == pytest.approx(
            0, abs=1e-9
        )


def test_the_advantage_at_one_rate_is_read_off_the_curve() -> None:
    world = World(**PAPER)
    curve = curve_of(world.alpha_in, world.alpha_out, "true-label")
    found = advantage("true-label", **PAPER, alpha=0.8)
    assert found.value == pytest.approx(0.8 - float(curve(0.8)))
    assert found.alpha == 0.8
    assert "0.8" in found.meaning


@pytest.mark.long
def test_many_records_are_each_as_alone_and_quick() -> None:
    rng = np.random.default_rng(1)
    a, b = np.exp(rng.normal(size=(200, 10))), np.exp(rng.normal(size=(200, 10)))
    label = rng.integers(0, 10, 200)
    for kind in ("confidence-vector", "true-label"):
        start = time.process_time()
        together = advantage_of(a, b, disclosure=kind, label=label)
        assert (time.process_time() - start) / 200 < 0.02  # measured: 0.001
        for i in (0, 7, 199):
            alone = advantage_of(a[i], b[i], disclosure=kind, label=int(label[i]))
            assert together.value[i] == pytest.approx(alone.value, abs=1e-9)
            assert isinstance(alone.value, float)
    some = advantage_of(a[:3], b[:3], disclosure="decision-set", threshold=0.3)
    assert some.value[2] == pytest.approx(advantage_of(a[2], b[2], disclosure="decision-set", threshold=0.3).value)
    at = advantage_of(a[:3], b[:3], disclosure="true-label", label=label[:3], alpha=0.9)
    assert at.value.shape == at.error.shape == (3,)


def test_the_label_decides_what_its_confidence_tells() -> None:
    a, b = [4.0, 1.0, 1.0], [2.0, 3.0, 1.0]
    values = [advantage_of(a, b, disclosure="true-label", label=k).value for k in range(3)]
    assert values[0] != pytest.approx(values[1], abs=1e-3)
    assert values[2] == pytest.approx(0, abs=1e-9)  # the same marginal
    assert max(values) < advantage_of(a, b, disclosure="confidence-vector").value


def test_sets_that_tell_nothing_say_so() -> None:
    for q, word in ((0.0, "every label"), (1.0, "no label")):
        found = advantage("decision-set", **PAPER, threshold=q)
        assert found.value == 0
        assert word in found.note
    certain = advantage_of(
        [1e5, 1.0], [2e4, 1.0], disclosure="decision-set", threshold=0.001, rng=np.random.default_rng(0)
    )
    assert certain.note == ""
    full = advantage_of([5e3, 5e3], [4e3, 5e3], disclosure="decision-set", threshold=0.1, rng=np.random.default_rng(0))
    assert "always full or empty" in full.note
    assert advantage("decision-set", **PAPER, threshold=0.2).note == ""


def test_expected_sizes() -> None:
    world = World(**PAPER)
    p = np.random.default_rng(2).dirichlet(world.alpha_out, size=100_000)
    for q in (0.05, 0.2, 0.6):
        assert float(expected_size(world.alpha_out, threshold=q)) == pytest.approx(
            (p >= q).sum(axis=1).mean(), abs=0.02
        )
    both = expected_size(np.stack([world.alpha_out, world.alpha_in]), threshold=0.2, temperature=0.1)
    assert both.shape == (2,)
    assert float(expected_size(world.alpha_out, threshold=0.0)) == 10
    assert float(expected_size(world.alpha_out, threshold=1.0)) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"disclosure": "vector"}, "confidence-vector or true-label or decision-set, received 'vector'"),
        ({"disclosure": "decision-set"}, r"threshold: expected a number in \[0, 1\] for a decision set"),
        ({"disclosure": "decision-set", "threshold": 1.5}, "always be empty"),
        ({"disclosure": "decision-set", "threshold": "0.2"}, "threshold"),
        ({"disclosure": "decision-set", "threshold": 0.2, "temperature": -1}, "temperature"),
        ({"classes": 1}, "classes"),
        ({"aleatoric": 0.1}, "Delta"),
        ({"alpha": 1.2}, "true-negative rates"),
        ({"method": "guess"}, "exact or simulation"),
        ({"method": "simulation"}, "rng"),
    ],
)
def test_bad_questions_are_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        advantage(**({"disclosure": "true-label"} | PAPER | changed))  # type: ignore[arg-type]


def test_the_public_names() -> None:
    for name in ("advantage", "bound", "advantage_of", "bound_of"):
        assert callable(getattr(disclosure_package, name))
    with pytest.raises(InputError, match="one shape"):
        advantage_of([[1.0, 2.0]], [1.0, 2.0], disclosure="true-label")
