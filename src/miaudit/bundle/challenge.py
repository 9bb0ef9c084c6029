"""Challenges of a bundle: a stronger attack or a better propensity on the same records.

Where labels are sealed, a submission counts if the owner signed, when opening, that it was in: whoever comes later may
have used the labels, and what that shows is not decided.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, IntArray
from miaudit.auditing import pipeline
from miaudit.auditing.fair_coins import FairCoins
from miaudit.auditing.headline import Declared
from miaudit.auditing.plan import Plan
from miaudit.bundle import sealed_audits, sealing, verify
from miaudit.bundle.contents import GIVEN, Bundle
from miaudit.bundle.sealing import Opening
from miaudit.causal import challenge as betting
from miaudit.causal import replicates
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.findings.policy import Policy
from miaudit.findings.verification import ChallengeFindings
from miaudit.io import tables
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.definition import amount, label
from miaudit.metrics.rounding import difference, upper_text
from miaudit.metrics.trials import drawn_alike, one_of_each, sizes

__all__ = ["by_propensity", "by_scores", "submitted"]

LEVEL = 0.05
STATED, CHALLENGER = "bundle", "challenger"
Subject = Literal["scores", "propensity"]
Status = Literal["won", "stands", "undecided"]
Order = Literal["committed before the opening", "order unknown"]
COMMITTED: Order = "committed before the opening"
UNKNOWN: Order = "order unknown"


def by_scores(
    bundle: Bundle,
    scores: ArrayLike,
    *,
    keys: Opening | None = None,
    made_before: int = 0,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> ChallengeFindings:
    """Compare another attack's scores with the bundle's on the same records.

    The challenger wins if the TPR at the lowest FPR of the bundle's limits (the AUC, where none of them has a paired
    interval) is larger with the submitted scores, at a confidence of 95% that all challenges share: with k made before,
    this one is held to 1 - 0.05 / (k + 1). Where labels were sealed, only those records decide, and all submissions
    that the owner signed for share the 95%: any of them may be the one that is shown.

    Parameters
    ----------
    bundle : Bundle
    scores : array (n,), higher means more member-like, in the order of the bundle's records
    keys : Opening or Keys, optional
        They open sealed labels; without them the outcome is undecided, and the submission is kept by its digest. An
        opening says which submissions were in by then; of others, and with the owner's keys, the order is unknown.
    made_before : int
        How many challenges to this bundle came before.
    rng : of the bootstrap; where labels were sealed, both sides' commitments fix it instead
    progress : function of bootstrap replicates done and their number, optional

    Raises
    ------
    InputError
        If the bundle does not fit its manifest or withholds scores, or the submission does not fit the records.
    """
    submitted = _numbers(scores, bundle, "scores")
    _check(bundle, made_before)
    digest = _digest(bundle, "scores", submitted)
    if bundle.sealed is not None and keys is None:
        return _undecided(bundle, "scores", digest, made_before, len(bundle.sealed.rows))
    contest = _Contest.of(bundle, keys, digest, rng)
    _check_stated(contest.bundle, contest.evidence)
    comparison = _Comparison.of(contest, submitted)
    tests, rng_alone = contest.tests(made_before), copy.deepcopy(contest.rng)
    difference = comparison.with_bundle(tests, contest.rng, progress)
    ahead = _ahead(difference)
    # An attack that knows nothing is stronger than one that is worse than nothing, and shows nothing.
    won = ahead and _ahead(comparison.with_chance(tests, contest.rng))
    hidden = not ahead and contest.listed > 1 and _ahead(comparison.with_bundle(made_before + 1, rng_alone))
    again = _audited(contest.submitted_scores(submitted), contest.bundle, None, contest.rng, tests)
    sentence = (
        f"{_outcome_of_scores(comparison.metric, difference, won, ahead, len(contest.judged))} "
        f"{contest.correction(made_before, hidden=hidden)}"
    )
    doubt = _refused(contest.bundle) or (
        "" if won else _inverted(comparison.challenger, again, contest.bundle.plan.confidence)
    )
    result = {"metric": comparison.metric, "difference": asdict(difference), "findings": again}
    return contest.outcome("scores", won, sentence, made_before, doubt, **result)


def by_propensity(
    bundle: Bundle,
    values: ArrayLike,
    *,
    keys: Opening | None = None,
    made_before: int = 0,
    gamma: float = 0.1,
    rng: np.random.Generator,
) -> ChallengeFindings:
    """Test the bundle's propensity against another one (Theorem C.1, epsilon = 0), and audit with it.

    Parameters
    ----------
    bundle : Bundle of a zero-run audit
    values : array (n,) in (0, 1), the challenger's P(member given covariates) of each record
    keys, made_before : as in :func:`by_scores`
    gamma : how far the log-odds may be off before the bundle's propensity counts as refuted

    Raises
    ------
    InputError
        As :func:`by_scores`; also if the audit had no propensity to challenge.
    """
    submitted = _numbers(values, bundle, "propensity")
    other = Propensity.given(submitted, "the challenger's")
    _check(bundle, made_before)
    if bundle.findings.design != "zero-run" or (bundle.sealed is None and bundle.propensity is None):
        raise _no_propensity(bundle)
    digest = _digest(bundle, f"propensity at {float(gamma)!r}", submitted)
    if bundle.sealed is not None and keys is None:
        return _undecided(bundle, "propensity", digest, made_before, len(bundle.sealed.rows))
    contest = _Contest.of(bundle, keys, digest, rng)
    bundle, evidence, rng = contest.bundle, contest.evidence, contest.rng
    _check_stated(bundle, evidence)
    stated = bundle.propensity
    if stated is None:
        raise _no_propensity(bundle)
    rows = np.arange(bundle.n) if bundle.rows is None else bundle.rows
    own = np.full(bundle.n, np.nan)
    own[rows] = stated.logit
    judged = np.intersect1d(contest.judged, rows)
    judged = _one_of_each_unit(evidence, judged, rng, learned=GIVEN not in bundle.programs)
    bet = betting.against(
        own[judged],
        other.logit[judged],
        evidence.member[judged],
        gamma=gamma,
        level=LEVEL,
        tests=contest.tests(made_before),
    )
    again = _audited(evidence, bundle, Nuisance(propensity=other), rng, contest.tests(made_before))
    hidden = not bet.refutes and contest.listed > 1 and bet.p_value <= LEVEL / (made_before + 1)
    sentence = f"{_outcome_of_bet(bet)} {contest.correction(made_before, hidden=hidden)}"
    return replace(contest, judged=judged).outcome(
        "propensity", bet.refutes, sentence, made_before, bet=asdict(bet), findings=again
    )


@dataclass(frozen=True, eq=False)
class _Contest:
    """Basis of a judgement: the bundle with its labels, the deciding records, and who knew them when.

    ``order`` is None where no label was ever sealed; ``listed`` counts the submissions that the owner signed for.
    """

    bundle: Bundle
    evidence: Evidence
    judged: IntArray
    rng: np.random.Generator
    submission: str
    order: Order | None
    listed: int = 0

    @classmethod
    def of(cls, bundle: Bundle, keys: Opening | None, submission: str, rng: np.random.Generator) -> _Contest:
        """Open sealed labels, whose records then decide."""
        order: Order | None = None
        listed = 0
        judged, whole = np.arange(bundle.n), bundle
        if bundle.sealed is not None and keys is not None:
            whole = sealed_audits.opened(bundle, keys)
            order = COMMITTED if keys.lists(submission, bundle.mark, bundle.sealed) else UNKNOWN
            listed = len(keys.submissions)
            judged, rng = bundle.sealed.rows, sealing.judge(keys, submission)
        evidence = whole.evidence()
        if evidence is None:
            raise AttributeError("labels that are still sealed")
        if evidence.inclusion is not None:
            coins = FairCoins.tossed(evidence, rng=rng.spawn(1)[0])
            if coins is not None and coins.differ:  # else the chances themselves would be scores that win
                judged = np.intersect1d(judged, coins.rows)
        if order is not None and whole.propensity is not None and whole.share == "all" and not whole.programs:
            # Learned again: those that the owner committed to were not seen, and if made of labels they win every bet.
            _, learned, rows = verify.repeated(whole, evidence)
            whole = replace(whole, propensity=learned, rows=rows)
        return cls(whole, evidence, judged, rng, submission, order, listed)

    def tests(self, made_before: int) -> int:
        """Return how many challenges share the level: those made before, or all that the owner signed for."""
        return max(made_before + 1, self.listed)

    def submitted_scores(self, scores: FloatArray) -> Evidence:
        """Return the evidence with the submitted scores, beside the reference scores of the bundle's plan."""
        reference = self.bundle.plan.reference
        names = () if reference is None else reference.names
        return self.evidence.replace(score={CHALLENGER: scores, **{name: self.evidence.scores[name] for name in names}})

    def correction(self, made_before: int, *, hidden: bool) -> str:
        """Say for which challenges this one is corrected.

        ``hidden`` says whether it would win if the others had not been listed.
        """
        if self.listed <= made_before + 1:
            only = "It is the only submission that the owner signed for." if self.listed == 1 else ""
            return only if only and not made_before and self.order == COMMITTED else _correction(made_before)
        one = "It is one of" if self.order == COMMITTED else "It is none of"
        sentence = (
            f"{one} {self.listed:,} submissions that the owner signed for, and pays for all of them (Bonferroni): any "
            "of them may be the one that is shown."
        )
        alone = " Alone it would be ahead: ask the owner whose the others are." if hidden else ""
        return f"{sentence}{alone}"

    def outcome(
        self, subject: Subject, ahead: bool, sentence: str, made_before: int, doubt: str = "", **details: Any
    ) -> ChallengeFindings:
        """Judge a submission; while its order is unknown it neither wins nor loses.

        ``doubt`` says why nothing is decided, whoever is ahead; it is empty if there is no doubt.
        """
        status: Status = "stands" if not ahead else "undecided" if self.order == UNKNOWN else "won"
        head = doubt or (f"Nothing is decided: {UNKNOWN}. " if status == "undecided" else "")
        status = "undecided" if doubt else status
        return ChallengeFindings(
            subject=subject,
            status=status,
            text=f"{head}{sentence}{_known(self.order, ahead)}",
            digest=self.bundle.digest or "",
            labels_visible=self.order != COMMITTED,
            made_before=made_before,
            listed=self.listed,
            judged=len(self.judged),
            submission=self.submission,
            order=self.order,
            bundle=self.bundle.findings.metrics,
            **details,
        )


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Submitted scores beside those of the bundle, on the records that decide.

    Attributes
    ----------
    challenger, bundle, chance : the submitted scores, the bundle's, and scores that are all equal
    odds : array of the odds of membership of these records, None unless the audit is zero-run
    metric : in which the scores are compared
    """

    challenger: Evidence
    bundle: Evidence
    chance: Evidence
    odds: FloatArray | None
    metric: str

    @classmethod
    def of(cls, contest: _Contest, submitted: FloatArray) -> _Comparison:
        """Compare in the first metric of the audit's limits that has a usable paired interval."""
        bundle, evidence, judged = contest.bundle, contest.evidence, contest.judged
        own, odds = _headline(bundle, evidence), _odds(bundle, evidence)
        odds = None if odds is None else odds[judged]
        challenger, stated, chance = (
            Evidence(score=values, member=evidence.member, unit=evidence.unit).take(judged)
            for values in (submitted, own.score, np.zeros(bundle.n))
        )
        return cls(challenger, stated, chance, odds, _metric(bundle, (challenger, stated), odds))

    def with_bundle(
        self, tests: int, rng: np.random.Generator, progress: Callable[[int, int], None] | None = None
    ) -> Estimate:
        """Estimate the challenger's metric less the bundle's, at the level of so many tests."""
        return self._difference(self.bundle, tests, rng, progress)

    def with_chance(self, tests: int, rng: np.random.Generator) -> Estimate:
        """Estimate the challenger's metric less that of random guesses, at the level of so many tests."""
        return self._difference(self.chance, tests, rng, None)

    def _difference(
        self, other: Evidence, tests: int, rng: np.random.Generator, progress: Callable[[int, int], None] | None
    ) -> Estimate:
        fpr = definition.of(self.metric).fpr
        return replicates.difference(
            self.challenger,
            other,
            odds=self.odds,
            fpr_targets=() if fpr is None else (fpr,),
            confidence=1 - 2 * LEVEL / tests,  # two-sided limits, whose lower one is one-sided at the level
            rng=rng,
            progress=progress,
        )[self.metric]


