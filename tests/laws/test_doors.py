"""Laws of the public doors: what draws refuses a seed, and whatever takes a propensity takes an array of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import miaudit as ma
from miaudit.causal import attribute_inference, balance, effects, propensity, sensitivity
from miaudit.causal.propensity import Propensity
from miaudit.dp import zero_run
from miaudit.errors import InputError


@cache
def evidence() -> tuple[ma.Evidence, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    pi = 1 / (1 + np.exp(-x))
    member = rng.random(400) < pi
    return ma.Evidence(score=x + member, member=member, covariates=x, design="zero-run"), pi


def schema() -> Any:
    return ma.synthesis.Schema((ma.synthesis.Column("a"), ma.synthesis.Column("b")))


def table() -> Any:
    return ma.synthesis.Table(schema(), np.arange(200).reshape(100, 2) % 2)


WORLD: dict[str, Any] = {
    "classes": 10,
    "aleatoric": 0.5,
    "epistemic": 0.25,
    "calibration_error": 0.2,
    "method": "simulation",
}
FAMILY: dict[str, Callable[[ma.Evidence, Any, Any], Any]] = {
    **{
        f"{name} {method}": lambda ev, pi, rng, name=name, method=method: getattr(effects, name)(
            ev, pi, method=method, rng=rng
        )
        for name in ("ate", "auc", "advantage", "balanced_accuracy")
        for method in ("hajek", "aipw")
    },
    "tpr_at_fpr": lambda ev, pi, rng: effects.tpr_at_fpr(ev, pi, fpr=0.1, rng=rng),
    "fpr_at_threshold": lambda ev, pi, rng: effects.fpr_at_threshold(ev, pi, threshold=0.5, rng=rng),
    "attribute_inference.effect": lambda ev, pi, rng: attribute_inference.effect(
        ev.replace(score=(ev.score > 0).astype(float)), pi, rng=rng
    ),
    "mu_lower_bound": lambda ev, pi, rng: zero_run.mu_lower_bound(ev, pi, guesses=50, rng=rng),
    "epsilon_lower_bound": lambda ev, pi, rng: zero_run.epsilon_lower_bound(ev, pi, guesses=50, rng=rng),
    "thin": lambda ev, pi, rng: zero_run.thin(ev, pi, rng=rng).effective,
    "audit": lambda ev, pi, rng: (
        ma.audit(ev, nuisance=ma.Nuisance(propensity=pi), plan=ma.Plan(bounds=None), rng=rng).metrics
    ),
}
WITHOUT_DRAWS: dict[str, Callable[[ma.Evidence, Any], Any]] = {
    "roc": lambda ev, pi: effects.roc(ev, pi).fpr.tolist(),
    "tpr_band": lambda ev, pi: effects.tpr_band(ev, pi, np.array([0.1]))[1].tolist(),
    "effective_nonmembers": effects.effective_nonmembers,
    "balance": balance.measure,
    "bounds": lambda ev, pi: sensitivity.bounds(ev, pi, odds_factor=2),
    "shift_curve": lambda ev, pi: zero_run.shift_curve(ev, pi).delta[0].tolist(),
    "testability": lambda ev, pi: zero_run.testability(ev, pi).testable,
}
DRAWS: dict[str, Callable[[Any], Any]] = {
    "propensity.fit": lambda rng: propensity.fit(evidence()[0], rng=rng),
    "propensity.stacked": lambda rng: propensity.stacked(evidence()[0], rng=rng),
    "propensity.bootstrap": lambda rng: propensity.bootstrap(evidence()[0], replicates=20, rng=rng),
    "learning_curve": lambda rng: propensity.learning_curve(evidence()[0], rng=rng),
    "one_run": lambda rng: ma.collect.one_run(lambda rows: 0, lambda model, rows: rows, records=100, rng=rng),
    "from_outputs": lambda rng: ma.collect.from_outputs(
        member=[1, 0] * 50, losses=range(100), attack=ma.collect.Attack(("gaussian_lira",)), rng=rng
    ),
    "disclosure.advantage": lambda rng: ma.disclosure.advantage("true-label", **WORLD, rng=rng),
    "synthesis.fit": lambda rng: ma.synthesis.fit(table(), method="tables", rng=rng),
    "membership_attack": lambda rng: ma.synthesis.membership_attack(table(), fit=lambda t, rng: None, rng=rng),
}


def marked(*doors: dict[str, Any]) -> list[Any]:
    """Names of doors; that of a whole audit takes longer."""
    names = [name for one in doors for name in one]
    return [pytest.param(name, marks=pytest.mark.long) if name == "audit" else name for name in names]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", marked(FAMILY, WITHOUT_DRAWS))
def test_an_array_is_as_good_as_a_propensity(name: str) -> None:
    ev, pi = evidence()
    forms = [Propensity.given(pi), pi, pi.tolist(), pd.Series(pi, index=range(5, 405))]
    if name in FAMILY:
        first, *others = (repr(FAMILY[name](ev, form, np.random.default_rng(3))) for form in forms)
    else:
        first, *others = (repr(WITHOUT_DRAWS[name](ev, form)) for form in forms)
    assert others == [first] * 3


@pytest.mark.parametrize("name", marked(FAMILY, WITHOUT_DRAWS))
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda pi: np.where(pi == pi.max(), 1.0, pi), "strictly between 0 and 1, received 1 in row"),
        (lambda pi: np.where(pi == pi.max(), math.nan, pi), "received nan in row"),
        (lambda pi: np.column_stack([1 - pi, pi]), "shape \\(400, 2\\)"),
        (lambda pi: "high", "received str"),
    ],
    ids=["certain", "missing", "two columns", "text"],
)
def test_a_wrong_array_is_named_as_what_it_is(name: str, wrong: Callable[[Any], Any], word: str) -> None:
    ev, pi = evidence()
    with pytest.raises(InputError, match=f"^propensity: .*{word}"):
        FAMILY[name](ev, wrong(pi), np.random.default_rng(0)) if name in FAMILY else WITHOUT_DRAWS[name](ev, wrong(pi))


@pytest.mark.parametrize("name", marked(FAMILY, DRAWS))
@pytest.mark.parametrize("seed", [7, "seed", np.random.RandomState(0)], ids=["number", "text", "old"])
def test_a_seed_alone_is_for_the_front_doors_and_the_rest_say_what_to_write(name: str, seed: object) -> None:
    ev, pi = evidence()
    if (name, seed) == ("audit", 7):
        assert FAMILY[name](ev, pi, seed) == FAMILY[name](ev, pi, seed)
        return
    written = "pass a seed such as rng=0" if name == "audit" else f"default_rng\\({7 if seed == 7 else 'seed'}\\)"
    with pytest.raises(InputError, match=f"^rng: .*{written}"):
        FAMILY[name](ev, pi, seed) if name in FAMILY else DRAWS[name](seed)
