"""Lower bounds from no run at all: a fixed model, known members and known non-members, and covariates that differ.

Right guesses prove nothing while covariates alone could have given them. By default records are **thinned to fair
coins** (Theorem Z): what remains is one-run evidence, and the one-run tests apply. For pure epsilon no coins are
needed: the count of right guesses is tested against a Poisson-binomial. The published procedures, composition and
conditional audits, stand beside them under their names. ``docs/bounds.md`` has the theorem and what was measured,
``experiments/zero_run/theorem_z.md`` the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, IntArray
from miaudit.causal.balance import Overlap
from miaudit.causal.propensity import LearningCurve, Propensity
from miaudit.dp import selection
from miaudit.dp.selection import Sides
from miaudit.dp.verdict import LowerBound, Parameter
from miaudit.dp.zero_run import audit as zero_run_audit
from miaudit.dp.zero_run import composition
from miaudit.dp.zero_run.audit import AuditedRecords, Correction, Job, OwnCorrection
from miaudit.dp.zero_run.composition import Composition, ShiftCurve
from miaudit.dp.zero_run.conditional import Conditional
from miaudit.dp.zero_run.independent_guesses import (
    PoissonBinomial,
    Thinning,
    check_replicates,
    coins_worth,
    is_given,
    rows_for_each,
    too_few_rows,
    tossed,
)
from miaudit.errors import InputError, nearest
from miaudit.errors.checks import check_confidence, check_delta, check_generator
from miaudit.errors.entry_points import Offered
from miaudit.evidence import Evidence

# -- the corrections by name ----------------------------------------------------------------------------------------

_PURE = "poisson-binomial"  # of pure epsilon only
CORRECTIONS: Offered[Callable[[], Correction]] = Offered(
    "miaudit.corrections", type, {"thinning": Thinning, "conditional": Conditional, "composition": Composition}
)


def correction_of(chosen: Any) -> Correction:
    """Return the record that is meant: itself, or the default of its name.

    Raises
    ------
    InputError
        For an unknown name, or a value of another type.
    """
    if isinstance(chosen, str):
        if chosen == _PURE:
            return PoissonBinomial()
        if chosen not in CORRECTIONS:
            first, *others = CORRECTIONS
            names = (first, _PURE, *others)
            hint = nearest(chosen, names) or 'the default is "thinning"'
            raise InputError("correction", ", ".join(f'"{name}"' for name in names), repr(chosen), hint)
        return CORRECTIONS[chosen]()
    if isinstance(chosen, Correction):
        return chosen
    allowed = "Thinning, PoissonBinomial, Conditional, Composition, or one of their names"
    raise InputError("correction", allowed, repr(chosen), 'the default is "thinning"')


def stated(chosen: str | Correction, margin: float | None) -> Correction:
    """Return a correction with the margin on the log-odds that an auditor stated, where it has none of its own.

    Examples
    --------
    >>> stated("thinning", 0.2).half_width, stated(PoissonBinomial(margin=0.3), 0.2).margin
    (0.2, 0.3)
    """
    option = correction_of(chosen)
    if margin is None:
        return option
    match option:
        case Thinning() | Composition() if option.half_width is None:
            return replace(option, half_width=margin)
        case PoissonBinomial() | Conditional() | OwnCorrection() if option.margin is None:
            return replace(option, margin=margin)
    return option


# -- the bounds -----------------------------------------------------------------------------------------------------


def mu_lower_bound(
    ev: Evidence,
    propensity: Propensity | ArrayLike,
    *,
    guesses: selection.Option | Sides | int | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
    correction: str | Correction = "thinning",
    replicates: ArrayLike | None = None,
    centre: Literal["median", "covariates"] | None = None,
) -> LowerBound:
    """Lower bound on mu of Gaussian DP from observational evidence.

    Parameters
    ----------
    ev : Evidence of n records, design "zero-run", one score
        A unit with several records keeps one of them, drawn at random; where units differ in size and the propensity
        was learned from all records, large units are represented more often (``docs/bounds.md``, Units).
    propensity : Propensity of the same records, or an array (n,) in (0, 1) of known ones
    guesses : int, Sides, or an option of :mod:`miaudit.dp.selection`
        None: Hedged(). After thinning its fractions are those of the effective number of coins, which no label decides.
    confidence : in (0, 1), one-sided
    rng : coins, order of ties, subsampling, pilot; record its seed
    correction : "thinning", "conditional" or "composition", or the record of that name with its options
    replicates : array (K, n), bootstrap replicates of the propensity, optional
        The conditional audit needs them for learned propensities: half of the error probability goes there. Computed
        here if the propensity is the default model, cross-fitted. Thinning takes its standard errors from them.
    centre : "median", or "covariates": guess by which side of the median the score lies, or of its linear fit on the
        covariates and given log-odds (found without labels). None: the covariates with Hedged(), the choice of the
        pilot with Pilot(), and else the median.

    Returns
    -------
    LowerBound
        0 where nothing is shown; everything that was adjusted or paid is in ``corrections``.

    Raises
    ------
    DesignError
        For evidence of another design.
    InputError
        For a propensity of another length, one learned from fewer than 40 rows per covariate while no bounds on the
        log-odds are stated (see :func:`testability`), and options that do not go together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=4000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> member = rng.random(4000) < pi
    >>> ev = Evidence(score=2 * member + rng.normal(size=4000), member=member, covariates=x, design="zero-run")
    >>> found = mu_lower_bound(ev, Propensity.given(pi), guesses=200, rng=rng)
    >>> 1.0 < found.value < 2.0
    True
    """
    chosen = correction_of(correction)
    if isinstance(chosen, PoissonBinomial):
        raise InputError(
            "correction", "thinning, conditional or composition for mu", "poisson-binomial", "use thinning"
        )
    return _audit(ev, propensity, "mu", 0.0, guesses, centre, confidence, chosen, replicates, rng)


def epsilon_lower_bound(
    ev: Evidence,
    propensity: Propensity | ArrayLike,
    *,
    guesses: selection.Option | Sides | int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    rng: np.random.Generator,
    correction: str | Correction | None = None,
    replicates: ArrayLike | None = None,
    centre: Literal["median", "covariates"] | None = None,
) -> LowerBound:
    """Lower bound on epsilon of (epsilon, delta)-DP from observational evidence.

    Parameters
    ----------
    ev, propensity, guesses, confidence, rng : as in :func:`mu_lower_bound`
    delta : of the claim, in [0, 1)
    correction : "poisson-binomial", "thinning", "conditional" or "composition", or the record of that name
        None: "poisson-binomial" (pure epsilon only) for delta = 0, else "thinning".
    replicates, centre : as in :func:`mu_lower_bound`; "poisson-binomial" needs replicates as "conditional" does

    Raises
    ------
    DesignError, InputError
        As :func:`mu_lower_bound`; and for "poisson-binomial" with a delta above 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> member = rng.random(2000) < pi
    >>> told = member ^ (rng.random(2000) < 1 / (1 + np.e))  # randomised response at epsilon = 1
    >>> ev = Evidence(score=told, member=member, covariates=x, design="zero-run")
    >>> found = epsilon_lower_bound(ev, Propensity.given(pi), guesses=2000, rng=rng)
    >>> 0.8 < found.value < 1.0
    True
    """
    delta = check_delta(delta)
    chosen = correction_of(("thinning" if delta > 0 else "poisson-binomial") if correction is None else correction)
    if isinstance(chosen, PoissonBinomial) and delta > 0:
        raise InputError(
            "delta", "0 for the Poisson-binomial test", repr(delta), 'use correction="thinning" for (epsilon, delta)'
        )
    return _audit(ev, propensity, "epsilon", delta, guesses, centre, confidence, chosen, replicates, rng)


def _audit(
    ev: Evidence,
    propensity: Propensity | ArrayLike,
    parameter: Parameter,
    delta: float,
    guesses: selection.Option | Sides | int | None,
    centre: str | None,
    confidence: float,
    correction: Correction,
    replicates: ArrayLike | None,
    rng: np.random.Generator,
) -> LowerBound:
    confidence = check_confidence(confidence)
    check_generator(rng)
    propensity = Propensity.of(propensity)
    records = AuditedRecords.of(ev, propensity, rng)
    replicates = None if replicates is None else check_replicates(replicates, ev.n)
    centre = zero_run_audit.check_centre(centre)
    job = Job(ev, propensity, parameter, delta, guesses, centre, confidence, replicates, rng)
    return zero_run_audit.audit(job, records, correction)


# -- thinning alone -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Thinned:
    """Zero-run evidence thinned to fair coins.

    Attributes
    ----------
    evidence : the kept records, design "one-run", in falling order of the attack's confidence
    effective : M of Theorem Z, the number of fair coins that all records together are worth; it takes the place of the
        number of canaries, rounded up
    rows : array (k,), which records of the original evidence these are
    guess : array (k,), +1 member or -1 non-member: with a half-width above 0 the coins were tossed for these guesses,
        and only they may be tested
    """

    evidence: Evidence
    effective: float
    rows: IntArray
    guess: IntArray

    @property
    def correct(self) -> BoolArray:
        """Which guesses are right (k,), surest first."""
        return np.asarray((self.guess > 0) == self.evidence.member)


def thin(
    ev: Evidence, propensity: Propensity | ArrayLike, half_width: Any = 0.0, *, rng: np.random.Generator
) -> Thinned:
    """Drop records at random so that membership of the kept ones is a fair coin given the covariates (Theorem Z).

    Parameters
    ----------
    ev : Evidence of n records, design "zero-run", one score
    propensity : Propensity of the same records, or an array (n,) in (0, 1) of known ones
    half_width : number, array (n,), ``StandardErrors(2)`` or ``Scheffe()``
        How far the log-odds may be off; 0 takes them as known, which learned ones are not.
    rng : the coins; record its seed

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> ev = Evidence(score=x, member=rng.random(2000) < pi, covariates=x, design="zero-run")
    >>> found = thin(ev, Propensity.given(pi), rng=rng)
    >>> found.evidence.design, bool(abs(found.evidence.member.mean() - 0.5) < 0.03), round(found.effective)
    ('one-run', True, 1297)
    """
    check_generator(rng)
    propensity = Propensity.of(propensity)
    records = AuditedRecords.of(ev, propensity, rng)
    wide, _, _ = zero_run_audit.half_width_of(half_width, propensity, 0.05, None, records, ev)
    job = Job(ev, propensity, "mu", 0.0, 1, "median", 0.95, None, rng)
    ((_, places, guess),) = zero_run_audit.orders(job, records)
    low, high = (records.logit - wide)[places], (records.logit + wide)[places]
    guess = guess[places]
    retained = tossed(records.member[places], guess, low, high, rng)
    rows = records.rows[places[retained]]
    inside = ev.member[rows]
    if len(rows) == 0 or inside.all() or not inside.any():
        raise InputError(
            "evidence", "members and non-members among the thinned records", f"{len(rows)} records", "collect more"
        )
    evidence = Evidence(
        score=ev.score[rows],
        member=inside,
        covariates=None if ev.covariates is None else ev.covariates[rows],
        covariate_names=ev.covariate_names or None,
        design="one-run",
        group=None if ev.group is None else ev.group[rows],
        source=f"{ev.source} (thinned to fair coins)".strip(),
    )
    return Thinned(evidence, float(coins_worth(low, high).sum()), rows, guess[retained])


# -- testable or not ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Testability:
    """Whether bounds can be given at all (Proposition 3, erratum B20), and the figures that say so.

    Attributes
    ----------
    reasons : sentences; empty if the audit can be carried out
    effective : M of Theorem Z at the propensities used, without any half-width
    records : number of records (units)
    rows_per_covariate : that the propensity was learned from, those of one unit counted as alike; None if given
    blind_half, blind_full : AUC of the covariates alone, learned from half of the rows and from all; None if not known
    """

    reasons: tuple[str, ...]
    effective: float
    records: int
    rows_per_covariate: float | None = None
    blind_half: float | None = None
    blind_full: float | None = None

    __test__ = False  # not a test of pytest's, whatever its name begins with

    @property
    def testable(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons


def testability(
    ev: Evidence,
    propensity: Propensity | ArrayLike,
    *,
    bounds_given: bool = False,
    replicates_given: bool = False,
    curve: LearningCurve | None = None,
    overlap: Overlap | None = None,
) -> Testability:
    """Say whether a zero-run audit can refute anything here; never raises for a poor propensity.

    Parameters
    ----------
    ev, propensity : as in :func:`mu_lower_bound`
    bounds_given : whether bounds on the log-odds are stated, so that the number of rows does not matter
    replicates_given : whether bootstrap replicates are at hand, which a model other than the default needs
    curve : of :func:`miaudit.causal.propensity.learning_curve`, optional
    overlap : of :func:`miaudit.causal.balance.judge_overlap`, optional

    Examples
    --------
    >>> ev = Evidence(score=[0, 1, 2], member=[0, 1, 1], design="zero-run")
    >>> testability(ev, Propensity.given([0.4, 0.5, 0.6])).testable
    True
    """
    propensity = Propensity.of(propensity)
    rows = rows_for_each(propensity, ev)
    reasons = [] if bounds_given else list(too_few_rows(propensity, ev))
    if not (bounds_given or replicates_given or is_given(propensity) or propensity.logistic):
        reasons.append(
            "how far the learned log-odds may be off is not known for this classifier: learn them with the default "
            "model, or pass bootstrap replicates"
        )
    if curve is not None and curve.rising:
        reasons.append(
            f"the propensity is still being learned: covariates alone tell members with an AUC of {curve.half:.3f} "
            f"from half of the rows and {curve.full:.3f} from all of them (erratum B20)"
        )
    if overlap is not None and overlap.status == "refused":
        reasons += [f"members and non-members do not overlap (Proposition 3): {text}" for text in overlap.reasons]
    logits = propensity.matched(ev).logit
    return Testability(
        tuple(reasons),
        float(coins_worth(logits, logits).sum()),
        ev.n_units,
        rows,
        None if curve is None else curve.half,
        None if curve is None else curve.full,
    )


testability.__test__ = False  # type: ignore[attr-defined]  # nor is this


def shift_curve(
    ev: Evidence, propensity: Propensity | ArrayLike, *, confidence: float = 0.95, half_width: Any = None
) -> ShiftCurve:
    """Return delta_DS(epsilon) of the audited records (Proposition 2), when both classes are equally frequent.

    Parameters
    ----------
    ev, propensity : as in :func:`mu_lower_bound`; the limits count every record as independent
    confidence : that all limits hold together, if the log-odds lie within the half-width
    half_width : as in :class:`Thinning`: None for 0 where propensities were given and two standard errors where learned

    Examples
    --------
    >>> ev = Evidence(score=range(4), member=[0, 1, 0, 1], design="zero-run")
    >>> shift_curve(ev, Propensity.given([0.5, 0.5, 0.1, 0.5])).delta[0].round(3).item()  # one of two: half of .883
    0.442
    """
    pi = Propensity.of(propensity).matched(ev)
    wide, _, cost = zero_run_audit.half_width_of(half_width, pi, 1 - confidence, None, None, ev)
    logit = pi.logit - math.log(ev.n_members / ev.n_nonmembers)
    return composition.shift_curve(logit, ev.member, confidence=confidence + cost, half_width=wide)