def submitted(path: str | Path, column: str | None, argument: str) -> FloatArray:
    """Read a submission: a .npy, or a column of a table (default ``score`` or ``propensity``)."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return np.asarray(tables.read_array(path, f"--{argument}"))
    name = column or {"scores": "score"}.get(argument, argument)
    return np.asarray(tables.read_columns(path, (name,), f"--{argument}")[name])


def _audited(
    evidence: Evidence, bundle: Bundle, nuisance: Nuisance | None, rng: np.random.Generator, tests: int
) -> Findings | None:
    """Repeat the audit under the bundle's plan, at the level of so many tests; None if covariates are withheld."""
    if evidence.design == "zero-run" and evidence.covariates is None and evidence.text is None:
        return None
    plan: Plan = replace(bundle.plan, confidence=1 - (1 - bundle.plan.confidence) / tests)
    if CHALLENGER in evidence.scores and isinstance(plan.headline, Declared):
        plan = replace(plan, headline=Declared(CHALLENGER))
    with verify.refusing():
        return pipeline.audit(evidence, plan=plan, nuisance=nuisance, rng=rng, notes=("A challenge to a bundle.",))


def _check(bundle: Bundle, made_before: int) -> None:
    if bundle.tampered:
        received = bundle.tampered[0].rstrip(".")
        raise InputError("bundle", "one that fits its manifest", received, "run miaudit verify on it")
    if bundle.share == "hashes":
        raise InputError("bundle", "one that shares scores", "keyed hashes of records", "ask for --share scores")
    if isinstance(made_before, bool) or not isinstance(made_before, int) or made_before < 0:
        raise InputError("made_before", "a whole number from 0 up", repr(made_before), "count earlier challenges")


