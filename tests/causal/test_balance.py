from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from miaudit import Evidence
from miaudit.causal.balance import Balance, checks, judge_overlap, measure
from miaudit.causal.mean_differences import Difference
from miaudit.errors import InputError
from worlds.twins import auc_by_pairs, delong_by_pairs

FloatArray = NDArray[np.float64]
DATA = Path(__file__).parents[3] / "shared" / "data"


def given_odds(log_odds: FloatArray) -> SimpleNamespace:
    return SimpleNamespace(values=1 / (1 + np.exp(-log_odds)), odds=np.exp(log_odds))


def evidence_of(x: FloatArray, member: NDArray[np.bool_], **more: object) -> Evidence:
    return Evidence(score=np.zeros(len(member)), member=member, covariates=x, design="zero-run", **more)


def shifted(n1: int, n0: int, shift: float, seed: int, d: int = 3) -> tuple[Evidence, FloatArray]:
    """Gaussian covariates, members shifted in all; the log-odds are the true ones."""
    rng = np.random.default_rng(seed)
    member = np.arange(n1 + n0) < n1
    x = rng.normal(size=(n1 + n0, d)) + shift / math.sqrt(d) * member[:, None]
    return evidence_of(x, member), shift * x.sum(axis=1) / math.sqrt(d) - shift**2 / 2 + math.log(n1 / n0)


@pytest.fixture(scope="module")
def fair() -> Balance:
    evidence, log_odds = shifted(2000, 2000, 0.3, 0)
    return measure(evidence, given_odds(log_odds))


# -- second truths ----------------------------------------------------------------------------------------------------


def test_every_number_agrees_with_a_plain_loop() -> None:
    evidence, log_odds = shifted(60, 90, 1.0, 1, d=2)
    balance = measure(evidence, given_odds(log_odds))
    x, member = evidence.covariates, evidence.member
    assert x is not None
    weights = [math.exp(v) for v, m in zip(log_odds, member, strict=True) if not m]
    assert balance.effective_size == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert balance.largest_share == pytest.approx(max(weights) / sum(weights))
    tenth = sorted(log_odds[~member])[-10]
    assert balance.beyond == pytest.approx(sum(v > tenth for v in log_odds[member]) / 60)
    assert balance.blind_auc.value == pytest.approx(auc_by_pairs(log_odds, member))
    half = stats.norm.isf(0.025) * math.sqrt(delong_by_pairs(log_odds, member))
    auc = balance.blind_auc.value
    assert balance.blind_auc.low == pytest.approx(
        1 / (1 + math.exp(-math.log(auc / (1 - auc)) + half / auc / (1 - auc)))
    )
    found = {d.name: d for d in balance.differences}
    for i in range(2):
        z = (x[:, i] - x[member, i].mean()) / x[member, i].std()
        for name, column in ((f"covariate {i}", z), (f"covariate {i}, squared", z**2)):
            a, b = column[member], column[~member]
            assert found[name].before == pytest.approx((a.mean() - b.mean()) / a.std())
            assert found[name].after == pytest.approx((a.mean() - np.average(b, weights=weights)) / a.std())
    z = stats.norm.isf(0.005 / 4)
    assert balance.limit == pytest.approx(max(0.2, z * math.sqrt(1 / 60 + 1 / balance.effective_size)))
    assert len(balance.differences) == 4


def test_true_odds_balance_and_wrong_ones_do_not() -> None:
    evidence, log_odds = shifted(20_000, 20_000, 0.8, 2)
    right = measure(evidence, given_odds(log_odds))
    wrong = measure(evidence, given_odds(-log_odds))
    worst = max(abs(d.before) for d in right.differences)
    assert right.worst is not None
    assert wrong.worst is not None
    assert abs(right.worst.after) < 0.06 < 0.4 < worst < abs(wrong.worst.after)
    assert right.effective_size / 20_000 == pytest.approx(math.exp(-0.64), rel=0.1)  # between Gaussians
    assert right.blind_auc.value == pytest.approx(stats.norm.cdf(0.8 / math.sqrt(2)), abs=0.01)


