"""A bundle challenged: a stronger attack, or a better propensity, on the same records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit import pipeline, tables
from miaudit.bundle import verify
from miaudit.bundle.contents import GIVEN, Bundle
from miaudit.bundle.sealing import Keys
from miaudit.causal import challenge as betting
from miaudit.causal import one_record, paired
from miaudit.causal.classical import Estimate
from miaudit.causal.crossfit import one_of_each
from miaudit.causal.nuisance import Nuisance
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.plan import Declared, Plan
from miaudit.report.findings import Findings
from miaudit.wording import label

LEVEL = 0.05
STATED, CHALLENGER = "bundle", "challenger"
Subject = Literal["scores", "propensity"]
Status = Literal["won", "stands", "undecided"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Who won a challenge, and what it rests on.

    Attributes
    ----------
    subject : "scores" or "propensity"
    status : "won" by the challenger, "stands" for the bundle, or "undecided" while labels are sealed
    text : the outcome in a sentence or two
    labels_visible : whether the challenger could see the labels of the records that decided
    made_before : challenges to this bundle before this one, which this one pays for
    judged : number of records that decided
    metric : the metric that decided, and ``difference``: challenger less bundle, with its interval; None where none
    bet : the test of the bundle's propensity, or None
    findings : of the audit with the challenger's scores or propensities, or None while labels are sealed
    submission : SHA-256 of what was submitted, by which both sides can show later what it was
    """

    subject: Subject
    status: Status
    text: str
    labels_visible: bool
    made_before: int
    judged: int
    submission: str
    metric: str | None = None
    difference: Estimate | None = None
    bet: betting.Challenge | None = None
    findings: Findings | None = None

    @property
    def exit_code(self) -> int:
        """Of the command line: 3 where the challenger won, 4 while nothing is decided, else 0."""
        return {"won": 3, "undecided": 4, "stands": 0}[self.status]


