"""Differential privacy in an audit: challenges to propensities, lower bounds, and the verdict on a claim."""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.auditing.case import Case
from miaudit.auditing.plan import Bounds, Test
from miaudit.auditing.zero_run import Correction
from miaudit.causal import progress, propensity
from miaudit.causal.challenge import Challenge, challenge
from miaudit.causal.crossfit import INNER_FOLDS
from miaudit.dp import accounting, multi_run, one_run, verdict, zero_run
from miaudit.dp.mechanism import Mechanism
from miaudit.dp.verdict import Claim, ClaimVerdict, LowerBound, UpperBound
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.several_runs import SeveralRuns
from miaudit.metrics.trials import equal_sizes, one_of_each

UNDECLARED = (
    "It is not declared how membership came about, and a bound needs it: declare the design (one-run or multi-run if "
    "inclusion was randomised, else zero-run)."
)
_TOO_FEW = (
    "thinning to fair coins leaves no member or no non-member, and bounds need both: add records whose chance of "
    "inclusion is nearer to one half"
)
_TREES, _QUICK_TREES = 100, 40
_QUICK_LEAVES, _QUICK_BINS, _QUICK_FOLDS = 8, 63, 2  # a third of the time; folds of calibration
_ROWS_OF_A_TREE = 5000
# The challenge learns the propensity again from half of the records. With many covariates that noise alone refutes it
# at 5%: enough to withhold bounds, which need every log-odds within the margin. Beyond this it is no noise, and the
# verdict, which the test for lack of fit guards, is withheld too (docs/zero_run_in_depth.md).
BEYOND_LEARNING = 0.001
_MARGIN = 0.1  # experiments/methods.md, section 2: at 0 the challenge voids 12% of sound learned propensities


@dataclass(frozen=True)
class Basis:
    """What bounds are computed of.

    Attributes
    ----------
    evidence : the audited records, or one of each unit
    correction : of zero-run evidence, whose log-odds have known errors
    sampled : sentence on the records that were left out; empty if none were
    rng : draws coins, ties and subsamples; copied where bounds are computed, so that each time draws the same
    """

    evidence: Evidence
    correction: Correction | None
    sampled: str
    rng: np.random.Generator


@dataclass(frozen=True)
class Bounded:
    """Lower bounds of an audit, or why there are none.

    Attributes
    ----------
    lower : one for each parameter
    reasons : sentences that say why there is no bound
    challenge : of the propensities of zero-run evidence
    runs : of several runs of the same training, how bounds grew
    basis : of one run, or of none, where there are bounds
    """

    lower: tuple[LowerBound, ...] = ()
    reasons: tuple[str, ...] = ()
    challenge: Challenge | None = None
    runs: SeveralRuns | None = None
    basis: Basis | None = None


def assess(
    case: Case, claim: Claim | None, correction: Correction | None, *, obstacle: str = "", rng: np.random.Generator
) -> Bounded:
    """Compute lower bounds by the tests that the design allows.

    Parameters
    ----------
    case : the audited records, the scores that the verdict may rest on, of which the best bound counts, and the plan
    claim : of :func:`claimed`
    correction : propensities and overlap of zero-run evidence, where they could be learned
    obstacle : why the evidence allows no answer; empty if it does
    rng : draws coins, ties and subsamples

    Raises
    ------
    InputError
        If the options ask for more guesses than there are records.
    """
    options, evidence, sampled = case.plan.bounds, case.of_bounds, "" if case.coins is None else case.coins.sentence
    if options is None:
        return Bounded()
    if evidence is None:
        return Bounded(reasons=(_sentence(obstacle or _TOO_FEW),))
    of_bounds = None if correction is None else correction.for_bounds
    challenge_rng, bound_rng = rng.spawn(2)
    reasons = _not_testable(evidence, options, of_bounds, obstacle)
    if not reasons and correction is not None and correction.screen is not None:
        correction = correction.screened
        of_bounds = correction.for_bounds
        reasons = _not_testable(evidence, options, of_bounds, obstacle)
    if not reasons and _learned_from_unequal_units(evidence, of_bounds):
        evidence, of_bounds, sampled = _one_record_each(evidence, of_bounds, rng.spawn(1)[0])
        reasons = _not_testable(evidence, options, of_bounds, sampled)
    challenged = None
    if evidence.design == "zero-run" and not reasons and correction is not None and of_bounds is not None:
        with progress.stage("challenge"):
            challenged = _challenge(evidence, options, of_bounds, correction, challenge_rng)
        reasons = _refuted(challenged, of_bounds)
    if reasons:
        return Bounded((), reasons, challenged)
    tests = options.tests(evidence, None if of_bounds is None else of_bounds.propensity, case.confidence)
    of_design = _ways(evidence, options, claim, of_bounds, case.confidence)
    basis = Basis(evidence, of_bounds, sampled, bound_rng)
    with progress.stage("bounds"):
        lower = _strongest(case, basis, tuple(of_design if tests is None else tests))
    return Bounded(lower, (), challenged, basis=basis)


