from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from miaudit.causal import concentration as c
from miaudit.collect import stability
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.roc import Roc


def test_the_printed_proposition_and_hoeffding() -> None:
    printed = c.multi_run_ate(members=100, nonmembers=400, confidence=1 - 4 * math.exp(-5), sharp=False)
    assert printed.radius == pytest.approx(math.sqrt(10 / 100) + math.sqrt(10 / 400))
    sharp = c.multi_run_ate(members=100, nonmembers=400, confidence=1 - 4 * math.exp(-5))
    assert sharp.radius == pytest.approx(printed.radius / 2)
    assert c.multi_run_ate(members=100, nonmembers=400, confidence=0.95, width=3).radius == pytest.approx(
        3 * c.multi_run_ate(members=100, nonmembers=400, confidence=0.95).radius
    )


def test_bounds_hold_in_simulation() -> None:
    rng = np.random.default_rng(0)
    n1, n0 = 60, 120
    ate = c.multi_run_ate(members=n1, nonmembers=n0, confidence=0.9).radius
    auc = c.multi_run_auc(members=n1, nonmembers=n0, confidence=0.9).radius
    rate = c.multi_run_rate(trials=n1, confidence=0.9).radius
    missed = np.zeros(3)
    for _ in range(1000):
        inside, outside = rng.random(n1) < 0.6, rng.random(n0) < 0.4  # the worst scores: 0 and 1
        area = Roc.of(np.r_[inside, outside], np.arange(n1 + n0) < n1).auc
        truth = 0.6 * 0.6 + 0.5 * (0.6 * 0.4 + 0.4 * 0.6)
        missed += (
            abs(inside.mean() - outside.mean() - 0.2) > ate,
            abs(area - truth) > auc,
            abs(inside.mean() - 0.6) > rate,
        )
    assert (missed / 1000 <= 0.1).all()
    assert missed[2] > 0  # not vacuous


def test_one_run_adds_the_deviations_of_its_proof() -> None:
    t, n1, n0, alpha, beta = 6.0, 300, 500, 1e-3, 2e-3
    found = c.one_run_ate(
        members=n1,
        nonmembers=n0,
        confidence=1 - 10 * math.exp(-t),
        error_stability=alpha,
        training_stability=beta,
    )
    parts = [
        math.sqrt(t / (2 * n0)),
        math.sqrt(n1 * t * alpha**2 / 2),
        math.sqrt((n1 + n0 - 1) * t * alpha**2 / 2),
        (1 / n1 + beta) * math.sqrt(n1 * t / 2),
        math.sqrt((n1 + n0 - 1) * t * beta**2 / 2),
    ]
    assert found.radius == pytest.approx(sum(parts))
    still = c.one_run_ate(members=n1, nonmembers=n0, confidence=0.95, error_stability=0, training_stability=0)
    free = c.multi_run_ate(members=n1, nonmembers=n0, confidence=0.95)
    assert still.radius > free.radius
    wide = c.one_run_ate(
        members=n1, nonmembers=n0, confidence=0.95, error_stability=10 * alpha, training_stability=10 * beta, width=10
    )
    narrow = c.one_run_ate(members=n1, nonmembers=n0, confidence=0.95, error_stability=alpha, training_stability=beta)
    assert wide.radius == pytest.approx(10 * narrow.radius)


def test_zero_run_pays_for_overlap_and_propensity() -> None:
    def radius(**more: float) -> float:
        options = {"overlap": 0.5, "members": 2000, "nonmembers": 2000, "confidence": 0.95} | more
        return c.zero_run_ate(error_stability=0, training_stability=0, **options).radius

    base = radius()
    assert radius(overlap=0.1) > 3 * base
    assert radius(propensity_error=0.1) == pytest.approx(base + 0.1)
    # Divisor n1: an error of the odds counts n0 / n1 times.
    assert radius(members=1000, propensity_error=0.1) - radius(members=1000) == pytest.approx(0.2)


def test_the_zero_run_bound_holds_in_simulation() -> None:
    rng = np.random.default_rng(1)
    n1, n0 = 200, 100
    bound = c.zero_run_ate(
        members=n1, nonmembers=n0, confidence=0.9, error_stability=0, training_stability=0, overlap=0.2
    ).radius
    for _ in range(300):
        x1, x0 = rng.random(n1) < 0.6, rng.random(n0) < 0.4
        odds = np.where(x0, 0.6 / 0.4, 0.4 / 0.6) * n1 / n0
        y1, y0 = rng.random(n1) < 0.2 + 0.5 * x1, rng.random(n0) < 0.1 + 0.5 * x0
        assert abs(y1.mean() - (odds @ y0) / n1 - 0.1) <= bound
    assert bound < 3


def test_few_parameters_cannot_memorise() -> None:
    sizes = [10**k for k in range(3, 10)]
    found = [c.underparametrised_effect(records=n, parameters=20, radius=1, lipschitz=1) for n in sizes]
    assert all(a >= b for a, b in itertools.pairwise(found))
    assert found[0] == 1.0
    assert found[-1] < 0.01
    more = c.underparametrised_effect(records=10**8, parameters=200, radius=1, lipschitz=1)
    assert more > c.underparametrised_effect(records=10**8, parameters=20, radius=1, lipschitz=1)
    scaled = c.underparametrised_effect(records=10**8, parameters=20, radius=1, lipschitz=5, width=5)
    assert scaled == pytest.approx(5 * c.underparametrised_effect(records=10**8, parameters=20, radius=1, lipschitz=1))


