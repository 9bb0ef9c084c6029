"""How many records were used, and whether their deletion worked: from scores to findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, Inside
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence
from miaudit.findings.policy import USED, checked
from miaudit.findings.usage import Compared, DeletionFindings, Point, UsageFindings, UsageVerdict
from miaudit.findings.verdict import LimitResult
from miaudit.metrics import deletion, usage
from miaudit.metrics.deletion import Deletion, Deviation
from miaudit.metrics.rounding import percent, written
from miaudit.metrics.usage import Usage

__all__ = ["Scores", "UsagePlan", "audit_deletion", "audit_usage"]

_POINTS = 50  # of a curve
_UNKNOWN = "nothing shows that a record was not used"
_ASSUMED = {
    "decoys": "The decoys come from the law of each record's own string, by a seed that was fixed before any score.",
    "non-members": (
        "Records that were not used score as the non-members do. A random split of one source ensures that; another "
        "source, time or language does not."
    ),
}
_ASSUMED_OF_DELETION = {
    "decoys": _ASSUMED["decoys"],
    "non-members": (
        "Records that left no trace score as the non-members do. A random split of one source ensures that; another "
        "source, time or language does not."
    ),
}


@dataclass(frozen=True)
class UsagePlan:
    """Options of both questions.

    Attributes
    ----------
    limits : mapping, optional
        ``{"used": 0.1}``: the share of records that may have been used. A lower bound above it is a concern. Without a
        limit the bound is stated, and nothing is judged.
    margin : of a deletion, in (0, 0.5): within it an AUC counts as one half, and the share of a tail as chance
    confidence : one-sided, in (0.5, 1)

    Examples
    --------
    >>> UsagePlan(limits={"used": 0.1}).threshold
    0.1
    """

    limits: Any = None
    margin: Inside = deletion.MARGIN
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Check each option."""
        check_confidence(self.confidence, above=0.5)
        if not 0 < self.margin < 0.5:
            hint = f"the default is {deletion.MARGIN:g}"
            raise InputError("margin", "a number above 0 and below 0.5", f"{self.margin:g}", hint)
        if self.limits is not None:
            limits = checked(self.limits)
            other = [name for name, _ in limits if name != USED]
            if other:
                raise InputError("limits", f"{USED}, which this audit measures", other[0], "leave this limit out")
            object.__setattr__(self, "limits", limits)

    @property
    def threshold(self) -> float | None:
        """The limit on the share of used records; None where none was stated."""
        return None if self.limits is None else dict(self.limits)[USED]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of records, and of what they are compared with.

    Attributes
    ----------
    own : array (n,), higher means more likely used
    others : array (n, K) of decoys for each record, or (m,) of records that no training has seen
    """

    own: FloatArray
    others: FloatArray

    @classmethod
    def of(cls, own: ArrayLike, others: ArrayLike) -> Scores:
        """Take lists or arrays."""
        return cls(np.asarray(own, dtype=np.float64), np.asarray(others, dtype=np.float64))

    @property
    def compared(self) -> Compared:
        """What the records are compared with."""
        if self.others.ndim == 2:
            return Compared("decoys", self.others.shape[1])
        return Compared("non-members", len(self.others))

    @property
    def curve(self) -> tuple[Point, ...]:
        """The share of records among the highest scores, by the share that chance puts there; ties count against."""
        if self.others.ndim == 2:
            rank, places = (self.others >= self.own[:, None]).sum(axis=1), self.others.shape[1] + 1
        else:
            places = len(self.others) + 1
            rank = len(self.others) - np.searchsorted(np.sort(self.others), self.own, side="left")
        tops = np.unique(np.rint(np.linspace(1, places, min(places, _POINTS)))).astype(int)
        shares = np.searchsorted(np.sort(rank), tops, side="left") / len(self.own)
        return tuple(
            Point(float(top / places), float(share)) for top, share in zip((0, *tops), (0.0, *shares), strict=True)
        )


def audit_usage(
    scores: Scores,
    plan: UsagePlan | None = None,
    *,
    name: str = "score",
    source: str = "",
    repeat: Mapping[str, Any] | None = None,
) -> UsageFindings:
    """Bound how many records were used, and compare the share with the limit of a plan.

    Parameters
    ----------
    scores : of n records, with decoys (n, K) or non-members (m,)
    plan : confidence and limit; by default the bound alone is stated
    name, source, repeat : of the score, of the file, and what repeats the command

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> own, decoys = rng.normal(size=400) + 6 * (np.arange(400) < 100), rng.normal(size=(400, 20))
    >>> findings = audit_usage(Scores.of(own, decoys))
    >>> print(findings.verdict.text)
    At least 88 of 400 records were used (22%, at 95% confidence).
    >>> audit_usage(Scores.of(own, decoys), UsagePlan(limits={"used": 0.1})).exit_code
    3
    """
    options = plan or UsagePlan()
    compute = usage.among_decoys if scores.others.ndim == 2 else usage.beside_nonmembers
    bound = compute(scores.own, scores.others, confidence=options.confidence)
    return UsageFindings(
        verdict=_judged(bound, options.threshold),
        usage=bound,
        compared=scores.compared,
        curve=scores.curve,
        score=name,
        notes=(_ASSUMED[bound.against],),
        source=source,
        repeat=dict(repeat or {}),
    )


def audit_deletion(
    after: Scores,
    before: Scores,
    plan: UsagePlan | None = None,
    *,
    name: str = "score",
    source: str = "",
    repeat: Mapping[str, Any] | None = None,
    rng: np.random.Generator,
) -> DeletionFindings:
    """Test whether a deletion worked, from scores of the deleted records before and after it.

    Parameters
    ----------
    after, before : of the same deleted records, by the model after the deletion and by the one before it
    plan : margin and confidence
    name, source, repeat : of the score, of the file, and what repeats the command
    rng : decides between equal scores

    Raises
    ------
    InputError
        If the two are of different records, or of different kinds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def scored(shift):
    ...     return Scores.of(rng.normal(size=2000) + shift, rng.normal(size=(2000, 20)))
    >>> findings = audit_deletion(scored(0.0), scored(1.0), rng=rng)
    >>> findings.verdict.status, findings.exit_code
    ('clear', 0)
    """
    options = plan or UsagePlan()
    if after.own.shape != before.own.shape or after.others.ndim != before.others.ndim:
        received = f"{len(after.own):,} records after, {len(before.own):,} before"
        raise InputError(
            "before", "scores of the same records, compared with the same kind", received, "score both alike"
        )
    pairs = (after.own, after.others), (before.own, before.others)
    margin, confidence = options.margin, options.confidence
    if after.others.ndim == 2:
        tested = deletion.among_decoys(*pairs, margin=margin, confidence=confidence, rng=rng)
    else:
        tested = deletion.beside_never_seen(*pairs, margin=margin, confidence=confidence)
    compared = after.compared
    return DeletionFindings(
        verdict=_concluded(tested),
        deletion=tested,
        compared=compared,
        before=before.curve,
        after=after.curve,
        score=name,
        notes=(_ASSUMED_OF_DELETION[compared.kind], _POPULATION),
        source=source,
        repeat=dict(repeat or {}),
    )


_POPULATION = (
    "The test sees what these scores see. A stronger attack may still find what they do not, so it must have found the "
    "records before the deletion."
)


def _judged(bound: Usage, threshold: float | None) -> UsageVerdict:
    """Compare the share of used records with a limit; without one the bound is stated."""
    stated = _stated(bound)
    if threshold is None:
        return UsageVerdict("stated", stated)
    exceeded = bound.share > threshold
    outcome: Any = "exceeded" if exceeded else "open"
    limit = LimitResult(USED, bound.against, bound.share, None, threshold, None, outcome)
    if exceeded:
        return UsageVerdict("flagged", f"Concern: {stated} The limit is {percent(threshold)}.", (limit,))
    why = f"{stated} The limit is {percent(threshold)}, and {_UNKNOWN}."
    return UsageVerdict("inconclusive", f"Not answered (inconclusive): {why}", (limit,))


def _stated(bound: Usage) -> str:
    """The bound as a sentence."""
    confidence = percent(bound.confidence)
    if not bound.used:
        return f"No use of these {bound.records:,} records is shown, at {confidence} confidence; {_UNKNOWN}."
    share = percent(bound.share, "down", 2)
    return f"At least {bound.used:,} of {bound.records:,} records were used ({share}, at {confidence} confidence)."


def _concluded(tested: Deletion) -> UsageVerdict:
    """Put an equivalence test into words."""
    margin, status = written(tested.margin, "g"), tested.status
    if status == "not-testable":
        seen = written(tested.seen_before, ".3f", "down")
        why = f"these scores did not see the records before the deletion either (AUC at least {seen})"
        needed = f"they must show more than {written(0.5 + tested.margin, 'g')}"
        return UsageVerdict("not-testable", f"Not answered (not testable): {why}; {needed}.")
    if status == "equivalent":
        most = percent(tested.most_kept, "up", 2)
        whole = f"At most {most} of the {tested.records:,} records can still be fully known"
        meaning = f"{whole} ({percent(tested.confidence)} confidence). Passed does not mean gone."
        return UsageVerdict("clear", f"Within the limits: every deviation is within {margin}. {meaning}")
    far = [one for one in tested.deviations if one.beyond(tested.margin)]
    if status == "deviates":
        return UsageVerdict(
            "flagged", f"Concern: the deletion did not work. {_upper(_measured(far))} The margin is {margin}."
        )
    open_ = [one for one in tested.deviations if not one.within(tested.margin)]
    return UsageVerdict("inconclusive", f"Not answered (inconclusive): {_measured(open_)} The margin is {margin}.")


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _measured(deviations: Sequence[Deviation]) -> str:
    """Several deviations as one sentence."""
    parts = "; ".join(_deviation(one) for one in deviations)
    return f"{parts}."


def _deviation(one: Deviation) -> str:
    """One deviation with its limits, in words."""
    if one.name == "auc":
        low, high = (written(x, ".3f", way) for x, way in ((one.low, "down"), (one.high, "up")))  # type: ignore[arg-type]
        return f"the deleted records have an AUC of {one.value:.3f} ({low} to {high}), where 0.5 is chance"
    low, high = percent(one.low, "down"), percent(one.high, "up")
    return (
        f"{percent(one.value)} ({low} to {high}) of the deleted records are among the {one.name}, where "
        f"{percent(one.expected)} is chance"
    )
