"""What members and control records of a table have in common before any attack: equal rows, and their sides.

Each of these can take the answer away: control records that are members too, columns that identify members although
chance decided, and equal rows that are all on one side.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray
from miaudit.auditing import design_test
from miaudit.auditing.plan import Plan
from miaudit.causal.duplicates import Repeats
from miaudit.causal.shared_records import Shared
from miaudit.evidence import Evidence
from miaudit.findings import verdict as verdict_rule
from miaudit.findings.audit import Findings
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Table

__all__ = ["contradicted", "repeats", "withheld"]


def repeats(members: Table, control: Table, units: Units | None) -> Repeats | None:
    """Test for equal rows across the classes, on the first record of each unit."""
    values, member = _together(members, control)
    if units is not None:
        first = np.unique(units.code, return_index=True)[1]
        values, member = values[first], member[first]
    return None if member.all() or not member.any() else Repeats.of(values, member)


def contradicted(
    members: Table,
    control: Table,
    equal: Repeats | None,
    design: str | None,
    units: tuple[ArrayLike, ArrayLike] | None,
    confidence: float,
    *,
    rng: np.random.Generator,
) -> str:
    """Return why members and control records allow no answer; an empty text where they allow one.

    Control records may be members too, equal rows may all be on one side, and columns may identify members although
    chance decided.

    Parameters
    ----------
    members, control, design, units : as of :func:`miaudit.synthesis.table_attacks.audit_table`
    equal : of :func:`repeats`
    confidence : of the interval of the AUC of the columns
    rng : draws folds and permutations
    """
    values, member = _together(members, control)
    both = Shared.of(values, member)
    if both.beyond_chance:
        size = both.size.replace("non-members", "control records")
        return f"{size}. Leave them out of the control records, and audit again."
    if equal is not None and equal.forbids(design):
        return equal.text(declared=units is not None)
    if design in (None, "zero-run"):
        return ""
    lowest = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=0)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    columns = members.schema.columns
    evidence = Evidence(
        score=np.zeros(len(member)),
        member=member,
        covariates=np.where(np.isnan(values), lowest - 1, values),  # missing is a value of its own
        covariate_names=[column.name for column in columns],
        unit=None if units is None else np.concatenate([np.asarray(one).astype(np.str_) for one in units]),
        design=design,
    )
    coded = tuple(column.name for column in columns if column.kind == "categorical")
    tested: design_test.DesignTest = design_test.examine(
        evidence, Plan(confidence=confidence, categories=coded), rng=rng
    )
    return tested.obstacle


def withheld(audited: Findings, reason: str) -> Findings:
    """Withhold the answer of a record-wise audit that equal records, or the columns, contradict."""
    judged = audited.verdict
    verdict = verdict_rule.no_answer(
        "refused",
        reason,
        metric=judged.metric,
        threshold=judged.threshold,
        confidence=judged.confidence,
    )
    return replace(audited, verdict=verdict, no_bound=(reason,))


def _together(members: Table, control: Table) -> tuple[FloatArray, BoolArray]:
    """Return the rows (n, d) of members and then of control records, and which are members."""
    values = np.concatenate([members.values, control.values])
    return values, np.arange(len(values)) < len(members)
