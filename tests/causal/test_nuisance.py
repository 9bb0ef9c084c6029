"""The caller's own nuisance models, alone and in a whole audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

from miaudit import Evidence, Findings, Plan, audit
from miaudit.auditing.headline import Split
from miaudit.causal import propensity, replicates
from miaudit.causal.covariates import Custom, Reduced
from miaudit.causal.outcome import LocationScale
from miaudit.causal.progress import TOTAL
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError

PLAN = Plan(fpr_targets=(0.1,), primary_metric="auc", propensity_model="line", estimator="hajek")


def circle(n: int = 3000, effect: float = 0.0, seed: int = 0) -> tuple[Evidence, np.ndarray]:
    """Members are N(0, 1.3), non-members N(0, 2): membership and score depend on the square; also the true log-odds."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    x = rng.normal(size=n) * np.where(member, 1.3, 2.0)
    score = -(x**2) / 4 + rng.normal(size=n) + effect * member
    log_odds = np.log(2 / 1.3) - x**2 / 2 * (1 / 1.3**2 - 1 / 4)
    return Evidence(score=score, member=member, covariates=x, design="zero-run"), log_odds


def audited(evidence: Evidence, nuisance: Nuisance | None, plan: Plan = PLAN) -> Findings:
    found = audit(evidence, plan=plan, nuisance=nuisance, rng=np.random.default_rng(0))
    Findings.from_dict(found.to_dict())
    return found


def pick(found: Findings, name: str, estimator: str):
    return next(m for m in found.metrics if (m.name, m.estimator) == (name, estimator))


def square(x: np.ndarray) -> np.ndarray:
    return x**2


@pytest.mark.thorough
@pytest.mark.long
def test_a_function_of_the_caller_sees_what_the_default_does_not() -> None:
    evidence, _ = circle()
    own = audited(evidence, Nuisance(encoding=Custom(square)))
    assert pick(own, "auc", "raw").low > 0.55
    causal = pick(own, "auc", "hajek")
    assert causal.low < 0.5 < causal.high
    assert own.overlap is not None
    assert "features of square" in own.overlap.propensity
    assert "features of square" in own.corrections[0]
    assert {f.name for f in own.overlap.features} == {"feature 1", "feature 1, squared"}
    default = audited(evidence, None)  # the control: a line in x sees nothing, and the balance of squares says so
    assert default.verdict.status == "refused"


@pytest.mark.thorough
@pytest.mark.long
def test_any_classifier() -> None:
    evidence, _ = circle()
    forest = RandomForestClassifier(50, min_samples_leaf=50)
    for model in (GaussianNB(), forest):
        found = audited(evidence, Nuisance(classifier=model))
        causal = pick(found, "auc", "hajek")
        assert causal.low < 0.5 < causal.high
        assert found.overlap is not None
        assert type(model).__name__ in found.overlap.propensity
        assert found.overlap.learning is not None


@pytest.mark.thorough
@pytest.mark.long
def test_a_known_propensity_is_judged_by_all_but_a_learning_curve() -> None:
    evidence, log_odds = circle(effect=1.0)
    known = Propensity.given(special.expit(log_odds), "known by design")
    found = audited(evidence, Nuisance(propensity=known))
    causal = pick(found, "ate", "hajek")
    assert causal.low < 1.0 < causal.high
    assert found.overlap is not None
    assert (found.overlap.propensity, found.overlap.learning) == ("known by design", None)
    assert found.overlap.blind_auc > 0.55
    assert len(found.overlap.features) == 2
    wrong = Propensity.given(np.full(evidence.n, 0.5))  # the control: balance shows that it is none
    assert audited(evidence, Nuisance(propensity=wrong)).verdict.status == "refused"
    bare = audited(evidence.replace(covariates=None), Nuisance(propensity=known))
    assert pick(bare, "auc", "hajek").value == pick(found, "auc", "hajek").value
    assert any("cannot be checked" in warning for warning in bare.overlap.warnings)  # type: ignore[union-attr]
    assert bare.overlap.duplicates is None  # type: ignore[union-attr]