def test_a_calibrated_propensity_lies_on_its_curve_and_a_doubled_one_does_not() -> None:
    evidence, log_odds = shifted(5000, 5000, 1.0, 3)
    bins = measure(evidence, given_odds(log_odds)).calibration
    assert [b.count for b in bins] == [1000] * 10
    doubled = measure(evidence, given_odds(2 * log_odds)).calibration
    right, wrong = ([b.limits()[0] <= b.predicted <= b.limits()[1] for b in found] for found in (bins, doubled))
    assert sum(right) >= 8
    assert sum(wrong) <= 4
    predicted = [b.predicted for b in bins]
    assert predicted == sorted(predicted)


# -- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(2, 40), st.integers(1, 4), st.floats(-30, 30))
def test_equal_weights_change_nothing(seed: int, n1: int, n0: int, d: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    evidence = evidence_of(rng.normal(size=(n1 + n0, d)), np.arange(n1 + n0) < n1)
    balance = measure(evidence, given_odds(np.full(n1 + n0, level)))
    assert balance.effective_size == pytest.approx(n0)
    assert balance.largest_share == pytest.approx(1 / n0)
    assert balance.beyond == 0.0
    assert balance.blind_auc.value == 0.5
    for difference in balance.differences:
        assert difference.after == pytest.approx(difference.before, abs=1e-9)
    assert len(balance.calibration) == 1


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-100, 100), st.floats(-5, 5))
def test_units_of_the_covariates_and_of_the_weights_do_not_matter(
    seed: int, scale: float, offset: float, prior: float
) -> None:
    rng = np.random.default_rng(seed)
    member = np.arange(60) < 25
    x, log_odds = rng.normal(size=(60, 2)), rng.normal(size=60)
    one = measure(evidence_of(x, member), given_odds(log_odds))
    other = measure(evidence_of(-scale * x + offset, member), given_odds(log_odds + prior))
    for a, b in zip(one.differences, other.differences, strict=True):
        assert abs(b.after) == pytest.approx(abs(a.after), abs=1e-6)
        assert abs(b.before) == pytest.approx(abs(a.before), abs=1e-6)
    assert other.effective_size == pytest.approx(one.effective_size)
    assert other.limit == pytest.approx(one.limit)
    assert 1 <= one.effective_size <= 35 * (1 + 1e-12)
    assert 1 / one.effective_size <= one.largest_share * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(1, 300), st.booleans())
def test_figures_add_up_and_show_no_row(seed: int, n1: int, n0: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(size=n1 + n0) * 3
    if ties:
        log_odds = np.round(log_odds)
    balance = measure(evidence_of(rng.normal(size=n1 + n0), np.arange(n1 + n0) < n1), given_odds(log_odds))
    assert sum(balance.log_odds.members) == pytest.approx(1, abs=1e-4)
    assert sum(balance.log_odds.nonmembers) == pytest.approx(1, abs=1e-4)
    assert len(balance.log_odds.edges) == len(balance.log_odds.members) + 1
    assert sum(b.count for b in balance.calibration) == n1 + n0
    assert min(b.count for b in balance.calibration) >= min(10, n1 + n0)
    assert sum(b.observed * b.count for b in balance.calibration) == pytest.approx(n1)
    if not ties:
        shown = {f"{edge:.12g}" for edge in balance.log_odds.edges}
        assert not shown & {f"{v:.12g}" for v in log_odds}


# -- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({}, "answered", ""),
        ({"blind": 0.80}, "answered", ""),
        ({"blind": 0.801}, "warned", "tell much of membership: AUC 0.801, above 0.80 (refused above 0.95)"),
        ({"blind": 0.95}, "warned", "AUC 0.950"),
        ({"blind": 0.951}, "refused", "nearly separate members from non-members: AUC 0.951, above the limit of 0.95"),
        ({"effective_size": 300.0}, "answered", ""),
        ({"effective_size": 299.9}, "warned", "count for 299 independent records, fewer than the 300 wanted"),
        ({"effective_size": 100.0}, "warned", "count for 100"),
        ({"effective_size": 99.9}, "refused", "count for 99 independent records, fewer than the 100 needed"),
        ({"largest_share": 0.10}, "answered", ""),
        ({"largest_share": 0.101}, "refused", "carries 10.1% of all weight, above the limit of 10%"),
        ({"beyond": 0.10}, "answered", ""),
        ({"beyond": 0.101}, "warned", "10.1% of members have no comparable non-member"),
        ({"beyond": 0.25}, "warned", "25.0%"),
        ({"beyond": 0.251}, "refused", "the share is above the limit of 25%"),
        ({"after": -0.10}, "answered", ""),
        ({"after": -0.101}, "warned", "differ by 0.101 standard deviations in age, above 0.10 (refused above 0.20)"),
        ({"after": 0.201}, "refused", "differ by 0.201 standard deviations in age, above the limit of 0.20"),
        ({"after": 0.201, "limit": 0.25}, "warned", "in age, above 0.10 (refused above 0.25)"),
    ],
)
def test_each_part_of_the_rule_at_its_limits(fair: Balance, change: dict[str, float], status: str, said: str) -> None:
    change = dict(change)
    blind = replace(fair.blind_auc, value=change.pop("blind", 0.6))
    after = change.pop("after", 0.0)
    balance = replace(fair, blind_auc=blind, differences=(Difference("age", 0.5, after),), **change)
    overlap = judge_overlap(balance)
    assert overlap.status == status
    assert len(overlap.reasons) == (status == "refused")
    assert len(overlap.warnings) == (status == "warned")
    assert said in "".join(overlap.reasons + overlap.warnings)
    assert [found for found, _ in checks(balance)].count("answered") == 5 - (status != "answered")