def mu_within(case: Case, basis: Basis, margin: float) -> float:
    """Return the lower bound on mu if the log-odds of membership are within a margin, which is not negative."""
    assert case.plan.bounds is not None  # noqa: S101
    options = replace(case.plan.bounds, margin=margin)
    test = next(_ways(basis.evidence, options, None, basis.correction, case.confidence))
    return _strongest(case, basis, (test,))[0].value


def _refuted(challenged: Challenge | None, correction: Correction) -> tuple[str, ...]:
    """Return why the propensities void every bound; empty if they do not. Both tests are at the stated margin."""
    if challenged is not None and challenged.rejected:
        return (challenged.text,)
    return (correction.misfit,) if correction.misfit and not correction.within_margin else ()


def _strongest(case: Case, basis: Basis, tests: Sequence[Test]) -> tuple[LowerBound, ...]:
    """Return of each test the best bound of all scores that count."""
    strongest, price = [], "; ".join(case.corrections)
    for test, child in zip(tests, copy.deepcopy(basis.rng).spawn(len(tests)), strict=True):
        of_scores = zip(case.judged, child.spawn(len(case.judged)), strict=True)
        bounds = []
        for name, one in of_scores:
            bounds.append(test(basis.evidence.only(name), one))
            progress.piece()
        strongest.append(best_of(bounds, basis.sampled, price, exploratory=case.exploratory))
    return tuple(strongest)


def best_of(bounds: Sequence[LowerBound], sampled: str, price: str, *, exploratory: bool) -> LowerBound:
    """Return the largest of several scores' bounds, at their joint confidence."""
    best = max(bounds, key=lambda bound: bound.value)
    p_values = [bound.p_value for bound in bounds if bound.p_value is not None]
    before, after = (sampled,) if sampled else (), (price,) if price and len(bounds) > 1 else ()
    return replace(
        best,
        confidence=best.confidence if len(bounds) == 1 else 1 - len(bounds) * (1 - best.confidence),
        p_value=min(1.0, len(bounds) * min(p_values)) if p_values else None,
        corrections=(*before, *best.corrections, *after),
        exploratory=best.exploratory or exploratory,
    )


# -- what the design allows -------------------------------------------------------------------------------------------


def _ways(
    evidence: Evidence, options: Bounds, claim: Claim | None, correction: Correction | None, confidence: float
) -> Iterator[Test]:
    """Yield one test for each bound that the design allows."""
    delta = claim.delta if claim is not None and claim.parameter == "epsilon" else options.delta
    sure: dict[str, Any] = {"confidence": confidence}
    counted: dict[str, Any] = {"guesses": options.guesses, "confidence": confidence}
    if evidence.design == "multi-run":
        yield lambda e, rng: multi_run.mu_lower_bound(e, rng=rng, **sure)
        yield lambda e, rng: multi_run.epsilon_lower_bound(e, delta=delta, rng=rng, **sure)
    elif evidence.design == "one-run":
        yield lambda e, rng: one_run.audit(e, parameter="mu", rng=rng, **counted)
        yield lambda e, rng: one_run.audit(e, parameter="epsilon", delta=delta, rng=rng, **counted)
    elif correction is not None:
        learned, way = correction.propensity, zero_run.stated(options.correction, options.margin)
        yield lambda e, rng: zero_run.mu_lower_bound(e, learned, correction=way, rng=rng, **counted)
        if delta:
            yield lambda e, rng: zero_run.epsilon_lower_bound(
                e, learned, delta=delta, correction=way, rng=rng, **counted
            )
        # Log-odds learned from other records cannot be learned again here: their standard errors have to do.
        sure_of = options.margin is not None or learned.rows_per_covariate is None or learned.folds is not None
        pure = zero_run.stated("poisson-binomial" if sure_of else "thinning", options.margin)
        yield lambda e, rng: zero_run.epsilon_lower_bound(e, learned, correction=pure, rng=rng, **counted)


