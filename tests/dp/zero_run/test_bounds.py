"""The door of zero-run audits: figures of the paper's noisy sum and of pure epsilon, options, designs, bad input."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import nct

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.balance import judge_overlap, measure
from miaudit.causal.propensity import LearningCurve, Propensity
from miaudit.dp import one_run, zero_run
from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Hedged, Pilot, Schedule
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.zero_run import Composition, Conditional, PoissonBinomial, Sides, Thinning, composition
from miaudit.dp.zero_run import audit as zero_run_audit
from miaudit.dp.zero_run.independent_guesses import SeedStable, epsilon_bound
from miaudit.errors import DesignError, InputError
from worlds import zero_run as worlds
from worlds.noisy_sum import NoisySum, log_ratio

CLOSE = Composition(closeness=0.0)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def gaussian(n: int = 3000, mu: float = 2.0, shift: float = 1.0, seed: int = 0) -> tuple[Evidence, Propensity]:
    source = rng(seed)
    logit = shift * source.normal(size=n)
    pi = 1 / (1 + np.exp(-logit))
    member = source.random(n) < pi
    score = mu * member + source.normal(size=n)
    return Evidence(score=score, member=member, covariates=logit, design="zero-run"), Propensity.given(pi)


# -- the noisy sum of Appendix F --------------------------------------------------------------------------------------


@cache
def noisy_sums() -> tuple[NoisySum, ...]:
    return tuple(NoisySum.draw(seed) for seed in range(4))


def mean_bound(rho: float, **options: object) -> float:
    found = []
    for k, world in enumerate(noisy_sums()):
        ev, oracle = world.evidence(rho)
        found.append(zero_run.mu_lower_bound(ev, oracle, guesses=500, confidence=0.975, rng=rng(k), **options).value)
    return float(np.mean(found))


def test_the_oracle_is_the_ratio_of_noncentral_t_laws() -> None:
    t = np.linspace(-0.02, 0.05, 9)
    exact = nct.logpdf(t * math.sqrt(9999), 9999, 2.0) - nct.logpdf(t * math.sqrt(9999), 9999, 0.5)
    assert log_ratio(t, 2.0, 0.5, 9999) == pytest.approx(exact, abs=1e-5)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("rho", "known", "wide", "raw"), [(1, 0.36, 0.27, 0.36), (0.25, 0.31, 0.26, 0.94)])
def test_bounds_on_the_noisy_sum(rho: float, known: float, wide: float, raw: float) -> None:
    """Truth 0.66 (erratum B11). All four shifts: experiments/validity/zero_run.md."""
    assert known <= mean_bound(rho, centre="covariates") < 0.66
    assert wide <= mean_bound(rho, centre="covariates", correction=Thinning(half_width=0.2)) < 0.66
    assert mean_bound(rho, correction=CLOSE) == pytest.approx(raw, abs=0.06)  # uncorrected
    aware = mean_bound(rho, correction=Conditional(aware=True))
    assert aware == pytest.approx({1: 0.36, 0.25: 0.14}[rho], abs=0.06)
    if rho < 1:
        assert mean_bound(rho, correction="conditional") == 0  # unaware
        assert mean_bound(rho, correction=CLOSE) > 0.66  # the control: invalid
    else:
        known_pi = mean_bound(rho, correction=Thinning())
        assert known_pi == pytest.approx(mean_bound(rho, correction=CLOSE), abs=1e-9)  # at no shift nothing is dropped


# -- pure epsilon -----------------------------------------------------------------------------------------------------


def mean_epsilon(shift: str, count: int = 25, **options: object) -> float:
    found = []
    for seed in range(count):
        ev, oracle, _ = worlds.draw("told", shift, 2000, rng(seed))
        found.append(zero_run.epsilon_lower_bound(ev, oracle, rng=rng(seed), **{"guesses": 2000, **options}).value)
    return float(np.mean(found))


@pytest.mark.long
@pytest.mark.parametrize(("shift", "signed", "unsigned"), [("mild", 0.917, 0.539), ("strong", 0.894, 0.204)])
def test_signed_log_odds_keep_the_power_that_absolute_ones_lose(shift: str, signed: float, unsigned: float) -> None:
    """True epsilon 1, m = 2,000 (experiments/methods.md, section 3)."""
    found = mean_epsilon(shift)
    assert 0.85 <= found < 1
    assert found == pytest.approx(signed, abs=0.035)
    assert mean_epsilon(shift, correction=PoissonBinomial(signed=False)) == pytest.approx(unsigned, abs=0.03)


@pytest.mark.long
def test_the_ladder_of_erratum_b13() -> None:
    """Mild shift: b = e^-eps_DS .007, its smallest value .421, b(epsilon) .548, untampered .549, 500 smallest .751."""
    smallest, at_zero = [], []
    for seed in range(25):
        source = rng(seed)
        ev, oracle, _ = worlds.draw("told", "mild", 2000, source)
        right = (ev.score > 0) == ev.member
        shift, coins = np.abs(oracle.logit), source.random(2000)
        for b, found in ((np.exp(-shift), smallest), ((1 + np.exp(-shift)) / 2, at_zero)):
            count = int(np.count_nonzero(right & (coins < b)))
            found.append(one_run.epsilon_lower_bound(correct=count, guesses=2000, canaries=2000).value)
    ladder = (
        float(np.mean(smallest)),
        float(np.mean(at_zero)),
        mean_epsilon("mild", correction="conditional"),
        mean_epsilon("mild", correction=PoissonBinomial(signed=False)),
        mean_epsilon("mild", correction=PoissonBinomial(signed=False, smallest=500), guesses=500),
    )
    assert ladder == pytest.approx((0.007, 0.421, 0.548, 0.549, 0.751), abs=0.04)


def test_thinning_reaches_as_much() -> None:
    assert mean_epsilon("mild", correction="thinning", guesses=1600) > 0.8


# -- corrections and selections ---------------------------------------------------------------------------------------

ALL = [
    ("mu", "thinning"),
    ("mu", Thinning(half_width=0.1)),
    ("mu", Thinning(seeds=SeedStable(8))),
    ("mu", "conditional"),
    ("mu", Conditional(aware=True, signed=True)),
    ("mu", Composition(eta=0.3)),
    ("epsilon", "poisson-binomial"),
    ("epsilon", "thinning"),
    ("epsilon", Thinning(seeds=SeedStable(8))),
    ("epsilon", "conditional"),
    ("epsilon", Composition(closeness=0.5)),
]
SELECTIONS = [
    100,
    Fixed(100),
    Pilot(),
    Bonferroni(counts=(50, 100)),
    Exploratory(counts=(50, 100)),
    Sides(60, 40),
    None,
]


@pytest.mark.long
@pytest.mark.parametrize("guesses", SELECTIONS, ids=str)
@pytest.mark.parametrize(("parameter", "correction"), ALL, ids=str)
def test_every_correction_takes_every_selection(parameter: str, correction: object, guesses: object) -> None:
    ev, oracle = gaussian(1000, mu=3.0, shift=0.5)
    bound = zero_run.mu_lower_bound if parameter == "mu" else zero_run.epsilon_lower_bound
    found = bound(ev, oracle, guesses=guesses, correction=correction, rng=rng(1))
    again = bound(ev, oracle, guesses=guesses, correction=correction, rng=rng(1))
    assert found == again  # one recorded seed
    assert found.parameter == parameter
    assert found.method.startswith("zero run, ")
    assert found.confidence == 0.95
    assert found.exploratory == isinstance(guesses, Exploratory)
    assert 0 <= found.value <= (found.reachable or math.inf) + 1e-3
    assert 0 < found.p_value <= 1
    assert (found.value > 0) == (found.p_value < 0.05) or isinstance(correction, Thinning)
    assert any("independently" in text for text in found.assumptions)
    silent = Evidence(score=rng(3).normal(size=1000), member=ev.member, covariates=ev.covariates, design="zero-run")
    assert bound(silent, oracle, guesses=guesses, correction=correction, rng=rng(1)).value < 0.2


@pytest.mark.long
def test_a_schedule_ties_counts_to_parameters() -> None:
    ev, oracle = gaussian(2000)
    found = zero_run.mu_lower_bound(ev, oracle, guesses=Schedule(), rng=rng())
    assert 0 < found.value < 2
    assert 0 < zero_run.epsilon_lower_bound(ev, oracle, guesses=Schedule(), rng=rng()).value < 6


def test_the_exact_law_takes_the_few_numbers_of_guesses_alone() -> None:
    """A schedule there computes the law of every step; the five fractions at equal parts of the level hold as well."""
    ev, oracle = gaussian(2000)
    asked = {"correction": "poisson-binomial"}
    few = Bonferroni(Hedged().few)
    found, same = (zero_run.epsilon_lower_bound(ev, oracle, guesses=g, rng=rng(), **asked) for g in (None, few))
    assert found.value == pytest.approx(same.value, rel=0.05)  # the default guesses around the covariates' fit
    assert not any("first that was not rejected" in text for text in found.corrections)


@pytest.mark.parametrize("correction", ["thinning", "conditional"])
def test_the_default_is_a_hedged_schedule_around_what_covariates_say(correction: str) -> None:
    ev, oracle = gaussian(2000)
    bound = zero_run.mu_lower_bound
    found, same = (bound(ev, oracle, guesses=option, correction=correction, rng=rng()) for option in (None, Hedged()))
    assert found == same
    assert any("equal shares of the rest" in text for text in found.corrections)


def test_after_thinning_fractions_are_of_the_coins_that_no_label_decides() -> None:
    """Other coins keep another number of records; the numbers of guesses stay."""
    ev, oracle = gaussian(2000)
    texts = set()
    for seed in range(4):
        found = zero_run.mu_lower_bound(ev, oracle, rng=np.random.default_rng(seed))
        texts.add(next(text for text in found.corrections if "equal shares of the rest" in text))
    assert len(texts) == 1


def test_at_no_shift_every_correction_is_one_run() -> None:
    ev, _ = gaussian(2000, shift=0.0)
    even = Propensity.given(np.full(2000, 0.5))
    keep = np.sort(np.concatenate([np.flatnonzero(ev.member)[:950], np.flatnonzero(~ev.member)[:950]]))
    ev = Evidence(score=ev.score[keep], member=ev.member[keep], design="zero-run")
    even = Propensity.given(np.full(1900, 0.5))
    centre = np.median(ev.score)
    surest = np.argsort(-np.abs(ev.score - centre))[:200]
    right = int(np.count_nonzero((ev.score > centre)[surest] == ev.member[surest]))
    known = one_run.mu_lower_bound(correct=right, guesses=200, canaries=1900).value
    assert known > 0
    for correction in ("thinning", "conditional", CLOSE):
        found = zero_run.mu_lower_bound(ev, even, guesses=200, correction=correction, rng=rng())
        assert found.value == known
    pure = one_run.epsilon_lower_bound(correct=right, guesses=200, canaries=1900).value
    for correction in ("thinning", "conditional", CLOSE, "poisson-binomial"):
        found = zero_run.epsilon_lower_bound(ev, even, guesses=200, correction=correction, rng=rng())
        assert found.value == pytest.approx(pure, abs=2e-4)


def test_k_plus_and_k_minus_are_the_extremes() -> None:
    ev, oracle = gaussian(1000)
    found = zero_run.epsilon_lower_bound(ev, oracle, guesses=Sides(80, 20), rng=rng())
    order = np.argsort(-ev.score)
    right = np.count_nonzero(ev.member[order[:80]]) + np.count_nonzero(~ev.member[order[-20:]])
    assert (found.correct, found.guesses) == (right, 100)
    toward = np.concatenate([oracle.logit[order[:80]], -oracle.logit[order[-20:]]])
    assert found.value == pytest.approx(epsilon_bound(toward, right, 0.05), abs=1e-12)


def test_a_score_of_two_values_is_cut_between_them() -> None:
    told = np.array([1] * 55 + [0] * 45, dtype=float)
    assert zero_run_audit.centre_of(told) == 0.5
    assert zero_run_audit.centre_of(np.array([0.0] * 6 + [1.0] * 4)) == 0.5
    assert zero_run_audit.centre_of(np.array([1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0])) == 2.5
    assert zero_run_audit.centre_of(np.array([0.0, 1.0, 1.0, 1.0, 2.0])) == 0.5  # as even above as below
    assert zero_run_audit.centre_of(np.array([0.0, 1.0, 1.0, 1.0, 2.0, 3.0])) == 1.5
    assert zero_run_audit.centre_of(np.array([0.0, 0.5, 1.0, 1.0, 1.0, 2.0])) == 0.75
    assert zero_run_audit.centre_of(np.arange(5.0)) == 2.0
    assert zero_run_audit.centre_of(np.ones(4)) == 1.0


@pytest.mark.long
def test_a_score_that_covariates_give_exactly_shows_nothing_with_learned_propensities() -> None:
    """Learned log-odds held against covariates tell labels: those of a fold were learned from the other folds."""
    found, leaked = [], []
    for seed in range(6):
        draw = rng(100 + seed)
        x = draw.normal(size=(400, 10))
        score = x @ np.r_[np.full(4, 0.6), np.zeros(6)]
        ev = Evidence(score=score, member=draw.random(400) < 1 / (1 + np.exp(-score)), covariates=x, design="zero-run")
        learned = propensity.fit(ev, rng=draw)
        replicates = propensity.bootstrap(ev, replicates=60, folds=learned.folds, rng=draw)
        found.append(zero_run.epsilon_lower_bound(ev, learned, replicates=replicates, rng=draw).value)
        columns = np.column_stack([np.ones(400), x])
        remainder = learned.logit - columns @ np.linalg.lstsq(columns, learned.logit, rcond=None)[0]
        told = ev.replace(score=-remainder)
        leaked.append(
            zero_run.epsilon_lower_bound(told, learned, replicates=replicates, centre="median", rng=draw).value
        )
    assert found == [0.0] * 6
    assert np.mean(np.array(leaked) > 0) > 0.5  # the control: what a fit on covariates and log-odds would guess by


def test_what_covariates_say_of_a_score_does_not_decide_the_guesses() -> None:
    """With known propensities: neither covariates nor log-odds of membership, however much of them the score has."""
    draw = rng(5)
    x = draw.normal(size=(800, 2))
    pi = 1 / (1 + np.exp(-0.5 * x[:, 0]))
    member = draw.random(800) < pi
    score = draw.normal(size=800) + 1.5 * member
    values = {}
    for name, added in (("plain", 0.0), ("covariates", 20 * x[:, 1]), ("log-odds", 20 * x[:, 0])):
        ev = Evidence(score=score + added, member=member, covariates=x, design="zero-run")
        for centre in ("covariates", "median"):
            found = zero_run.mu_lower_bound(ev, Propensity.given(pi), guesses=200, centre=centre, rng=rng())
            values[name, centre] = found.value, found.correct
    assert values["plain", "covariates"][0] > 0.3
    assert values["covariates", "covariates"] == values["log-odds", "covariates"] == values["plain", "covariates"]
    assert values["covariates", "median"][0] < 0.1  # the control


def test_units_keep_one_record_each() -> None:
    ev, oracle = gaussian(900)
    doubled = Evidence(
        score=np.tile(ev.score, 3), member=np.tile(ev.member, 3), unit=np.tile(np.arange(900), 3), design="zero-run"
    )
    found = zero_run.epsilon_lower_bound(doubled, Propensity.given(np.tile(oracle.values, 3)), guesses=300, rng=rng())
    assert found.canaries == 900
    assert "one record drawn at random of each of 900 units; the other 1,800 left out" in found.corrections


@pytest.mark.thorough
@pytest.mark.long
def test_nothing_is_shown_where_members_only_have_more_records_than_nonmembers() -> None:
    """The learned propensity is that of a record, 5 in 6; of one record of each unit it would be one half."""
    values, taken = [], []
    for seed in range(4):
        draw = rng(seed)
        inside = np.arange(1000) < 500
        unit = np.repeat(np.arange(1000), np.where(inside, 5, 1))
        member, score = inside[unit], -draw.exponential(size=1000)[unit]
        x = draw.normal(size=(1000, 2))[unit]
        ev = Evidence(score=score, member=member, covariates=x, unit=unit, design="zero-run")
        learned = propensity.fit(ev, rng=draw)
        for bound in (zero_run.mu_lower_bound, zero_run.epsilon_lower_bound):
            found = bound(ev, learned, rng=draw)
            values.append(found.value)
            assert "more units were left out" in " ".join(found.corrections)
        alone = Evidence(score=score, member=member, covariates=x, design="zero-run").take(
            np.unique(unit, return_index=True)[1]
        )
        wrong = Propensity.given(learned.values[np.unique(unit, return_index=True)[1]])
        taken.append(zero_run.epsilon_lower_bound(alone, wrong, rng=draw).value)
    assert values == [0.0] * 8
    assert min(taken) > 0.3  # the control: the same propensities for one record of each unit


def test_given_propensities_are_those_of_the_units_and_keep_them_all() -> None:
    ev, oracle = gaussian(900, mu=2.0)
    size = np.where(np.arange(900) < 100, 6, 1)
    rows = np.repeat(np.arange(900), size)
    many = Evidence(score=ev.score[rows], member=ev.member[rows], unit=rows, design="zero-run")
    found = zero_run.mu_lower_bound(many, Propensity.given(oracle.values[rows]), guesses=200, rng=rng())
    assert found.value > 0.5
    assert "one record drawn at random of each of 900 units; the other 500 left out" in found.corrections


def test_copies_of_a_record_do_not_make_a_propensity_testable() -> None:
    """50 rows for each covariate, of 100 units with ten records each: five independent ones."""
    draw = rng(3)
    unit = np.repeat(np.arange(100), 10)
    x, member = draw.normal(size=(100, 20))[unit], (draw.random(100) < 0.5)[unit]
    ev = Evidence(score=draw.normal(size=1000), member=member, covariates=x, unit=unit, design="zero-run")
    learned = propensity.fit(ev, rng=draw)
    assert learned.rows_per_covariate == 50
    with pytest.raises(InputError, match="5 independent rows for each covariate"):
        zero_run.mu_lower_bound(ev, learned, rng=draw)
    found = zero_run.testability(ev, learned)
    assert not found.testable
    assert found.rows_per_covariate == 5
    assert zero_run.testability(ev, learned, bounds_given=True).testable
    known = zero_run.testability(ev, np.full(1000, 0.5))  # an array of known ones
    assert known.testable
    assert (known.effective, known.records, known.rows_per_covariate) == (pytest.approx(1000), 100, None)


def test_unequal_sizes_are_subsampled_by_composition_only_and_said() -> None:
    ev, oracle = gaussian(1000)
    fewer = np.concatenate([np.flatnonzero(ev.member), np.flatnonzero(~ev.member)[:100]])
    ev = Evidence(score=ev.score[fewer], member=ev.member[fewer], design="zero-run")
    oracle = Propensity.given(oracle.values[fewer])
    found = zero_run.mu_lower_bound(ev, oracle, guesses=50, correction=CLOSE, rng=rng())
    assert found.canaries == 200
    assert any("left out at random, so that members and non-members are equally many" in c for c in found.corrections)
    thinned = zero_run.mu_lower_bound(ev, oracle, guesses=50, rng=rng())
    assert not any("equally many" in c for c in thinned.corrections)


@pytest.mark.long
def test_eta_is_chosen_on_a_propensity_sample_and_paid_for() -> None:
    source = rng(5)
    ev, oracle, _ = worlds.draw("gaussian", "none", 4000, source)
    sample = source.uniform(-0.1, 0.1, 50_000), source.random(50_000) < 0.5
    found = zero_run.mu_lower_bound(ev, oracle, guesses=200, correction=Composition(sample=sample), rng=rng())
    assert any("chosen on a propensity sample" in text for text in found.corrections)
    assert any("charged for the upper limit on delta_DS" in text for text in found.corrections)
    aside = zero_run.mu_lower_bound(ev, oracle, guesses=200, correction="composition", rng=rng())
    assert any("800 records set aside" in text for text in aside.corrections)


def test_the_shift_curve_is_of_equally_frequent_classes() -> None:
    ev, oracle = gaussian(4000, shift=1.0)
    curve = zero_run.shift_curve(ev, oracle)
    assert (np.diff(curve.delta) <= 0).all()
    assert 0.3 < curve.delta[0] < 0.4  # log-odds of about N(+-.42, .92)
    assert curve.delta[-1] == 0


# -- learned propensities ---------------------------------------------------------------------------------------------


@cache
def learned() -> tuple[Evidence, Propensity]:
    source = rng(7)
    x = source.normal(size=(2000, 4))
    member = source.random(2000) < 1 / (1 + np.exp(-x[:, 0]))
    score = 3.0 * member + source.normal(size=2000) + x[:, 1]
    ev = Evidence(score=score, member=member, covariates=x, design="zero-run")
    return ev, propensity.fit(ev, rng=source)


@pytest.mark.long
def test_learned_propensities_get_a_margin_and_a_bootstrap() -> None:
    ev, estimate = learned()
    found = zero_run.epsilon_lower_bound(ev, estimate, guesses=300, rng=rng())
    assert any("(margin)" in text for text in found.corrections)
    assert any("600 bootstrap replicates" in text for text in found.corrections)
    plain = zero_run.epsilon_lower_bound(ev, estimate, guesses=300, correction=PoissonBinomial(margin=0), rng=rng())
    assert 0 < found.value < plain.value
    given = Propensity.given(estimate.values)
    assert zero_run.epsilon_lower_bound(ev, given, guesses=300, rng=rng()).value == plain.value


@pytest.mark.long
def test_the_bootstrap_of_the_conditional_audit_is_a_quantile_of_counts() -> None:
    ev, estimate = learned()
    drawn = propensity.bootstrap(ev, replicates=200, folds=estimate.folds, rng=rng(1))
    found = zero_run.mu_lower_bound(
        ev, estimate, guesses=300, correction=Conditional(margin=0.0), replicates=drawn, rng=rng(2)
    )
    single = [
        zero_run.mu_lower_bound(
            ev, Propensity.given(p), guesses=300, correction="conditional", confidence=0.975, rng=rng(2)
        ).value
        for p in drawn
    ]
    assert found.value == sorted(single)[5]  # the plain 0.025 quantile of 200


def test_thinning_of_learned_propensities_takes_two_standard_errors() -> None:
    ev, estimate = learned()
    found = zero_run.mu_lower_bound(ev, estimate, guesses=300, rng=rng())
    assert any("2 standard errors" in text and "pointwise" in text for text in found.corrections)
    none = zero_run.mu_lower_bound(ev, estimate, guesses=300, correction=Thinning(half_width=0.0), rng=rng())
    scheffe = zero_run.mu_lower_bound(
        ev, estimate, guesses=300, correction=Thinning(half_width=zero_run.Scheffe()), rng=rng()
    )
    assert scheffe.value < found.value < none.value
    assert any("0.025 charged" in text for text in scheffe.corrections)


def test_too_few_rows_for_each_covariate_are_not_testable() -> None:
    source = rng(8)
    x = source.normal(size=(600, 20))
    ev = Evidence(score=x[:, 0], member=source.random(600) < 0.5, covariates=x, design="zero-run")
    poor = propensity.fit(ev, rng=source)
    state = zero_run.testability(ev, poor)
    assert not state.testable
    assert "30 rows for each covariate" in state.reasons[0]
    assert zero_run.testability(ev, poor, bounds_given=True).testable
    for correction in ("thinning", "conditional", "composition"):
        with pytest.raises(InputError, match="not testable"):
            zero_run.mu_lower_bound(ev, poor, correction=correction, rng=rng())
    with pytest.raises(InputError, match="not testable"):
        zero_run.epsilon_lower_bound(ev, poor, rng=rng())
    zero_run.mu_lower_bound(ev, poor, correction=Thinning(half_width=1.0), rng=rng())
    zero_run.epsilon_lower_bound(ev, poor, correction=PoissonBinomial(margin=1.0), rng=rng())


@pytest.mark.long
def test_the_curve_of_learned_propensities_lies_above_that_of_the_true_ones() -> None:
    """Their half-width is on the pessimistic side; the control takes them as known and misses too often."""
    truth = np.array([Gaussian(0.5).delta_at(e) for e in composition.GRID[:10]])
    below = {"two standard errors": 0, "taken as known": 0}
    for source in rng(8).spawn(20):

        def sample(n: int, source: np.random.Generator) -> Evidence:
            member = source.random(n) < 0.5
            x = source.normal(size=(n, 20)) + np.where(member, 0.25, -0.25)[:, None] * (np.arange(20) == 0)
            return Evidence(score=x[:, 0], member=member, covariates=x, design="zero-run")

        train, ev = sample(1000, source), sample(4000, source)
        estimate = propensity.fit(ev, train=train, rng=source)
        for name, half_width in (("two standard errors", None), ("taken as known", 0.0)):
            upper = zero_run.shift_curve(ev, estimate, half_width=half_width).upper[:10]
            below[name] += bool((upper < truth).any())
    assert below["two standard errors"] == 0
    assert below["taken as known"] >= 5


def test_composition_on_learned_propensities_says_how_far_they_may_be_off() -> None:
    ev, estimate = learned()
    found = zero_run.mu_lower_bound(ev, estimate, guesses=50, correction="composition", rng=rng())
    assert any("set aside" in text and "within 2 standard errors" in text for text in found.corrections)
    assert zero_run.stated("composition", 0.3).half_width == 0.3
    few = zero_run.mu_lower_bound(
        ev, estimate, guesses=50, correction=Composition(half_width=zero_run.Scheffe()), rng=rng()
    )
    assert any("error probability 0.0275 charged" in text for text in few.corrections)


def test_another_classifier_without_replicates_is_not_testable() -> None:
    from sklearn.naive_bayes import GaussianNB

    ev, _ = learned()
    found = propensity.fit(ev, classifier=GaussianNB(), rng=rng())
    assert "for this classifier" in zero_run.testability(ev, found).reasons[0]
    assert zero_run.testability(ev, found, replicates_given=True).testable
    assert zero_run.testability(ev, found, bounds_given=True).testable
    with pytest.raises(InputError, match="half_width: expected a number, or bootstrap replicates"):
        zero_run.mu_lower_bound(ev, found, rng=rng())


def test_a_rising_curve_and_no_overlap_are_not_testable() -> None:
    ev, oracle = gaussian(400, shift=5.0)
    overlap = judge_overlap(measure(ev, oracle))
    state = zero_run.testability(ev, oracle, curve=LearningCurve(0.6, 0.7, True), overlap=overlap)
    assert "still being learned" in state.reasons[0]
    assert "Proposition 3" in state.reasons[1]
    assert (state.blind_half, state.blind_full, state.records) == (0.6, 0.7, 400)
    assert 0 < state.effective < 400


def test_a_propensity_from_elsewhere_needs_replicates_or_a_margin() -> None:
    ev, _ = learned()
    train = Evidence(score=rng(9).normal(size=2000), member=ev.member, covariates=ev.covariates + 1e-3)
    found = propensity.fit(ev, train=train, rng=rng())
    with pytest.raises(InputError, match="replicates: expected an array"):
        zero_run.epsilon_lower_bound(ev, found, guesses=100, rng=rng())
    drawn = propensity.bootstrap(ev, train, 40, rng=rng())
    assert zero_run.epsilon_lower_bound(ev, found, guesses=100, replicates=drawn, rng=rng()).value > 0


def test_the_smallest_learned_log_odds_are_a_winners_curse() -> None:
    ev, estimate = learned()
    with pytest.raises(InputError, match="winner's curse"):
        zero_run.epsilon_lower_bound(ev, estimate, correction=PoissonBinomial(smallest=100), rng=rng())


# -- thin -------------------------------------------------------------------------------------------------------------


def test_thinned_evidence_is_one_run_evidence() -> None:
    ev, oracle = gaussian(4000)
    thinned = zero_run.thin(ev, oracle, rng=rng(3))
    assert thinned.evidence.design == "one-run"
    assert thinned.evidence.n == len(thinned.rows) == len(thinned.guess) == len(thinned.correct)
    assert (thinned.evidence.score == ev.score[thinned.rows]).all()
    assert abs(len(thinned.rows) - thinned.effective) < 200
    found = one_run.mu_lower_bound(
        correct=int(thinned.correct[:300].sum()), guesses=300, canaries=thinned.effective, confidence=0.95
    )
    assert 1 < found.value < 2
    wide = zero_run.thin(ev, oracle, 0.3, rng=rng(3))
    assert wide.effective > thinned.effective
    assert wide.correct.mean() < thinned.correct.mean()


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "named"), [("one-run", "dp.one_run"), ("multi-run", "dp.multi_run"), (None, "declare")]
)
def test_evidence_of_another_design_is_refused(design: str | None, named: str) -> None:
    ev, oracle = gaussian(100)
    other = Evidence(score=ev.score, member=ev.member, design=design)
    for call in (zero_run.mu_lower_bound, zero_run.epsilon_lower_bound, zero_run.thin):
        with pytest.raises(DesignError, match=named):
            call(other, oracle, rng=rng())


def test_unknown_corrections_are_refused_by_name() -> None:
    ev, oracle = gaussian(100)
    with pytest.raises(InputError, match="received 'thining'; did you mean thinning"):
        zero_run.mu_lower_bound(ev, oracle, correction="thining", rng=rng())
    with pytest.raises(InputError, match="expected Thinning, PoissonBinomial"):
        zero_run.mu_lower_bound(ev, oracle, correction=3, rng=rng())
    with pytest.raises(InputError, match="for mu"):
        zero_run.mu_lower_bound(ev, oracle, correction="poisson-binomial", rng=rng())
    with pytest.raises(InputError, match="delta: expected 0 for the Poisson-binomial"):
        zero_run.epsilon_lower_bound(ev, oracle, delta=1e-5, correction="poisson-binomial", rng=rng())
    assert "thinning" in zero_run.epsilon_lower_bound(ev, oracle, delta=1e-5, rng=rng()).method


@pytest.mark.parametrize("seeds", [2, 0, 40, True, None])
def test_the_best_of_several_seeds_cannot_be_asked_for(seeds: object) -> None:
    with pytest.raises(InputError, match="multiple testing"):
        Thinning(seeds=seeds)  # type: ignore[arg-type]


BAD = [
    ({"guesses": 0}, "count: expected a whole number from 1"),
    ({"guesses": -3}, "count: expected a whole number from 1"),
    ({"guesses": 101}, "guesses: expected at most the 100"),
    ({"guesses": Sides(80, 30)}, "guesses: expected at most the 100"),
    ({"guesses": "many"}, "guesses: expected"),
    ({"guesses": True}, "guesses: expected"),
    ({"confidence": 95}, "confidence: expected"),
    ({"confidence": math.nan}, "confidence: expected"),
    ({"replicates": np.full((3, 100), 0.5)}, "replicates: expected"),
    ({"replicates": np.full((30, 99), 0.5)}, "replicates: expected"),
    ({"replicates": np.full((30, 100), np.nan)}, "replicates: expected"),
    ({"centre": "mean"}, "centre: expected"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=str)
@pytest.mark.parametrize("correction", ["thinning", "conditional", "poisson-binomial"])
def test_bad_options_are_refused(options: dict[str, object], message: str, correction: str) -> None:
    ev, oracle = gaussian(100)
    with pytest.raises(InputError, match=message) as caught:
        zero_run.epsilon_lower_bound(ev, oracle, correction=correction, rng=rng(), **options)
    assert "\n" not in str(caught.value)


def test_bad_propensities_are_refused() -> None:
    ev, oracle = gaussian(100)
    with pytest.raises(InputError, match="propensity: expected 100 values"):
        zero_run.mu_lower_bound(ev, Propensity.given(oracle.values[:99]), rng=rng())
    broken = Propensity(np.where(np.arange(100) == 3, np.nan, 0.5), "broken")
    with pytest.raises(InputError, match="propensity: expected values strictly between 0 and 1"):
        zero_run.mu_lower_bound(ev, broken, rng=rng())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PoissonBinomial(margin=-1), "margin: expected"),
        (lambda: Conditional(margin=math.nan), "margin: expected"),
        (lambda: Composition(eta=-0.1), "eta: expected"),
        (lambda: Composition(eta=0.1, delta_ds=1.0), "delta_ds: expected"),
        (lambda: Composition(delta_ds=-1), "delta_ds: expected"),
        (lambda: Composition(closeness=-1), "closeness: expected"),
        (lambda: Composition(eta=0.1, closeness=1), "composition: expected one of"),
        (lambda: Composition(share=0), "share: expected"),
        (lambda: Sides(0, 0), "members: expected at least one"),
        (lambda: Sides(-1, 3), "members: expected"),
        (lambda: Sides(1, 2.5), "nonmembers: expected"),  # type: ignore[arg-type]
    ],
)
def test_bad_records_of_options_are_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_smallest_is_within_the_records() -> None:
    ev, oracle = gaussian(100)
    for count in (0, 101, 2.5, True):
        with pytest.raises(InputError, match="smallest: expected a whole number"):
            zero_run.epsilon_lower_bound(ev, oracle, correction=PoissonBinomial(smallest=count), rng=rng())


# -- tiny, all right, all wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("guesses", [None, 1, Bonferroni()])
@pytest.mark.parametrize(("parameter", "correction"), ALL, ids=str)
def test_two_records_show_nothing_and_break_nothing(parameter: str, correction: object, guesses: object) -> None:
    ev = Evidence(score=[0.0, 1.0], member=[0, 1], design="zero-run")
    bound = zero_run.mu_lower_bound if parameter == "mu" else zero_run.epsilon_lower_bound
    found = bound(ev, Propensity.given([0.4, 0.5]), guesses=guesses, correction=correction, rng=rng())
    assert found.value == 0.0


@pytest.mark.parametrize(("parameter", "correction"), ALL, ids=str)
def test_all_right_is_finite_and_all_wrong_is_nothing(parameter: str, correction: object) -> None:
    bound = zero_run.mu_lower_bound if parameter == "mu" else zero_run.epsilon_lower_bound
    member = np.arange(200) % 2 == 0
    for sign in (1, -1):
        ev = Evidence(score=sign * np.where(member, 1.0, -1.0), member=member, design="zero-run")
        found = bound(ev, Propensity.given(np.full(200, 0.5)), guesses=50, correction=correction, rng=rng())
        assert (0 < found.value < 20) if sign > 0 else found.value == 0.0
        assert found.value == pytest.approx(found.reachable, abs=1e-3) or sign < 0


def test_constant_scores_show_nothing() -> None:
    ev = Evidence(score=np.zeros(200), member=np.arange(200) % 2 == 0, design="zero-run")
    assert zero_run.mu_lower_bound(ev, Propensity.given(np.full(200, 0.5)), rng=rng()).value == 0