@pytest.mark.parametrize(
    ("name", "after", "said"),
    [
        ("age", 0.09, None),
        ("age", 0.15, "in age, above 0.10 (a stack is refused by standard errors, not by a limit)"),
        ("age", 0.5, "differ by 0.500 standard deviations in age, above 0.10 (a stack is refused by standard errors"),
        ("age, squared", 0.15, "in age, squared, above 0.10 (a stack is refused by standard errors, not by a limit)"),
        ("age, squared", -0.5, "differ by 0.500 standard deviations in age, squared, above 0.10 (a stack is"),
    ],
)
def test_no_difference_refuses_a_stack_or_is_said_to(fair: Balance, name: str, after: float, said: str | None) -> None:
    overlap = judge_overlap(replace(fair, differences=(Difference(name, 0.5, after),)), differences=False)
    assert not overlap.reasons
    assert [said in one for one in overlap.warnings if said] == [True] * (said is not None)
    assert "above the limit" not in "".join(overlap.warnings)


def test_the_worst_differences_are_shown_first(fair: Balance) -> None:
    many = tuple(Difference(f"x{i}", 0.01 * i, -0.02 * (30 - i)) for i in range(30))
    shown = judge_overlap(replace(fair, differences=many)).features
    size = [max(abs(one.after), abs(one.before)) for one in shown]
    assert size == sorted(size, reverse=True)
    assert shown[0].name == "x0"


def test_a_refusal_keeps_its_warnings(fair: Balance) -> None:
    overlap = judge_overlap(replace(fair, effective_size=50.0, beyond=0.2))
    assert overlap.status == "refused"
    assert len(overlap.reasons) == len(overlap.warnings) == 1


def test_a_tpr_of_any_score_needs_that_no_weight_is_large(fair: Balance) -> None:
    assert replace(fair, largest_share=1 / 369).resolves(0.01)
    assert not replace(fair, largest_share=1 / 368, effective_size=1000.0).resolves(0.01)


@pytest.mark.parametrize("kind", ["island", "scale"])
def test_an_island_and_a_scale_are_seen_by_the_differences_alone(kind: str) -> None:
    """The controls of the rule: a linear propensity is blind to both, and every other part of the rule is content."""
    rng = np.random.default_rng(4)
    member = np.arange(4000) < 2000
    x = rng.normal(size=(4000, 3))
    if kind == "island":
        x[member & (rng.random(4000) < 0.2), 0] += 4
    else:
        x[member] *= 1.5
    balance = measure(evidence_of(x, member), given_odds(LogisticRegression().fit(x, member).decision_function(x)))
    overlap = judge_overlap(balance)
    assert overlap.status == "refused"
    assert len(overlap.reasons) == 1
    assert "After weighting" in overlap.reasons[0]
    if kind == "scale":
        plain = replace(balance, differences=tuple(d for d in balance.differences if "squared" not in d.name))
        assert judge_overlap(plain).status == "answered"


def test_a_rare_category_that_no_member_has_is_no_island() -> None:
    rng = np.random.default_rng(9)
    member = np.arange(4000) < 2000
    x = np.c_[~member & (rng.random(4000) < 0.01), rng.normal(size=4000)].astype(float)
    assert judge_overlap(measure(evidence_of(x, member), given_odds(np.zeros(4000)))).status != "refused"


