"""Differential privacy: trade-off functions, lower bounds from many runs, one run or none, and verdicts on claims."""

from typing import TYPE_CHECKING

from miaudit.errors.on_demand import on_demand

if TYPE_CHECKING:
    from miaudit.dp import (
        accounting,
        ceiling,
        composition,
        directed_profile,
        linear_program,
        matched,
        mechanism,
        multi_run,
        one_run,
        privacy_profile,
        query_replay,
        replay,
        selection,
        several_runs,
        step_audit,
        tradeoff,
        verdict,
        zero_run,
    )

__all__ = [
    "accounting",
    "ceiling",
    "composition",
    "directed_profile",
    "linear_program",
    "matched",
    "mechanism",
    "multi_run",
    "one_run",
    "privacy_profile",
    "query_replay",
    "replay",
    "selection",
    "several_runs",
    "step_audit",
    "tradeoff",
    "verdict",
    "zero_run",
]

__getattr__, __dir__ = on_demand(__name__, __all__)
