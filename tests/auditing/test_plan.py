"""A plan refuses what it cannot keep."""

from __future__ import annotations

import dataclasses
import json

import pytest

from miaudit import Plan
from miaudit.auditing.headline import Bonferroni, Declared, Exploratory, Split, headline_named
from miaudit.auditing.plan import Bootstrap, Bounds, Calibrated
from miaudit.auditing.reference import Reference
from miaudit.dp.mechanism import GaussianNoise, LaplaceNoise
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError


def test_the_defaults_are_those_of_the_contract() -> None:
    plan = Plan()
    assert plan.fpr_targets == (0.001, 0.01, 0.1)
    assert plan.confidence == 0.95
    assert plan.levels == (0.02, 0.05, 0.1)
    assert (plan.headline, plan.intervals, plan.n_bootstrap, plan.row_level) == (Bonferroni(), Calibrated(), 0, 0)
    assert plan.metric_names[:3] == ("tpr_at_fpr_0.001", "tpr_at_fpr_0.01", "tpr_at_fpr_0.1")


def test_targets_are_sorted_and_unique() -> None:
    assert Plan(fpr_targets=(0.1, 0.01, 0.1)).fpr_targets == (0.01, 0.1)
    assert Plan(fpr_targets=[0.1]).fpr_targets == (0.1,)
    assert Plan(fpr_targets=(0.01,), primary_metric="tpr_at_fpr_0.0100").primary_metric == "tpr_at_fpr_0.01"
    assert Plan(fpr_targets=(0.0001,), primary_metric="tpr_at_fpr_1e-4").primary_metric == "tpr_at_fpr_0.0001"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"fpr_targets": ()}, "fpr_targets"),
        ({"fpr_targets": (0.0,)}, "fpr_targets"),
        ({"fpr_targets": (1.0,)}, "fpr_targets"),
        ({"fpr_targets": (0.1, -0.1)}, "fpr_targets"),
        ({"fpr_targets": (float("nan"),)}, "fpr_targets"),
        ({"fpr_targets": 0.1}, "fpr_targets"),
        ({"fpr_targets": ("a",)}, "fpr_targets"),
        ({"confidence": 95}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"levels": (0.1, 0.05, 0.2)}, "levels"),
        ({"levels": (0.1, 0.2)}, "levels"),
        ({"levels": (0.0, 0.1, 0.2)}, "levels"),
        ({"prior": 0.0}, "prior"),
        ({"prior": 1.0}, "prior"),
        ({"n_bootstrap": 99}, "n_bootstrap"),
        ({"n_bootstrap": 10**9}, "n_bootstrap"),
        ({"n_bootstrap": 100.5}, "n_bootstrap"),
        ({"intervals": Bootstrap()}, "n_bootstrap"),
        ({"intervals": "bootstrap"}, "intervals"),
        ({"headline": "split"}, "headline"),
        ({"row_level": -1}, "row_level"),
        ({"primary_metric": "tpr_at_fpr_0.05"}, "primary_metric"),
        ({"primary_metric": "tpr_at_fpr_x"}, "primary_metric"),
        ({"primary_metric": "acu"}, "primary_metric"),
        ({"primary_metric": "ate"}, "threshold_for_concern"),
        ({"threshold_for_concern": 5}, "threshold_for_concern"),
        ({"threshold_for_concern": float("inf")}, "threshold_for_concern"),
        ({"threshold_for_concern": "a"}, "threshold_for_concern"),
    ],
)
def test_an_impossible_option_is_refused_by_name(options: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        Plan(**options)
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.95, 1.0, float("nan")])
def test_a_split_leaves_something_on_both_sides(share: float) -> None:
    with pytest.raises(InputError):
        Split(share)


def test_plans_are_frozen_and_plain() -> None:
    plan = Plan(headline=Declared("loss"), intervals=Bootstrap(), n_bootstrap=200, propensity_model="stack")
    plan = dataclasses.replace(plan, classifier="forest", bounds_model="screened")
    plan = dataclasses.replace(plan, reference=Reference("small", "older", trained_on_neither=True))
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.confidence = 0.9
    plain = plan.to_dict()
    assert plain["headline"] == {"kind": "declared", "score": "loss"}
    assert plain["intervals"] == {"kind": "bootstrap"}
    assert plain["reference"] == {
        "kind": "reference",
        "covariate": "small",
        "test": "older",
        "trained_on_neither": True,
    }
    assert json.loads(json.dumps(plain)) == plain
    single = {"primary_metric", "threshold_for_concern", "exclude_levels", "by_covariates"}  # where stated
    assert set(plain) == {field.name for field in dataclasses.fields(Plan)} - single
    assert plain["limits"] == dict(plan.policy.limits) | {"surest_members": 0.9}
    stated = Plan(primary_metric="auc", threshold_for_concern=0.6).to_dict()
    assert stated["limits"] == {"auc": 0.6}
    assert {name: stated[name] for name in single & set(stated)} == {
        "primary_metric": "auc",
        "threshold_for_concern": 0.6,
    }


def test_headlines_have_words() -> None:
    assert headline_named("bonferroni") == Bonferroni()
    assert headline_named("exploratory") == Exploratory()
    assert headline_named("margin") == Declared("margin")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"claim": "8"}, "claim"),
        ({"mechanism": {"kind": "gaussian", "noise": 1}}, "mechanism"),
        ({"mechanism": LaplaceNoise(1.0), "claim": Claim.gaussian(1.0)}, "mechanism"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"guesses": "pilot"}, "guesses"),
        ({"guesses": True}, "guesses"),
        ({"guesses": 0}, "count"),
        ({"correction": "thining"}, "correction"),
        ({"correction": "poisson-binomial"}, "correction"),
        ({"correction": None}, "correction"),
        ({"margin": -0.1}, "margin"),
        ({"margin": float("inf")}, "margin"),
        ({"margin": True}, "margin"),
    ],
)
def test_bounds_refuse_what_cannot_be_bounded(options: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        Bounds(**options)
    assert caught.value.argument == argument


def test_bounds_are_plain_in_a_plan() -> None:
    plain = Plan(bounds=Bounds(Claim.gaussian(1.0), GaussianNoise(2.0), guesses=50)).to_dict()["bounds"]
    assert plain["claim"] == {"kind": "claim", "parameter": "mu", "value": 1.0, "delta": 0.0}
    assert plain["mechanism"] == {"kind": "gaussiannoise", "noise": 2.0}
    assert json.loads(json.dumps(plain)) == plain
    assert Plan(bounds=None).to_dict()["bounds"] is None
    with pytest.raises(InputError, match="bounds"):
        Plan(bounds=True)
