"""Rows of a benchmark: what was measured, beside its target; on the screen and in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def row(what: str, value: float, unit: str, target: float | None, *, at_least: bool = False) -> dict[str, Any]:
    met = None if target is None else bool(value >= target if at_least else value <= target)
    return {"what": what, "value": value, "unit": unit, "target": target, "at_least": at_least, "met": met}


def show(rows: list[dict[str, Any]]) -> None:
    for r in rows:
        target = ""
        if r["target"] is not None:
            target = f"{'at least' if r['at_least'] else 'at most'} {r['target']:g}  {'met' if r['met'] else 'MISSED'}"
        print(f"{r['what']:62s} {r['value']:10.4g} {r['unit']:6s} {target}", flush=True)


def write(rows: list[dict[str, Any]], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
