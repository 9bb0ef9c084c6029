"""Columns of the file that an audit did not use, as a table of its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import percent

if TYPE_CHECKING:
    from miaudit.findings.audit import UnusedColumns

__all__ = ["section"]


def section(unused: UnusedColumns | None) -> dict[str, Any] | None:
    """Return the rows of the table, the column that separates most first, and what was not compared."""
    if unused is None:
        return None
    rows = [
        {
            "name": one.name,
            "alone": amount("auc", one.auc),
            "weighted": "–" if one.weighted_auc is None else amount("auc", max(one.weighted_auc, 1 - one.weighted_auc)),
            "members": percent(one.members_missing),
            "nonmembers": percent(one.nonmembers_missing),
            "result": "; ".join(
                text
                for text, holds in (
                    ("separates beyond the covariates", one.separates),
                    ("missing values differ", one.gaps_differ),
                )
                if holds
            )
            or "no difference shown",
        }
        for one in unused.columns
    ]
    return {"rows": rows, "rest": unused.rest}