def _numbers(values: ArrayLike, bundle: Bundle, argument: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(argument, "numbers", "something else", "submit one number for each record") from error
    if array.shape != (bundle.n,):
        raise InputError(argument, f"{bundle.n:,} numbers", f"shape {array.shape}", "keep the order of the records")
    if not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array)))
        raise InputError(argument, "finite numbers", f"{array[row]} in row {row}", "score every record")
    return array


def _headline(bundle: Bundle, evidence: Evidence) -> Evidence:
    return evidence.only(bundle.findings.scores[0].score)


def _odds(bundle: Bundle, evidence: Evidence) -> FloatArray | None:
    if evidence.design != "zero-run":
        return None
    stated, rows = bundle.propensity, bundle.rows
    if stated is None:
        raise InputError("bundle", "a propensity for a zero-run audit", "none", "challenge its design")
    if rows is not None:
        received = "some of a part of the records"
        raise InputError("bundle", "a propensity for each record of a zero-run audit", received, "challenge its design")
    return stated.odds


def _no_propensity(bundle: Bundle) -> InputError:
    received = f"one of design {bundle.findings.design} without propensities"
    return InputError("bundle", "a bundle with propensities", received, "challenge its scores instead")


def _check_stated(bundle: Bundle, evidence: Evidence) -> None:
    """Refuse a bundle whose owner committed to other labels than those audited."""
    differing = verify.stated_otherwise(bundle, evidence)
    if differing:
        received = f"{differing[0].place} of {differing[0].stated}, recomputed {differing[0].recomputed}"
        raise InputError("bundle", "findings that follow from its records", received, "run miaudit verify on it")


