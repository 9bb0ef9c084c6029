"""The section of an audit's page on which kinds of records leak, by their covariates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miaudit.metrics.rounding import percent

if TYPE_CHECKING:
    from miaudit.findings.audit import Findings
    from miaudit.findings.by_covariates import ByCovariates

_LINE = (
    "The best linear predictor of the effect, from all records: how much the AUC among records that are alike "
    "changes with one covariate, the others kept equal. The limits hold for all slopes at once. A covariate that "
    "goes with the effect need not be its cause."
)


def section(findings: Findings) -> dict[str, Any] | None:
    """Groups that covariates describe with their AUC, and the line of the effect; None where it was not asked for."""
    shown = findings.by_covariates
    if shown is None:
        return None
    difference = shown.difference
    compared = () if difference is None else (difference.first, difference.second)
    return {
        "text": shown.text,
        "how": _how(shown, corrected=findings.is_corrected),
        "line": _LINE,
        "groups": [
            {
                "group": one.group,
                "compared": one.group in compared,
                "members": f"{one.members:,}",
                "nonmembers": f"{one.nonmembers:,}",
                "auc": one.reading,
            }
            for one in shown.groups
        ],
        "slopes": [{"step": one.step, "change": one.reading, "established": one.established} for one in shown.slopes],
        "notes": shown.notes,
    }


def _how(shown: ByCovariates, *, corrected: bool) -> str:
    """Say how the groups came about, and what their numbers mean."""
    others = "its own non-members, weighted to be like its members" if corrected else "its own non-members"
    return (
        f"{shown.learned:,} records, drawn at random, chose the groups. The other {shown.measured:,} measured them, so "
        "the choice does not flatter the numbers. The AUC of a group is the probability that one of its members has a "
        f"higher score than one of {others}. Each score is compared with what is expected of a non-member with the "
        "same covariates, so records with generally higher scores do not look memorised. At 0.5 nothing is seen. The "
        f"limits hold for all groups at once, with {percent(shown.confidence)} confidence. They describe this score "
        "and do not decide the verdict. Another seed divides the records differently and may name other groups."
    )