@pytest.mark.thorough
@pytest.mark.long
def test_a_known_propensity_follows_its_records_into_groups_and_splits() -> None:
    evidence, log_odds = circle(4000, 1.0)
    grouped = evidence.replace(
        score={"a": evidence.score, "b": evidence.score**3}, group=np.arange(4000) % 2, unit=np.arange(4000)
    )
    known = Propensity.given(special.expit(log_odds))
    found = audited(grouped, Nuisance(propensity=known), replace(PLAN, headline=Split()))
    assert found.scores[0].metrics[0].estimator == "hajek"
    assert len(found.groups) == 2
    shuffled = np.random.default_rng(0).permutation(log_odds)  # the control: propensities of other records
    wrong = Nuisance(propensity=Propensity.given(special.expit(shuffled)))
    assert audited(grouped, wrong).verdict.status == "refused"
    with pytest.raises(InputError, match="4,000 values"):
        audited(evidence, Nuisance(propensity=Propensity.given([0.5, 0.6])))


@pytest.mark.thorough
@pytest.mark.long
def test_the_outcome_model_of_the_caller_is_the_one_used_and_named() -> None:
    evidence, log_odds = circle(effect=1.0)
    plan = replace(PLAN, estimator="aipw")
    known = Propensity.given(special.expit(log_odds))
    found = audited(evidence, Nuisance(propensity=known, outcome=LinearRegression()), plan)
    assert "LinearRegression, location-scale" in found.corrections[0]
    assert "LinearRegression" in pick(found, "ate", "aipw").note
    default = audited(evidence, Nuisance(propensity=known), plan)
    assert "ridge on covariates and squares" in default.corrections[0]
    wide, narrow = (pick(each, "ate", "aipw") for each in (found, default))
    assert narrow.high - narrow.low < wide.high - wide.low  # the default knows squares, a line does not
    both = audited(evidence, Nuisance(propensity=known, outcome=LocationScale(scale=False)), plan)
    assert "location, 5 folds" in both.corrections[0]