def _metric(bundle: Bundle, judged: tuple[Evidence, Evidence], odds: FloatArray | None) -> str:
    """Return the first metric of the audit's limits that has a usable paired interval, else the AUC."""
    for name in Policy.of(bundle.findings.plan["limits"]).metrics:
        fpr = definition.of(name).fpr
        if fpr is not None and all(replicates.resolves(one, fpr, odds) for one in judged):
            return name
    return "auc"


def _one_of_each_unit(evidence: Evidence, rows: IntArray, rng: np.random.Generator, *, learned: bool) -> IntArray:
    """Return one record of each unit, since labels of one unit are not independent."""
    if evidence.unit_codes is None:
        return rows
    codes = evidence.unit_codes
    if learned:
        return rows[drawn_alike(codes[rows], rng, of=sizes(codes)[rows])]
    return rows[one_of_each(codes[rows], rng)]


def _undecided(bundle: Bundle, subject: Subject, digest: str, made_before: int, judged: int) -> ChallengeFindings:
    text = (
        f"Nothing is decided yet: {judged:,} labels are sealed. Send the SHA-256 of the submission to the owner of the "
        "bundle before they are opened; the same command with --key and the opening that lists it decides."
    )
    return ChallengeFindings(
        subject=subject,
        status="undecided",
        text=text,
        digest=bundle.digest or "",
        labels_visible=False,
        made_before=made_before,
        judged=judged,
        submission=digest,
    )