@pytest.mark.parametrize(("records", "parameters"), [(10_000, 1), (300_000, 3)])
def test_few_parameters_by_the_formula_at_the_best_of_many_tails(records: int, parameters: int) -> None:
    n, lipschitz, radius = records / 4, 2.0, 3.0  # at least so many of each class, and at most three times as many
    t = np.linspace(0.1, 40, 40_001)
    exponent = t + parameters * (np.log(3 * n) / 2 + np.log(6 * radius * lipschitz))
    total = 2 * np.sqrt(2 * exponent / n) + np.sqrt(t / (2 * n)) + 8 * np.exp(-t)
    bound = c.underparametrised_effect(records=records, parameters=parameters, radius=radius, lipschitz=lipschitz)
    assert bound == pytest.approx(total.min(), rel=5e-4)
    assert bound < 1


def test_bad_input() -> None:
    with pytest.raises(InputError, match="confidence"):
        c.multi_run_auc(members=10, nonmembers=10, confidence=1.0)
    with pytest.raises(InputError, match="nonmembers"):
        c.multi_run_auc(members=10, nonmembers=0, confidence=0.9)
    with pytest.raises(InputError, match="error_stability"):
        c.one_run_ate(members=9, nonmembers=9, confidence=0.9, error_stability=math.nan, training_stability=0)
    with pytest.raises(InputError, match="overlap"):
        c.zero_run_ate(members=9, nonmembers=9, confidence=0.9, error_stability=0, training_stability=0, overlap=0)
    with pytest.raises(InputError, match="propensity_error"):
        c.zero_run_ate(
            members=9,
            nonmembers=9,
            confidence=0.9,
            error_stability=0,
            training_stability=0,
            overlap=0.5,
            propensity_error=-1,
        )


# -- on the page of an audit -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    alpha: float
    beta: float
    pairs: int = 20


def one_model(design: str | None, n: int = 4000) -> Evidence:
    draws = np.random.default_rng(0)
    return Evidence(score=draws.random(n), member=np.arange(n) % 2 == 0, design=design)


@pytest.mark.parametrize(("design", "theorem"), [("one-run", "Theorem 5.4"), ("zero-run", "Theorem 6.4")])
def test_of_one_model_whose_stability_was_measured_the_theorem_stands_there(design: str, theorem: str) -> None:
    evidence = one_model(design)
    width = float(np.ptp(evidence.score))
    shared = {
        "members": 2000,
        "nonmembers": 2000,
        "confidence": 0.95,
        "error_stability": 1e-4,
        "training_stability": 1e-4,
        "width": width,
    }
    bound = c.one_run_ate(**shared) if design == "one-run" else c.zero_run_ate(**shared, overlap=0.1)
    said = c.of_one_model(evidence, Seen(1e-4, 1e-4), 0.95)
    assert f"is within {bound.radius:.3g} of the estimate with 95% confidence" in said
    assert theorem in said
    assert "no guarantee" in said
    loose = c.of_one_model(evidence, Seen(0.1, 0.1), 0.95)  # the control: an unstable trainer
    assert f"{theorem} of causal-mia guarantees nothing" in loose


@pytest.mark.parametrize(
    "evidence", [one_model("multi-run"), one_model(None), one_model("one-run").replace(score=np.zeros(4000))]
)
def test_a_stability_of_other_evidence_is_refused(evidence: Evidence) -> None:
    with pytest.raises(InputError, match="stability: expected none"):
        c.of_one_model(evidence, Seen(0.1, 0.1), 0.95)


def test_the_guarantee_holds_for_a_trainer_whose_stability_was_measured() -> None:
    """A mean of numbers in [0, 1], whose loss is the distance: one-run audits again and again."""
    draws, n, errors = np.random.default_rng(2), 400, []
    data = draws.random(5000)
    found = stability.estimate(
        lambda rows: data[rows].mean(),
        lambda mean, rows: np.abs(data[rows] - mean),
        records=n // 2,
        replacements=np.arange(n, n + 50),
        test=np.arange(1000, 5000),
        pairs=20,
        rng=draws,
    )
    for _ in range(400):
        x, member = draws.random(n), draws.permutation(np.arange(n) < n // 2)
        score = -np.abs(x - x[member].mean())
        errors.append(float(score[member].mean() - score[~member].mean()))
    radius = c.one_run_ate(
        members=n // 2, nonmembers=n // 2, confidence=0.95, error_stability=found.alpha, training_stability=found.beta
    ).radius
    truth = float(np.mean(errors))
    assert np.max(np.abs(np.array(errors) - truth)) < radius
    assert radius < 1  # of a width of one: it says something


def test_the_name_of_a_score_is_read_only_where_there_are_several() -> None:
    evidence = one_model("one-run")
    stated = SimpleNamespace(alpha=1e-4, beta=1e-4, pairs=20, score="loss")
    plain = c.of_one_model(evidence, Seen(1e-4, 1e-4), 0.95)
    assert c.of_one_model(evidence, stated, 0.95) == plain
    several = evidence.replace(score={"loss": evidence.score, "other": np.zeros(4000)})
    assert c.of_one_model(several, stated, 0.95) == plain.replace("the score is", "loss is").replace(
        c.MEASURED, f"{c.MEASURED} (of loss)"
    )
