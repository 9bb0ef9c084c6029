"""An audit of a published synthetic table: CTGAN on Adult, with members, control records and no retraining.

``python experiments/causal_synthesis/adult_anonymeter.py --data ../shared/data`` attacks 2,000 members and 2,000
control records by distances (a minute of CPU); ``--full`` all 39,032 and 9,758. Two arms are controls: a table of which
one per cent was replaced by copies of members must be flagged, and control records in the place of members must not.
An arm that is done is kept: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, place

from miaudit.findings.table import TableFindings
from miaudit.io import atomic
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table

RESULTS = Path("results/experiments/causal_synthesis/adult_anonymeter")
FILE = Path("adult_anonymeter") / "adult_members_control_ctgan.npz"
SEED = 20261121
COPIED = 0.01
FORMS = {
    "tiny": TablePlan(records=150, attempts=100, secrets=("income", "marital"), fidelity=False),
    "small": TablePlan(records=2000),
    "full": TablePlan(records=None),
}


@dataclass(frozen=True, eq=False)
class Adult:
    """The published CTGAN table, the members (as reconstructed) and the published control records."""

    synthetic: Table
    members: Table
    control: Table

    @classmethod
    def load(cls, data: Path) -> Adult:
        """Read the archive; its categories are those that UCI documents, the ends of numbers those of all tables."""
        with np.load(data / FILE, allow_pickle=False) as held:
            real, made, member = held["real"], held["synthetic"], held["member"].astype(bool)
            columns = []
            for j, name in enumerate(name.decode() for name in held["columns"]):
                if f"cat_{name}" in held.files:
                    levels = tuple(
                        text.decode() if isinstance(text, bytes) else str(text) for text in held[f"cat_{name}"]
                    )
                    columns.append(Column(name, "categorical" if len(levels) > 2 else "binary", levels))
                else:
                    both = np.r_[real[:, j], made[:, j]]
                    columns.append(Column(name, "continuous", low=float(both.min()), high=float(both.max())))
        schema = Schema(tuple(columns))
        return cls(Table(schema, made), Table(schema, real[member]), Table(schema, real[~member]))

    def with_copies(self, rng: np.random.Generator) -> Adult:
        """The same table with one per cent of its rows replaced by copies of members."""
        values = self.synthetic.values.copy()
        copies = round(COPIED * len(values))
        values[rng.permutation(len(values))[:copies]] = self.members.values[rng.permutation(len(self.members))[:copies]]
        return Adult(Table(self.synthetic.schema, values), self.members, self.control)

    def placebo(self, rng: np.random.Generator) -> Adult:
        """One half of the control records in the place of the members: nothing is there to be found."""
        order = rng.permutation(len(self.control))
        half = len(order) // 2
        return Adult(self.synthetic, self.control.subset(order[:half]), self.control.subset(order[half:]))


def audited(adult: Adult, plan: TablePlan, source: str, rng: np.random.Generator) -> TableFindings:
    """Audit one arm; control records were drawn at random from the pool, which is a one-run design."""
    return audit_table(
        adult.synthetic,
        adult.members,
        adult.control,
        plan=plan,
        design="one-run",
        schema="The schema is that of UCI Adult, which is public.",
        source=source,
        rng=rng,
    )


def one_arm(adult: Adult, plan: TablePlan, arm: str, out: Path, rng: np.random.Generator, _: Path) -> dict[str, Any]:
    """Audit one arm and write its page."""
    findings = audited(adult, plan, f"CTGAN on Adult: {arm}", rng)
    name = arm.replace(" ", "-")
    atomic.write_text(out / f"{name}.json", findings.to_json())
    findings.to_html(out / f"{name}.html", overwrite=True)
    return summary(findings)


def summary(findings: TableFindings) -> dict[str, Any]:
    """The figures that stand in the documentation."""
    content = findings.to_dict()
    scores = {score["score"]: score["metrics"] for score in content["membership"]["scores"]}
    return {
        "status": findings.verdict.status,
        "text": findings.verdict.text,
        "attacks": content["attacks"],
        "positive_control": content["positive_control"],
        "auc": {
            name: [next((m["low"], m["value"], m["high"]) for m in metrics if m["name"] == "auc")]
            for name, metrics in scores.items()
        },
        "bounds": [[b["parameter"], b["value"], b["reachable"]] for b in content["membership"]["bounds"]],
        "fidelity": (content["fidelity"] or {}).get("summary"),
        "membership": content["membership"]["verdict"]["status"],
    }


def differences(found: dict[str, Any]) -> list[str]:
    """What must hold: copies are caught, nothing else is."""
    problems = []
    if found["one per cent copied"]["status"] != "flagged":
        problems.append("one per cent of copies was not flagged")
    for arm in ("ctgan", "placebo"):
        if found[arm]["status"] == "flagged":
            problems.append(f"{arm}: {found[arm]['text']}")
    if not found["ctgan"]["positive_control"]["found"]:
        problems.append("the positive control was not found")
    return problems


def table(found: dict[str, Any]) -> str:
    """Success rates in per cent with differences, as markdown."""
    lines = ["| attack | members | control | a guess | difference |", "|---|---|---|---|---|"]
    for row in found["ctgan"]["attacks"]:
        if row["difference"] is None:
            continue
        guess = "" if row["by_chance"] is None else f"{100 * row['by_chance']:.1f}"
        difference, low, high = (100 * row[key] for key in ("difference", "difference_low", "difference_high"))
        limits = f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
        rates = " | ".join(f"{100 * row[key]['value']:.2f}" for key in ("members", "control"))
        lines.append(f"| {row['name']} | {rates} | {guess} | {limits} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="the folder that holds adult_anonymeter/"
    )
    parser.add_argument("--full", action="store_true", help="all records")
    parser.add_argument("--form", choices=FORMS, help="tiny, small or full")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS}, of other forms than small with the form's name")
    options = parser.parse_args()
    form = options.form or ("full" if options.full else "small")
    plan, out = FORMS[form], options.out or place(RESULTS, form)
    if not (options.data / FILE).exists():
        parser.error(f"--data: expected a folder with {FILE}, received {options.data}; see docs/synthetic_tables.md")
    adult = Adult.load(options.data)
    *streams, change = np.random.default_rng(SEED).spawn(4)
    arms = {"ctgan": adult, "one per cent copied": adult.with_copies(change), "placebo": adult.placebo(change)}
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    kept = Kept(out / "arms")
    for (arm, given), rng in zip(arms.items(), streams, strict=True):
        made = partial(one_arm, given, plan, arm, out, rng)
        found[arm] = kept.part(arm, {"plan": asdict(plan), "seed": SEED}, made)
        print(f"{arm}: {found[arm]['text']}", flush=True)
    atomic.write_text(out / "found.json", json.dumps(found, indent=1) + "\n")
    atomic.write_text(out / "found.md", f"{table(found)}\n")
    print(f"\n{table(found)}")
    problems = differences(found)
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