def _outcome_of_scores(metric: str, estimate: Estimate, won: bool, ahead: bool, judged: int) -> str:
    value, low, high = (0.0 if x is None else x for x in (estimate.value, estimate.low, estimate.high))
    limits = f"{label(metric)} {difference(value, low, high)} against the bundle's, on {judged:,} records"
    head = "The challenger's attack is stronger" if won else "The challenger's attack is not shown to be stronger"
    chance = "" if won or not ahead else " It is not shown to be better than chance."
    return f"{head}: {limits}.{chance}"


def _ahead(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.low > 0


def _inverted(submitted: Evidence, audited: Findings | None, confidence: float) -> str:
    """Return a note if the submission points the wrong way."""
    high = Sample.of(submitted).auc(confidence).high if audited is None else audited.metric("auc").high
    if high is None or high >= 0.5:
        return ""
    return (
        f"Undecided: the submitted scores point the wrong way (AUC at most {amount('auc', high, 'up')}); if they are "
        "losses, submit them with the opposite sign. As they are: "
    )


def _refused(bundle: Bundle) -> str:
    """Return a note if members and non-members are not comparable."""
    overlap = bundle.findings.overlap
    if overlap is None or overlap.status != "refused":
        return ""
    return "Undecided: the bundle's audit was refused, so no weights make its members and non-members comparable. "


def _outcome_of_bet(bet: betting.Bet) -> str:
    head = f"The challenger's propensity {'refutes' if bet.refutes else 'does not refute'} the bundle's"
    counted = f"{bet.correct:,} of {bet.guesses:,} bets won, p = {upper_text(bet.p_value)} at a margin of {bet.gamma:g}"
    return f"{head}: {counted}."


def _correction(before: int) -> str:
    if not before:
        return "It was declared as the first challenge."
    return f"It is corrected for {before} earlier {'challenge' if before == 1 else 'challenges'} (Bonferroni)."


def _known(order: Order | None, ahead: bool) -> str:
    """Return what the challenger may have known of the deciding labels."""
    if order == COMMITTED:
        return " The submission was in before the labels that decided were opened: the owner signed its digest."
    if order == UNKNOWN:
        return " The owner did not sign that it was in before the labels were opened: it may be made from them."
    return " Labels visible: the challenger could have used them." if ahead else ""


def _digest(bundle: Bundle, subject: str, values: FloatArray) -> str:
    """Return a commitment to a submission: its numbers, their kind and the bundle."""
    state = hashlib.sha256(b"miaudit submission\x00" + bundle.mark + subject.encode() + b"\x00")
    state.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return state.hexdigest()