def by_scores(
    bundle: Bundle,
    scores: ArrayLike,
    *,
    keys: Keys | None = None,
    made_before: int = 0,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Let another attack's scores compete with the bundle's on the same records.

    The challenger wins if the bundle's primary metric (the AUC, where that has no paired interval) is larger with the
    submitted scores, at a confidence of 95% that all challenges share: with k made before, this one is held to
    1 - 0.05 / (k + 1). Where labels were sealed, only those records decide.

    Parameters
    ----------
    bundle : Bundle
    scores : array (n,), higher means more member-like, in the order of the bundle's records
    keys : Keys, optional
        They open sealed labels; without them the outcome is undecided, and the submission is kept by its digest.
    made_before : int
        How many challenges to this bundle came before.
    progress : function of bootstrap replicates done and their number, optional

    Raises
    ------
    InputError
        If the bundle does not fit its manifest or withholds scores, or the submission does not fit the records.
    """
    submitted = _numbers(scores, bundle, "scores")
    _check(bundle, made_before)
    digest = _digest(submitted)
    evidence = bundle.evidence(keys)
    if evidence is None:
        return _undecided("scores", digest, made_before, len(bundle.sealed[0]))
    _check_stated(bundle, evidence)
    judged = _judged(bundle)
    ours, odds = _headline(bundle, evidence), _odds(bundle, evidence)
    odds = None if odds is None else odds[judged]
    first, second, nothing = (
        Evidence(score=values, member=evidence.member, unit=evidence.unit).take(judged)
        for values in (submitted, ours.score, np.zeros(bundle.n))
    )
    metric = _metric(bundle, (first, second), odds)
    targets = (float(metric.removeprefix("tpr_at_fpr_")),) if metric != "auc" else ()
    options: dict[str, Any] = {"odds": odds, "fpr_targets": targets, "rng": rng}
    # Two-sided limits whose lower one is one-sided at the level.
    options["confidence"] = 1 - 2 * LEVEL / (made_before + 1)
    found = paired.difference(first, second, progress=progress, **options)[metric]
    ahead = found.low is not None and found.low > 0
    # An attack that knows nothing is stronger than one that is worse than nothing, and shows nothing.
    won = ahead and (paired.difference(first, nothing, **options)[metric].low or 0) > 0
    again = _audited(evidence.replace(score={CHALLENGER: submitted}), bundle, None, rng)
    visible = not bundle.has_sealed_labels
    return Outcome(
        "scores",
        "won" if won else "stands",
        _said_of_scores(metric, found, won, ahead, visible, made_before, len(judged)),
        visible,
        made_before,
        len(judged),
        digest,
        metric=metric,
        difference=found,
        findings=again,
    )


def by_propensity(
    bundle: Bundle,
    values: ArrayLike,
    *,
    keys: Keys | None = None,
    made_before: int = 0,
    gamma: float = 0.1,
    rng: np.random.Generator,
) -> Outcome:
    """Let another propensity bet against the bundle's (Theorem C.1 of zero-run with epsilon = 0), and audit with it.

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
    relearned = bundle.has_sealed_labels and bundle.findings["design"] == "zero-run"
    if bundle.propensity is None and not relearned:
        received = f"one of design {bundle.findings['design']} without propensities"
        raise InputError("bundle", "a bundle with propensities", received, "challenge its scores instead")
    digest = _digest(submitted)
    evidence = bundle.evidence(keys)
    if evidence is None:
        return _undecided("propensity", digest, made_before, len(bundle.sealed[0]))
    _check_stated(bundle, evidence)
    stated, found = _propensity(bundle, evidence)
    rows = np.arange(bundle.n) if found is None else found
    own = np.full(bundle.n, np.nan)
    own[rows] = stated.logit
    judged = np.intersect1d(_judged(bundle), rows)
    judged = _one_of_each_unit(evidence, judged, rng, learned=GIVEN not in bundle.programs)
    bet = betting.against(
        own[judged],
        other.logit[judged],
        evidence.member[judged],
        gamma=gamma,
        level=LEVEL,
        tests=made_before + 1,
    )
    visible = not bundle.has_sealed_labels
    again = _audited(evidence, bundle, Nuisance(propensity=other), rng)
    return Outcome(
        "propensity",
        "won" if bet.rejected else "stands",
        _said_of_bet(bet, visible, made_before),
        visible,
        made_before,
        len(judged),
        digest,
        bet=bet,
        findings=again,
    )


def submitted(path: str | Path, column: str | None, argument: str) -> NDArray[np.float64]:
    """Read a submission: a .npy, or one column of a table (``score`` or ``propensity`` unless it is named)."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        return np.asarray(tables.read_array(path, f"--{argument}"))
    name = column or {"scores": "score"}.get(argument, argument)
    return np.asarray(tables.read_columns(path, (name,), f"--{argument}")[name])


def _audited(
    evidence: Evidence, bundle: Bundle, nuisance: Nuisance | None, rng: np.random.Generator
) -> Findings | None:
    """The whole audit again, under the bundle's plan; None where withheld covariates forbid it."""
    if evidence.design == "zero-run" and evidence.covariates is None and evidence.text is None:
        return None
    plan: Plan = bundle.plan
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


def _numbers(values: ArrayLike, bundle: Bundle, argument: str) -> NDArray[np.float64]:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(argument, "numbers", "something else", "submit one number for each record") from error
    if found.shape != (bundle.n,):
        raise InputError(argument, f"{bundle.n:,} numbers", f"shape {found.shape}", "keep the order of the records")
    if not np.isfinite(found).all():
        row = int(np.argmax(~np.isfinite(found)))
        raise InputError(argument, "finite numbers", f"{found[row]} in row {row}", "score every record")
    return found


def _judged(bundle: Bundle) -> NDArray[np.int64]:
    """The records that decide: those whose labels were sealed, or all."""
    return bundle.sealed[0] if bundle.has_sealed_labels else np.arange(bundle.n)


def _headline(bundle: Bundle, evidence: Evidence) -> Evidence:
    return evidence.only(str(bundle.findings["scores"][0]["score"]))


def _odds(bundle: Bundle, evidence: Evidence) -> NDArray[np.float64] | None:
    if evidence.design != "zero-run":
        return None
    stated, rows = _propensity(bundle, evidence)
    if rows is not None:
        received = "some of a part of the records"
        raise InputError("bundle", "a propensity for each record of a zero-run audit", received, "challenge its design")
    return stated.odds


def _propensity(bundle: Bundle, evidence: Evidence) -> tuple[Propensity, NDArray[Any] | None]:
    """The bundle's propensity and its rows; where sealed labels kept it out of the bundle, it is learned again."""
    if bundle.propensity is not None:
        return bundle.propensity, bundle.rows
    again = verify.repeated(bundle, evidence) if bundle.has_sealed_labels and bundle.share == "all" else None
    if again is None or again.propensity is None:
        raise InputError("bundle", "a propensity for a zero-run audit", "none", "challenge its design")
    return again.propensity, again.rows


def _check_stated(bundle: Bundle, evidence: Evidence) -> None:
    """An owner who committed to other labels than those that were audited would win every challenge."""
    differing = verify.stated_otherwise(bundle, evidence)
    if differing:
        received = f"{differing[0].place} of {differing[0].stated}, recomputed {differing[0].recomputed}"
        raise InputError("bundle", "findings that follow from its records", received, "run miaudit verify on it")


def _metric(bundle: Bundle, judged: tuple[Evidence, Evidence], odds: NDArray[np.float64] | None) -> str:
    """The primary metric, or the AUC where that has no paired interval, or too few false alarms for one."""
    primary = str(bundle.findings["plan"]["primary_metric"])
    if not primary.startswith("tpr_at_fpr_"):
        return "auc"
    fpr = float(primary.removeprefix("tpr_at_fpr_"))
    return primary if all(paired.resolves(one, fpr, odds) for one in judged) else "auc"


def _one_of_each_unit(
    evidence: Evidence, rows: NDArray[np.int64], rng: np.random.Generator, *, learned: bool
) -> NDArray[np.int64]:
    """Labels of one unit are not independent, so one record speaks for it; see :mod:`miaudit.causal.one_record`."""
    if evidence.unit_codes is None:
        return rows
    codes = evidence.unit_codes
    if learned:
        return rows[one_record.drawn_alike(codes[rows], rng, of=one_record.sizes(codes)[rows])]
    return rows[one_of_each(codes[rows], rng)]


def _undecided(subject: Subject, digest: str, made_before: int, judged: int) -> Outcome:
    text = (
        f"Nothing is decided yet: {judged:,} labels are sealed. The submission is fixed by its digest; the owner of "
        "the bundle opens the labels with the key file, and the same command with --key decides."
    )
    return Outcome(subject, "undecided", text, False, made_before, judged, digest)


def _said_of_scores(
    metric: str, found: Estimate, won: bool, ahead: bool, visible: bool, before: int, judged: int
) -> str:
    value, low, high = (0.0 if x is None else x for x in (found.value, found.low, found.high))
    limits = f"{label(metric)} {value:+.4f} [{low:+.4f}, {high:+.4f}] against the bundle's, on {judged:,} records"
    head = "The challenger's attack is stronger" if won else "The bundle's attack stands"
    chance = "" if won or not ahead else " It is not shown to be better than chance."
    return f"{head}: {limits}.{chance} {_paid(before)}{_visible(visible, won)}"


def _said_of_bet(bet: betting.Challenge, visible: bool, before: int) -> str:
    head = "The challenger's propensity refutes the bundle's" if bet.rejected else "The bundle's propensity stands"
    counted = f"{bet.correct:,} of {bet.guesses:,} bets won, p = {bet.p_value:.3g} at a margin of {bet.gamma:g}"
    return f"{head}: {counted}. {_paid(before)}{_visible(visible, bet.rejected)}"


def _paid(before: int) -> str:
    if not before:
        return "It is said to be the first challenge."
    return f"It pays for {before} earlier {'challenge' if before == 1 else 'challenges'} (Bonferroni)."


def _visible(visible: bool, won: bool) -> str:
    if not visible:
        return " The labels that decided were sealed until the submission was in."
    return " Labels visible: whoever submits could have used them." if won else ""


def _digest(values: NDArray[np.float64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<f8").tobytes()).hexdigest()