def test_a_bounded_mixture_with_a_blind_auc_of_90_percent_is_answered() -> None:
    member, noisy, x = mixture(5000, 5)
    log_odds = np.where(noisy, -1.0, 1.0) * math.log(9) + 0.05 * x[:, 1]
    balance = measure(evidence_of(x, member), given_odds(log_odds))
    assert balance.blind_auc.value == pytest.approx(0.90, abs=0.015)
    assert balance.effective_size == pytest.approx(616, rel=0.12)
    assert judge_overlap(balance).status == "warned"


def mixture(n: int, seed: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], FloatArray]:
    """Members 90% clean, non-members 90% noisy; how noisy is a covariate."""
    rng = np.random.default_rng(seed)
    member = np.arange(2 * n) < n
    noisy = rng.random(2 * n) < np.where(member, 0.1, 0.9)
    return member, noisy, np.c_[noisy.astype(float), rng.normal(size=2 * n)]


@pytest.mark.parametrize(
    "change", [{"effective_size": 99.0}, {"largest_share": 0.2}, {"beyond": 0.3}, {"blind_auc": 0.96}]
)
def test_a_stack_is_refused_by_every_other_part_of_the_rule(fair: Balance, change: dict[str, float]) -> None:
    changes: dict[str, object] = dict(change)
    if "blind_auc" in change:
        changes["blind_auc"] = replace(fair.blind_auc, value=change["blind_auc"])
    apart = (Difference("age", 0.5, 0.5),)  # which alone would only be warned of
    overlap = judge_overlap(replace(fair, differences=apart, **changes), differences=False)
    assert overlap.status == "refused"
    assert (len(overlap.reasons), len(overlap.warnings)) == (1, 1)
    assert overlap.clipped == 0


# -- odd input --------------------------------------------------------------------------------------------------------


def test_only_constant_covariates() -> None:
    balance = measure(evidence_of(np.ones(40), np.arange(40) < 20), given_odds(np.zeros(40)))
    assert balance.worst is None
    assert judge_overlap(balance).status == "refused"  # too few


def test_a_covariate_that_separates_is_refused() -> None:
    member = np.arange(2000) < 1000
    balance = measure(evidence_of(member.astype(float), member), given_odds(np.zeros(2000)))
    assert judge_overlap(balance).status == "refused"


def test_units_are_counted_once() -> None:
    evidence, log_odds = shifted(500, 500, 0.3, 7)
    many = evidence.take(np.repeat(np.arange(1000), 4)).replace(unit=np.repeat(np.arange(1000), 4))
    one = measure(evidence, given_odds(log_odds))
    four = measure(many, given_odds(np.repeat(log_odds, 4)))
    assert four.of == "units"
    assert four.effective_size == pytest.approx(one.effective_size)
    assert four.effective_members == pytest.approx(500)
    assert four.largest_share == pytest.approx(one.largest_share)
    assert four.limit == pytest.approx(one.limit)
    assert four.blind_auc.high - four.blind_auc.low == pytest.approx(one.blind_auc.high - one.blind_auc.low, rel=0.02)


@pytest.mark.parametrize(
    ("propensity", "said"),
    [
        (SimpleNamespace(values=np.full(3, 0.5), odds=np.ones(3)), "propensity: expected 4 values"),
        (SimpleNamespace(values=np.array([0.5, 1, 0.5, 0.5]), odds=np.array([1, np.inf, 1, 1])), "first in row 1"),
        (SimpleNamespace(values=np.array([0.5, 0.5, 0, 0.5]), odds=np.array([1, 1, 0.0, 1])), "first in row 2"),
        (SimpleNamespace(values=np.full(4, np.nan), odds=np.full(4, np.nan)), "4 others"),
    ],
)
def test_propensities_that_cannot_be_used(propensity: SimpleNamespace, said: str) -> None:
    evidence = evidence_of(np.arange(4.0), np.array([True, False, True, False]))
    with pytest.raises(InputError, match=said):
        measure(evidence, propensity)