def without_use(options: Bounds | None, evidence: Evidence) -> Iterator[str]:
    """Yield the names of options that were set and have no effect on such evidence."""
    if options is None:
        return
    design = evidence.design or ""
    unused = {"multi-run": ("guesses", "correction", "margin"), "one-run": ("correction", "margin")}
    unused["matched"] = unused["one-run"]
    for name in unused.get(design, ()):
        if getattr(options, name) != getattr(Bounds, name):
            yield f"The option {name} has no use with {design} evidence and changed nothing."
    if options.at_least is not None and evidence.run is None:
        yield "The option at_least has no use with one run and changed nothing."


def _not_testable(evidence: Evidence, options: Bounds, correction: Correction | None, obstacle: str) -> tuple[str, ...]:
    """Return in sentences why no bound can be given; empty if one can."""
    if evidence.design is None:
        return (UNDECLARED,)
    if evidence.design != "zero-run":
        return (_sentence(obstacle),) if obstacle else ()
    if correction is None:
        return (_sentence(obstacle),)
    others = tuple(text for text in correction.overlap.reasons if text != correction.misfit)
    if others:
        return tuple(map(_sentence, others))
    stated = options.margin is not None
    testability = zero_run.testability(evidence, correction.propensity, bounds_given=stated)
    return tuple(map(_sentence, testability.reasons))


def _learned_from_unequal_units(evidence: Evidence, correction: Correction | None) -> bool:
    """Return whether a propensity of records is invalid for one record of each unit."""
    codes = evidence.unit_codes
    if evidence.design != "zero-run" or correction is None or correction.nuisance.propensity is not None:
        return False
    return codes is not None and not equal_sizes(codes)


def _one_record_each(
    evidence: Evidence, correction: Correction | None, rng: np.random.Generator
) -> tuple[Evidence, Correction | None, str]:
    """Keep one record of each unit and refit the propensity, with a sentence on it."""
    assert correction is not None and evidence.unit_codes is not None  # noqa: S101
    draw, learn = rng.spawn(2)
    alone = evidence.take(one_of_each(evidence.unit_codes, draw))
    nuisance = correction.nuisance
    try:
        how: dict[str, Any] = {"classifier": nuisance.classifier, "screened": correction.propensity.screened}
        again = propensity.fit(alone, **how, encoding=correction.encoding, rng=learn)
    except InputError as error:
        return evidence, None, f"the propensity cannot be learned from one record of each unit ({error})"
    sentence = (
        f"one record of each of {alone.n:,} units, drawn at random of {evidence.n:,} records; since units differ in "
        "size, the propensity was learned again from these"
    )
    return alone, replace(correction, propensity=again), sentence


def _challenge(
    evidence: Evidence, options: Bounds, correction: Correction, of_metrics: Correction, rng: np.random.Generator
) -> Challenge | None:
    """Test the propensities against several kinds of classifiers, on held-out rows; None without covariates or texts.

    ``of_metrics`` is the correction of the metrics, whose propensity may be a stack beside that of the bounds.
    """
    if evidence.covariates is None and evidence.text is None:
        return None
    stacked = of_metrics.propensity.stacked
    draw, bet = rng.spawn(2)
    nuisance = correction.nuisance
    competitors = _competitors(int(draw.integers(2**31)), evidence.n, quick=stacked)
    outcome = challenge(
        evidence,
        list(competitors.values()),
        classifier=nuisance.classifier,
        encoding=correction.encoding,
        screened=correction.propensity.screened,
        given=nuisance.propensity,
        gamma=_MARGIN if options.margin is None else options.margin,
        inner=_QUICK_FOLDS if stacked else INNER_FOLDS,
        rng=bet,
    )
    named = dict(zip((type(model).__name__ for model in competitors.values()), competitors, strict=True))
    best = named[outcome.competitor]
    text = _challenge_in_words(outcome, best, len(competitors), correction.way_out)
    if of_metrics.bounds_rest_on:
        text = f"{of_metrics.bounds_rest_on} {text}"
    return replace(outcome, competitor=best, competitors=tuple(competitors), text=text)