@pytest.mark.thorough
@pytest.mark.long
def test_few_nonmembers_of_a_group_do_without_an_outcome_model() -> None:
    evidence, _ = circle()
    group = np.where(np.isin(np.arange(3000), np.r_[np.arange(15), 2000 + np.arange(15)]), "rare", "common")
    plan = replace(PLAN, estimator="aipw")
    found = audited(evidence.replace(group=group), Nuisance(encoding=Custom(square)), plan)
    assert {g.group: g.metrics[1].estimator for g in found.groups} == {"common": "aipw", "rare": "hajek"}


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"encoding": "numbers"}, "encoding"),
        ({"encoding": Reduced(0)}, "components"),
        ({"classifier": LinearRegression()}, "classifier"),
        ({"outcome": "ridge"}, "outcome"),
        ({"propensity": np.ones(4)}, "propensity"),
        ({"propensity": Propensity.given([0.5]), "classifier": GaussianNB()}, "classifier"),
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
    ],
)
def test_refusals(fields: dict[str, Any], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        Nuisance(**fields)
    assert caught.value.argument == argument


def test_a_fitted_law_is_refused() -> None:
    rng = np.random.default_rng(0)
    law = LocationScale().fit(rng.normal(size=(100, 1)), rng.normal(size=100), np.arange(100) < 50, rng=rng)
    with pytest.raises(InputError, match="belongs to one score"):
        Nuisance(outcome=law)


def test_models_that_do_not_go_with_plan_or_evidence_are_refused() -> None:
    evidence, _ = circle(200)
    for nuisance, plan, word in (
        (Nuisance(outcome=LinearRegression()), PLAN, "aipw"),
        (Nuisance(encoding=Custom(square)), Plan(components=2), "components"),
        (Nuisance(encoding=Custom(square)), Plan(categories=("0",)), "categories"),
        (GaussianNB(), PLAN, "pass miaudit.causal.propensity.Nuisance"),
    ):
        with pytest.raises(InputError, match=word):
            audited(evidence, nuisance, plan)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unless the design is zero-run"):
        audited(evidence.replace(design="one-run"), Nuisance(classifier=GaussianNB()))


# -- the bootstrap that learns the propensity again -------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
def test_bootstrap_limits_stand_beside_corrected_metrics_and_learn_the_propensity_again() -> None:
    evidence, log_odds = circle(1500, effect=0.5)
    plan = replace(PLAN, fpr_targets=(0.001, 0.1), n_bootstrap=200)
    told: list[tuple[int, int]] = []
    learned = audit(
        evidence,
        plan=plan,
        nuisance=Nuisance(encoding=Custom(square)),
        rng=np.random.default_rng(0),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (TOTAL, TOTAL)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert "learned again" in learned.corrections[0]
    for name in ("auc", "ate", "tpr_at_fpr_0.1"):
        metric = pick(learned, name, "hajek")
        assert metric.bootstrap is not None
        assert metric.bootstrap["replicates"] == 200
        assert metric.bootstrap["low"] <= metric.value <= metric.bootstrap["high"]
        width, beside = metric.high - metric.low, metric.bootstrap["high"] - metric.bootstrap["low"]
        assert 0.4 < beside / width < 1.6
    unresolved = pick(learned, "tpr_at_fpr_0.001", "hajek")
    assert unresolved.value is None
    assert unresolved.bootstrap == {"low": unresolved.low, "high": unresolved.high, "replicates": 200}
    assert pick(learned, "advantage", "hajek").bootstrap is None
    known = audited(evidence, Nuisance(propensity=Propensity.given(special.expit(log_odds))), plan)
    assert "were given" in known.corrections[0]
    assert pick(known, "auc", "hajek").bootstrap is not None


@pytest.mark.long
def test_bootstrap_limits_are_those_of_effects_on_the_same_resamples() -> None:
    """The second truth: whole arrays of replicates of the very propensity, given to ``replicates.bootstrap_limits``."""
    from miaudit.auditing import zero_run

    evidence, _ = circle(700, effect=0.5)
    plan = replace(PLAN, n_bootstrap=120)
    assessed = zero_run.assess(evidence, plan, Nuisance(encoding=Custom(square)), rng=np.random.default_rng(0))
    assert not isinstance(assessed, str)
    found = zero_run.bootstrapped(evidence, assessed, plan, 0.9)["score"]
    counts, _ = assessed.refits(evidence, 120)
    again = propensity.bootstrap(
        evidence, replicates=120, encoding=Custom(square), folds=assessed.propensity.folds, counts=counts,
        rng=np.random.default_rng(assessed.seed),
    )  # fmt: skip
    expected = replicates.bootstrap_limits(evidence, again / (1 - again), counts, fpr_targets=(0.1,), confidence=0.9)
    assert found == {name: pytest.approx(limits) for name, limits in expected.items()}
    # These are replicates of the propensity that weights the audit, not of another one.
    centre = np.log(again / (1 - again)).mean(axis=0)
    assert np.abs(centre - assessed.propensity.logit).max() < 4 * np.log(again / (1 - again)).std(axis=0).max()
    assert np.corrcoef(centre, assessed.propensity.logit)[0, 1] > 0.99


@pytest.mark.thorough
@pytest.mark.long
def test_bootstrap_intervals_take_the_place_of_the_default_ones() -> None:
    from miaudit.auditing.plan import Bootstrap

    evidence, _ = circle(1500, effect=0.5)
    plan = replace(PLAN, n_bootstrap=200)
    nuisance = Nuisance(encoding=Custom(square))
    beside = audited(evidence, nuisance, plan)
    placed = audited(evidence, nuisance, replace(plan, intervals=Bootstrap()))
    for name in ("auc", "ate"):
        metric, before = pick(placed, name, "hajek"), pick(beside, name, "hajek")
        assert before.bootstrap is not None
        assert (metric.low, metric.high) == (before.bootstrap["low"], before.bootstrap["high"])
        assert (metric.low, metric.high) != (before.low, before.high)
    best = pick(placed, "advantage", "hajek"), pick(beside, "advantage", "hajek")
    assert (best[0].low, best[0].high) == (best[1].low, best[1].high)


@pytest.mark.thorough
@pytest.mark.long
def test_a_classifier_is_refitted_and_workers_change_nothing() -> None:
    evidence, _ = circle(500, effect=0.5)
    plan = replace(PLAN, n_bootstrap=100, raw_only=True)
    model = LogisticRegression()
    texts = [audited(evidence, Nuisance(Custom(square), model, workers=workers), plan).to_json() for workers in (1, 2)]
    assert texts[0] == texts[1]
    assert "LogisticRegression" in texts[0]


def test_a_part_of_a_learned_propensity_is_learned_and_a_part_of_a_given_one_given() -> None:
    """A split audit would take a learned one for known otherwise, and its bounds would pay for no uncertainty."""
    evidence, log_odds = circle(400)
    learned = propensity.fit(evidence, rng=np.random.default_rng(0))
    rows = np.arange(0, 400, 2)
    part = Nuisance(propensity=learned).of_rows(rows).propensity
    assert part is not None
    assert part.rows_per_covariate == learned.rows_per_covariate
    assert part.logistic
    assert part.folds is not None
    assert learned.folds is not None
    assert part.folds.tolist() == learned.folds[rows].tolist()
    given = Nuisance(propensity=Propensity.given(special.expit(log_odds))).of_rows(rows).propensity
    assert given is not None
    assert given.rows_per_covariate is None
    assert given.folds is None