def test_without_covariates_the_propensity_alone_is_judged() -> None:
    evidence, log_odds = shifted(400, 400, 1.0, 3)
    known = given_odds(log_odds)
    bare, full = measure(evidence.replace(covariates=None), known), measure(evidence, known)
    assert (bare.differences, bare.constant, bare.worst) == ((), (), None)
    assert (bare.blind_auc, bare.effective_size, bare.beyond) == (full.blind_auc, full.effective_size, full.beyond)
    assert judge_overlap(bare).status == "warned"
    apart, log_odds = shifted(400, 400, 4.0, 3)  # the control: no overlap is seen without covariates too
    assert judge_overlap(measure(apart.replace(covariates=None), given_odds(log_odds))).status == "refused"


def test_records_are_frozen(fair: Balance) -> None:
    for record in (fair, judge_overlap(fair), fair.differences[0], fair.calibration[0], fair.log_odds):
        with pytest.raises(FrozenInstanceError):
            record.status = "answered"  # type: ignore[misc, union-attr]


def test_extreme_odds_neither_overflow_nor_warn() -> None:
    evidence, log_odds = shifted(200, 200, 1.0, 8)
    one = measure(evidence, given_odds(log_odds))
    other = measure(evidence, SimpleNamespace(values=given_odds(log_odds).values, odds=np.exp(log_odds) * 1e300))
    assert other.effective_size == pytest.approx(one.effective_size)


# -- real data --------------------------------------------------------------------------------------------------------


def learned(x: FloatArray, member: NDArray[np.bool_], seed: int) -> SimpleNamespace:
    if x.shape[1] > 100:  # the search takes a quarter of a minute there
        chosen = LogisticRegression(C=1e-3)
    else:
        chosen = LogisticRegressionCV(
            Cs=[1e-4, 1e-3, 1e-2, 0.1, 1.0], cv=3, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss"
        )
    model = CalibratedClassifierCV(make_pipeline(StandardScaler(), chosen), method="sigmoid", cv=3, ensemble=False)
    order = np.random.default_rng(seed).permutation(len(member))
    values = np.empty(len(member))
    values[order] = cross_val_predict(model, x[order], member[order], cv=5, method="predict_proba")[:, 1]
    return SimpleNamespace(values=values, odds=values / (1 - values))


def file(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {path}: real data are not part of the checkout")
    return path


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize("year", [2019, 2021])
def test_years_of_a_census_are_answered(year: int) -> None:
    with np.load(file("acs_ct_income/acs_ct_income.npz"), allow_pickle=False) as z:
        rng = np.random.default_rng(year)
        rows = np.concatenate([rng.choice(np.flatnonzero(z["year"] == y), 3000, replace=False) for y in (2018, year)])
        x, member = np.nan_to_num(z["x"][rows].astype(np.float64), nan=-1.0), z["year"][rows] == 2018
    balance = measure(evidence_of(x, member), learned(x, member, 0))
    print(
        f"\nACS 2018/{year} blind {balance.blind_auc.value:.3f} ESS {balance.effective_size:.0f}",
        judge_overlap(balance),
    )
    assert 0.5 < balance.blind_auc.value < 0.62
    assert judge_overlap(balance).status != "refused"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize(
    ("pair", "pca", "status"),
    [
        (("amazon", "caltech10"), 10, "warned"),
        (("amazon", "caltech10"), 20, "warned"),
        (("amazon", "webcam"), 10, "refused"),
        (("amazon", "webcam"), 20, "refused"),
        *((pair, None, "refused") for pair in combinations(("amazon", "caltech10", "dslr", "webcam"), 2)),
    ],
)
def test_domains_of_pictures(pair: tuple[str, str], pca: int | None, status: str) -> None:
    with np.load(file("office_caltech10/office_caltech10_surf.npz"), allow_pickle=False) as z:
        name = np.array([n.decode() for n in z["domains"]])[z["domain"]]
        kept = np.isin(name, pair)
        x, member = z["x"][kept].astype(np.float64), name[kept] == pair[0]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if pca:
        x = PCA(pca, random_state=0).fit_transform(x)
    balance = measure(evidence_of(x, member), learned(x, member, 0))
    overlap = judge_overlap(balance)
    worst = balance.worst.after if balance.worst else 0.0
    print(
        f"\nSURF {pair} PCA {pca} blind {balance.blind_auc.value:.3f} ESS {balance.effective_size:.0f}"
        f" beyond {balance.beyond:.3f} worst {worst:.3f} of {balance.limit:.3f} {overlap.status}"
    )
    assert overlap.status == status