def _challenge_in_words(outcome: Challenge, best: str, competitors: int, way_out: str) -> str:
    share = f"{outcome.correct:,} of {outcome.guesses:,} bets on records that no model had seen"
    if outcome.rejected:
        return (
            f"The propensities are refuted: {best} won {share}, which has a probability of {outcome.p_value:.2g} if "
            f"the log-odds of membership were within {outcome.gamma:g} of the learned ones. The covariates tell "
            f"members apart in a way that the propensities miss, so no bound holds. {way_out}".rstrip()
        )
    return (
        f"The propensities stood the challenge: the best of {competitors} competitors ({best}) won {share} "
        f"(p = {outcome.p_value:.2g} at a margin of {outcome.gamma:g} on the log-odds). That is no proof of them."
    )


def _competitors(seed: int, n: int, *, quick: bool) -> dict[str, Any]:
    """Return classifiers that detect nonlinear effects, each cheap enough for n rows; quick ones beside a stack."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB

    boosted = HistGradientBoostingClassifier(max_iter=_TREES // 2, random_state=seed)
    if quick:
        boosted.set_params(max_leaf_nodes=_QUICK_LEAVES, max_bins=_QUICK_BINS)
        trees = ExtraTreesClassifier(_QUICK_TREES, min_samples_leaf=5, random_state=seed)
        return {"gradient boosting": boosted, "extremely randomised trees": trees, "naive Bayes": GaussianNB()}
    share = None if n <= _ROWS_OF_A_TREE else _ROWS_OF_A_TREE / n
    return {
        "gradient boosting": boosted,
        "a random forest": RandomForestClassifier(_TREES, min_samples_leaf=5, max_samples=share, random_state=seed),
        "naive Bayes": GaussianNB(),
    }


# -- the claim --------------------------------------------------------------------------------------------------------


def claimed(options: Bounds | None) -> tuple[Claim | None, UpperBound | None]:
    """Return the claim to judge, what is guaranteed where none was made, and the guarantee of the described mechanism.

    Raises
    ------
    InputError
        For a mechanism that no accountant bounds in the claim's parameter.
    """
    if options is None or options.mechanism is None:
        return (None if options is None else options.claim), None
    upper = _upper(options, options.mechanism)
    return options.claim or Claim(upper.parameter, upper.value, upper.delta), upper


def _upper(options: Bounds, mechanism: Mechanism) -> UpperBound:
    """Return the accountant's bound on the described mechanism, in the claim's parameter."""
    claim = options.claim
    if claim is not None and claim.parameter == "mu":
        return accounting.upper_bound(mechanism, parameter="mu")
    bound = accounting.upper_bound(mechanism, delta=options.delta if claim is None else claim.delta)
    if claim is None and not math.isfinite(bound.value):
        allowed = "a number above 0 beside a mechanism without a finite epsilon at delta = 0"
        raise InputError("delta", allowed, f"{options.delta:g}", "1e-5 is usual")
    return bound


def judge(claim: Claim | None, bounded: Bounded, upper: UpperBound | None) -> ClaimVerdict | None:
    """Judge a claim by the bound on its own parameter, if there is one, or say why there is none."""
    if claim is None:
        return None
    # A bound for adding or removing also refutes a claim that is about replacing.
    usual = [b for b in bounded.lower if b.neighbours != "replace-one"]
    fitting = [b for b in usual if b.parameter == claim.parameter and b.delta == claim.delta]
    return verdict.judge(claim, fitting[0] if fitting else None, upper=upper, reasons=bounded.reasons)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
