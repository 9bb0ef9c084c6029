"""The alarm budget of a history: what each release spent of it, what is left, and whether there is an alarm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from miaudit.arrays import Count, Inside, Share, Text
from miaudit.findings.audit import Findings
from miaudit.findings.judge import tail_of
from miaudit.metrics import alarm_budget
from miaudit.metrics.rounding import percent

__all__ = ["Budget", "BudgetedRelease", "Memberships", "combined_p"]

Memberships = Literal["fresh", "shared"]
_ONE_SCORE = ("declared", "split")  # headlines of one score: the others are reported beside it


@dataclass(frozen=True)
class BudgetedRelease:
    """One release in the budget.

    Attributes
    ----------
    name : of the audit
    date : of the audit, as it states it
    tests : tests of limits that the release takes part with; 0 where its audit gives no answer
    p : of "no limit is exceeded", after a Bonferroni correction for these tests; 1 without an answer
    spent, left : part of the budget that the release takes, and what remains after it
    threshold : the p-value at or below which the release alone raises an alarm
    gathered : evidence of all releases so far (fresh memberships); None where releases share members
    alarm : whether this release raises an alarm
    reason : why the release has no p-value; empty where it has one
    """

    name: str
    date: Text
    tests: Count
    p: Share
    spent: Share
    left: Share
    threshold: Share
    gathered: float | None
    alarm: bool
    reason: str


@dataclass(frozen=True)
class Budget:
    """The probability of a false alarm that all releases share, and what came of it.

    Attributes
    ----------
    total : probability of one or more false alarms over the whole life of the model
    memberships : "fresh" where every release has new random memberships, else "shared"
    basis : why they count as fresh or shared, in a sentence
    releases : oldest first
    alarm_at : value of ``gathered`` that raises an alarm; None where releases share members
    text : the result in a sentence or two
    cautions : what the result rests on
    """

    total: Inside
    memberships: Memberships
    basis: Text
    releases: tuple[BudgetedRelease, ...]
    alarm_at: float | None
    text: Text
    cautions: tuple[str, ...]

    @classmethod
    def of(
        cls,
        audits: Sequence[tuple[str, Findings]],
        total: float,
        memberships: Memberships,
        basis: str,
        others: Sequence[str] = (),
    ) -> Budget:
        """Apply the rule of :mod:`miaudit.metrics.alarm_budget` to audits, oldest first.

        Parameters
        ----------
        audits : names and findings, each with a date
        total : the budget, in (0, 0.5]
        memberships, basis : as the attributes
        others : what was left out of the history, in sentences

        Raises
        ------
        InputError
            For a budget outside its range.
        """
        fresh, tests = memberships == "fresh", [combined_p(audit) for _, audit in audits]
        rows = alarm_budget.alarms([p for p, _, _ in tests], total, fresh=fresh)
        releases = tuple(
            BudgetedRelease(
                name=name,
                date=(audit.about.date if audit.about else None) or "-",
                tests=count,
                p=p,
                spent=row.spent,
                left=row.left,
                threshold=row.threshold,
                gathered=row.gathered,
                alarm=row.alarm,
                reason=reason,
            )
            for (name, audit), (p, count, reason), row in zip(audits, tests, rows, strict=True)
        )
        at = 2 / float(total) if fresh else None
        return cls(total, memberships, basis, releases, at, _text(releases, total), (*_cautions(audits), *others))

    @property
    def exit_code(self) -> int:
        """3 where any release raised an alarm, 4 where the last one has no answer, else 0."""
        if any(one.alarm for one in self.releases):
            return 3
        return 0 if self.releases[-1].tests else 4


def combined_p(audit: Findings) -> tuple[float, int, str]:
    """Return the p-value of "no limit is exceeded" over all limits and scores that count, and how many these are.

    The smallest p-value of the tests is multiplied by their number. A test that so few records cannot reject does not
    count, nor does a score that is only reported beside a declared headline. Without an answer p is 1, the number is 0,
    and the third value says why.

    Examples
    --------
    >>> import numpy as np, miaudit
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(2000) < 0.5
    >>> evidence = miaudit.Evidence(score=rng.normal(size=2000) + member, member=member, design="one-run")
    >>> p, tests, reason = combined_p(miaudit.audit(evidence, plan=miaudit.Plan(limits={"auc": 0.7}), rng=rng))
    >>> p < 1e-6, tests, reason
    (True, 1, '')
    """
    verdict = audit.verdict
    if not verdict.limits:
        return 1.0, 0, f"{verdict.word}: the audit compares nothing with its limits."
    if verdict.exploratory:
        return 1.0, 0, "The score was chosen on the same data without a correction (exploratory)."
    one_score = audit.plan["headline"]["kind"] in _ONE_SCORE
    counted = [one for one in verdict.limits if one.resolved and (not one_score or one.score == audit.scores[0].score)]
    if not counted:
        return 1.0, 0, "So few records cannot show that a limit is exceeded."
    level = tail_of(verdict.confidence)  # bounds the p-value of a limit that was exceeded without one
    smallest = min((level if one.outcome == "exceeded" else 1.0) if one.p is None else one.p for one in counted)
    tests, coins = len(counted), audit.sealed_coins
    if coins is not None and coins.missing:
        tests = math.ceil(tests * max(1.0, coins.tries / len({one.score for one in counted})))
    return min(1.0, tests * smallest), tests, ""


def _text(releases: Sequence[BudgetedRelease], total: float) -> str:
    """Say whether there is an alarm, and what is left."""
    count, left = len(releases), percent(releases[-1].left, "down")
    budget = f"The budget is {percent(total)} for all releases of the model together."
    alarms = [one for one in releases if one.alarm]
    if alarms:
        first, later = alarms[0], len(alarms) - 1
        if first.p <= first.threshold:
            why = f"Alarm: {first.name} exceeds a limit (p = {first.p:.2g})."
        else:
            why = f"Alarm at {first.name}: the releases so far show together that at least one exceeds a limit."
        more = "" if not later else f" {later:,} later {'release raises' if later == 1 else 'releases raise'} one too."
        return f"{why}{more} {budget}"
    last = releases[-1]
    if not last.tests:
        why = f"the audit of {last.name} gives no answer. {last.reason}"
        return f"Not answered: {why} Do not treat this as a pass. {budget}"
    return f"No alarm in {count:,} {'release' if count == 1 else 'releases'}. {budget} {left} is left for later ones."


def _cautions(audits: Sequence[tuple[str, Findings]]) -> tuple[str, ...]:
    """What the rule does not see."""
    sentences = [
        'Do not treat "no alarm" as a pass. It does not show that nothing leaks: each audit states what it leaves open.'
    ]
    alone = [name for name, audit in audits if audit.verdict.status == "flagged"]
    if alone:
        at = "the verdict is Concern" if len(alone) == 1 else "the verdicts are Concern, each"
        sentences.append(
            f"In {', '.join(alone)} {at} at the level of one audit. Of many releases without leakage some are: "
            "the budget decides."
        )
    refuted = [name for name, audit in audits if audit.exit_code == 3 and audit.verdict.status != "flagged"]
    if refuted:
        sentences.append(f"A privacy claim is refuted in {', '.join(refuted)}. Claims take no part in the budget.")
    if {audit.about.model if audit.about else None for _, audit in audits} == {None}:
        sentences.append("No audit names its model (about.model), so nothing shows that all are of one model.")
    dates = [audit.about.date if audit.about else None for _, audit in audits]
    if len(set(dates)) < len(dates):
        sentences.append("Several audits have one date: these are in the order of their names.")
    return tuple(sentences)
