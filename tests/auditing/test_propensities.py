"""Propensities from elsewhere: what is given is used as it is, what is learned from a sample is that of fit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from miaudit import Evidence, Plan
from miaudit.auditing import pipeline, propensities
from miaudit.causal import propensity
from miaudit.causal.covariates import Categories
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError

NO_BOUNDS = Plan(bounds=None, primary_metric="auc", fpr_targets=(0.1,), propensity_model="line", estimator="hajek")


def world(n: int, seed: int, slope: float = 0.7) -> tuple[Evidence, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.c_[rng.normal(size=n), rng.integers(0, 3, n)]
    pi = 1 / (1 + np.exp(-slope * x[:, 0]))
    member = rng.random(n) < pi
    names = ["age", "site"]
    return (
        Evidence(
            score=x[:, 0] + rng.normal(size=n), member=member, covariates=x, covariate_names=names, design="zero-run"
        ),
        pi,
    )


EVIDENCE, PI = world(1500, 0)
SAMPLE, _ = world(3000, 1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.where(np.arange(1500) == 7, 0.0, PI), "strictly between 0 and 1, received 0 in row 7 .1 such rows."),
        (np.where(np.arange(1500) < 5, 1.2, PI), "strictly between 0 and 1, received 1.2 in row 0 .5 such rows."),
        (np.where(np.arange(1500) == 9, np.nan, PI), "a probability for each record, received 1 missing, .* row 9"),
        (PI[:-3], "1,500 propensities, one for each record, received 1,497; give one for each record, in the order"),
        (np.c_[PI, PI], "1,500 propensities, .* shape .1500, 2."),
        (PI.astype(str), "strictly between 0 and 1, received values of type <U.*; convert"),
    ],
)
def test_what_is_no_propensity_of_these_records_is_refused_in_one_line(values: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=f"^pi: expected {said}|^pi: expected probabilities {said}"):
        propensities.given("pi", values, EVIDENCE)


def test_a_given_propensity_is_used_as_it_is() -> None:
    own = propensities.from_elsewhere(
        EVIDENCE, NO_BOUNDS, propensities.given("pi", PI, EVIDENCE), None, rng=np.random.default_rng(0)
    )
    assert own is not None and own.propensity is not None
    assert np.array_equal(own.propensity.values, PI) and own.propensity.rows_per_covariate is None


@pytest.mark.long
def test_propensities_of_other_rows_are_refuted_and_those_of_these_rows_are_not() -> None:
    """Nobody can see from numbers in (0, 1) whose they are, but what they leave unbalanced can be seen."""

    def status(values: np.ndarray) -> str:
        nuisance = Nuisance(propensity=Propensity.given(values))
        return pipeline.audit(EVIDENCE, plan=NO_BOUNDS, nuisance=nuisance, rng=np.random.default_rng(0)).verdict.status

    assert status(PI) != "refused"
    assert status(np.random.default_rng(2).permutation(PI)) == "refused"


@pytest.mark.parametrize("categories", [(), ("site",)])
def test_a_sample_teaches_what_fit_learns_from_it(categories: tuple[str, ...]) -> None:
    plan = dataclasses.replace(NO_BOUNDS, categories=categories)
    own = propensities.from_elsewhere(EVIDENCE, plan, None, SAMPLE, rng=np.random.default_rng(3))
    encoding = Categories((1,)) if categories else None
    again = propensity.fit(EVIDENCE, encoding=encoding, train=SAMPLE, rng=np.random.default_rng(3))
    assert own is not None and own.propensity is not None
    assert np.array_equal(own.propensity.values, again.values)
    assert own.propensity.how.startswith("on 3,000 separate records")
    assert np.abs(own.propensity.logit - np.log(PI / (1 - PI))).mean() < 0.15  # and that is the truth
    learned_here = propensity.fit(EVIDENCE, encoding=encoding, rng=np.random.default_rng(3))
    assert not np.array_equal(own.propensity.values, learned_here.values)


def test_a_classifier_of_the_plan_learns_from_the_sample() -> None:
    plan = dataclasses.replace(NO_BOUNDS, classifier="naive-bayes")
    own = propensities.from_elsewhere(EVIDENCE, plan, None, SAMPLE, rng=np.random.default_rng(3))
    assert own is not None and own.propensity is not None and "GaussianNB" in own.propensity.how


def test_a_sample_of_the_audited_records_is_refused() -> None:
    few = SAMPLE.replace(covariates=np.r_[EVIDENCE.covariates[:45], SAMPLE.covariates[45:]])  # 3% of the audited
    for sample in (EVIDENCE, EVIDENCE.take(np.arange(700)), few):
        with pytest.raises(InputError, match=r"^propensity sample: expected records other than the audited ones"):
            propensities.from_elsewhere(EVIDENCE, NO_BOUNDS, None, sample, rng=np.random.default_rng(0))


def test_a_sample_whose_rows_repeat_by_chance_is_none_of_the_audited_records() -> None:
    coarse, other = (one.replace(covariates=one.covariates.round()) for one in (EVIDENCE, SAMPLE))
    assert propensities.from_elsewhere(coarse, NO_BOUNDS, None, other, rng=np.random.default_rng(0)) is not None


def test_where_memberships_were_drawn_nothing_is_learned() -> None:
    drawn = EVIDENCE.replace(design="one-run")
    assert propensities.from_elsewhere(drawn, NO_BOUNDS, PI, SAMPLE, rng=np.random.default_rng(0)) is None


@pytest.mark.long
def test_a_classifier_of_the_plan_is_that_of_the_nuisance_models() -> None:
    """The plan's name and the caller's model of the same settings give the same findings, and two are too many."""
    from miaudit.causal.classifiers import CLASSIFIERS

    named = dataclasses.replace(NO_BOUNDS, classifier="naive-bayes")
    own = Nuisance(classifier=CLASSIFIERS["naive-bayes"]())
    one = pipeline.audit(EVIDENCE, plan=named, rng=np.random.default_rng(0)).to_dict()
    two = pipeline.audit(EVIDENCE, plan=NO_BOUNDS, nuisance=own, rng=np.random.default_rng(0)).to_dict()
    assert (one["plan"].pop("classifier"), two["plan"].pop("classifier")) == ("naive-bayes", None)
    assert one == two
    with pytest.raises(InputError, match=r"^classifier: expected one, of the plan or of the nuisance models"):
        pipeline.audit(EVIDENCE, plan=named, nuisance=own, rng=np.random.default_rng(0))
