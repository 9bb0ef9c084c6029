"""Replay our generator of noisy tables with planted bugs, and audit its releases: ``python .../run.py [--full]``.

The audit of the releases makes many of a table and of a neighbour, scores each by the likelihood of the record in which
they differ, and bounds mu from below. Results are kept in ``measured.json``, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from table_replay.bugs import BUGS, RIGHT, Bug, plan_of, table

from miaudit.dp import multi_run, query_replay, replay
from miaudit.evidence import Evidence
from miaudit.metrics.rounding import lower_text
from miaudit.synthesis.generators.replayed_tables import claimed
from miaudit.synthesis.schema import Table

HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
EXTREME = np.array([[9.0, 2, 1, 3], [0, 2, 0, 3], [9, 0, 0, 0]])  # levels that no record of the table has
RELEASES, FULL = 200, 2_000  # with the record, and as many without it


def neighbours(private: Table, *, replaced: bool, count: int) -> list[Table]:
    """Return tables that lack one of the first records, and tables with an extreme one; or with one replaced."""
    values = private.values
    if replaced:
        others = query_replay.with_one_replaced(values[:count], EXTREME[:1])
        others = [np.concatenate([own, values[count:]]) for own in others]
    else:
        others = replay.without_one(values)[:count] + query_replay.with_one(values, EXTREME)
    return [Table(private.schema, own) for own in others]


def replayed(bug: Bug, *, count: int, histories: int) -> dict[str, Any]:
    """Replay a generator: what differs, and whether the planted bug is named."""
    private = table()
    others = neighbours(private, replaced=bug.replaced, count=count)
    rng = np.random.default_rng(0)
    result = query_replay.check(bug.generator(), private, others, claimed(plan_of()), rng=rng, histories=histories)
    named = [sentence for sentence in result.differences if bug.seen_by and bug.seen_by in sentence]
    return {"named": named[:1], "all": list(result.differences), "spent": result.spent, "ledger": result.ledger}


def audited(bug: Bug, releases: int) -> dict[str, Any]:
    """Audit releases: the lower bound on mu that the likelihood of the record shows."""
    private = table()
    record = Table(private.schema, EXTREME[:1])
    with_record = np.concatenate([private.values, EXTREME[:1]])
    without = np.concatenate([private.values, private.values[:1]]) if bug.replaced else private.values
    scores, member = [], []
    for number, source in enumerate(np.random.default_rng(1).spawn(2 * releases)):
        inside = number % 2 == 0
        model = bug.fit(Table(private.schema, with_record if inside else without), source)
        known = (model.schema.columns[0].high or 0) >= EXTREME[0, 0]  # a range that leaves the record out shows it
        scores.append(float(model.log_likelihood(record)[0]) if known else -100.0)
        member.append(inside)
    evidence = Evidence(score=np.array(scores), member=np.array(member), design="multi-run")
    bound = multi_run.mu_lower_bound(evidence, rng=np.random.default_rng(2))
    return {"mu": round(bound.value, 3), "releases": releases}


def row(bug: Bug, found: dict[str, Any]) -> str:
    """Return the row of a bug in the table of the pages."""
    exact, audit = found["replay"], found["audit"]
    seen = exact["named"][0] if exact["named"] else ("passes" if not exact["all"] else exact["all"][0])
    verdict = "refuted" if audit["mu"] > plan_of().mu else "not seen"
    return f"| {bug.name} | {bug.met_as} | {seen} | {verdict} (mu >= {lower_text(audit['mu'], 2)}) |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more releases, neighbours and histories (hours)")
    options = parser.parse_args()
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    releases = FULL if options.full else RELEASES
    for bug in (RIGHT, *BUGS):
        own = known.setdefault(bug.name, {})
        if "replay" not in own:
            own["replay"] = replayed(bug, count=20 if options.full else 4, histories=3 if options.full else 1)
            MEASURED.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        if own.get("audit", {}).get("releases", 0) < releases:
            own["audit"] = audited(bug, releases)
            MEASURED.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(row(bug, own), flush=True)
    missed = [bug.name for bug in BUGS if bug.seen_by and not known[bug.name]["replay"]["named"]]
    return 1 if missed or known[RIGHT.name]["replay"]["all"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
