"""What the columns show that an audit does not use; the audit itself does not read them."""

from __future__ import annotations

from miaudit.auditing.case import Case
from miaudit.causal.propensity import Propensity
from miaudit.causal.unused_columns import UnusedColumns, UnusedValues

__all__ = ["UnusedValues", "shown"]


def shown(unused: UnusedValues | None, case: Case, learned: Propensity | None) -> UnusedColumns | None:
    """Compare the unused columns of zero-run evidence; None of other evidence. Nothing is drawn: no number moves."""
    if unused is None or case.audited.design != "zero-run":
        return None
    return unused.of_rows(case.rows).judged(case.audited, None if learned is None else learned.odds)
