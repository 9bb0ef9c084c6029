"""Real shifts with known truth: raw, every correction, refusals, coverage and cost.

``python experiments/causal_mia/real_shift.py --data ../shared/data`` audits each shift of ``domains.py`` once at 2,000
records: as placebo (the target learned other records: truth one half) and for real (the target learned the members:
truth from undrifted non-members that the audit never sees). ``--full`` makes as many audits as the README's table has,
at 10,000 records as well where the data has them. Every audit is a line of a file, from which an interrupted run goes
on; ``--worlds`` and ``--kinds`` let several commands fill one folder. What is found is compared with
``real_shift_expected.json``; ``--full --record`` writes it anew and prints the lines of the README.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from causal_mia import audits
from causal_mia.domains import PLACEBO, REAL, SHIFTS, Sample, Shift

import miaudit
from miaudit import Evidence, Plan, Reference
from miaudit.auditing.reference import parted
from miaudit.causal import effects, propensity
from miaudit.causal.covariates import Numbers
from miaudit.causal.outcome import Regression
from miaudit.metrics.roc import Roc

EXPECTED = Path(__file__).parent / "real_shift_expected.json"
LINE = Plan(fpr_targets=(0.1,), primary_metric="auc", propensity_model="line", estimator="hajek", bounds=None)
STACK = replace(LINE, propensity_model="stack", estimator="aipw")
PLANS = {"line": LINE, "stack": STACK}
COUNTS = {2000: 6, 10_000: 3}  # audits of a shift with --full
COLUMNS = ("shift", "suffice", "target", "records", "audits", "truth", "IID split", "raw")
OF_A_PLAN = ("answered", "error", "right", "CPU s")
OF_TOTALS = ("line: answered", "line: right", "stack: answered", "stack: right")
OF_REFERENCES = ("corrected", "rejected", "with a reference", "rejected", "answered", "right")
WITHIN = 0.004  # between machines


# -- one audit ------------------------------------------------------------------------------------------------------


def audit(name: str, kind: str, n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Raw, true and corrected AUC of one sample; the audits proper see members and shifted non-members only."""
    rng = np.random.default_rng([11, seed])
    sample = SHIFTS[name].draw(folder, kind, n, rng)
    evidence = Evidence(score=sample.scores, member=sample.member, covariates=sample.covariates, design="zero-run")
    row: dict[str, Any] = {
        "records": len(sample.member),
        "oracle": sample.oracle,
        "truth": sample.truth,
        "raw": Roc.of(sample.scores["loss"], sample.member).auc,
    }
    codes = tuple(map(str, sample.codes))
    for what, plan in PLANS.items():
        row[what] = timed(evidence.only("loss"), replace(plan, categories=codes), rng)
    if SHIFTS[name].references:
        row["reference"] = referenced(evidence, sample, rng)
    return row


def timed(evidence: Evidence, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
    begun = time.process_time()
    found = miaudit.audit(evidence, plan=plan, rng=rng)
    return audits.said(found, plan.estimator) | {"seconds": time.process_time() - begun}


def referenced(evidence: Evidence, sample: Sample, rng: np.random.Generator) -> dict[str, Any]:
    """The correction by the stack and AIPW whatever the gates say, tested by a reference; then with one as covariate.

    Of two references the second is the test, before and after; one alone tests what is corrected without it.
    """
    two = "older" in sample.scores
    before, test = regardless(evidence, Reference(test="older" if two else "reference"), rng)
    uses = Reference(covariate="reference", test="older" if two else None, trained_on_neither=True)
    after, again = regardless(evidence, uses, rng)
    plan = replace(STACK, reference=uses, categories=tuple(map(str, sample.codes)))
    row = timed(evidence, plan, rng)
    return row | {"before": before, "rejected": test, "after": after, "still rejected": again}


def regardless(evidence: Evidence, reference: Reference, rng: np.random.Generator) -> tuple[float, bool | None]:
    """The corrected AUC, and whether that of the test is not one half."""
    audited, found = parted(evidence, reference)
    learned = propensity.stacked(audited, encoding=Numbers(), rng=rng)
    of = partial(effects.auc, propensity=learned, method="aipw", outcome=Regression(()), rng=rng)
    value = of(audited.only("loss")).value
    if reference.test is None:
        return value, None
    test = of(audited.replace(score=found[reference.test]))
    return value, test.low > 0.5 or test.high < 0.5


# -- a line of the table --------------------------------------------------------------------------------------------


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over audits; of each plan how many answer, their mean error, how many hold the truth, and the seconds."""
    line: dict[str, Any] = {"audits": len(rows)}
    line |= {key: float(np.mean([row[key] for row in rows])) for key in ("records", "truth", "oracle", "raw")}
    for what in (*PLANS, *(["reference"] if "reference" in rows[0] else [])):
        own, truths = [row[what] for row in rows], [row["truth"] for row in rows]
        errors = [row["value"] - truth for row, truth in zip(own, truths, strict=True) if "value" in row]
        line[what] = {
            "answered": len(errors),
            "error": float(np.mean(errors)) if errors else None,
            "right": len(errors) - sum(audits.misses(own, truths)),
            "seconds": float(np.mean([row["seconds"] for row in own])),
        }
    if "reference" in line:
        tested = [row["reference"] for row in rows]
        line["reference"] |= {key: float(np.mean([row[key] for row in tested])) for key in ("before", "after")}
        line["reference"] |= {
            key: None if tested[0][key] is None else sum(row[key] for row in tested)
            for key in ("rejected", "still rejected")
        }
    return line


def opening(name: str, kind: str, line: Mapping[str, Any]) -> list[str]:
    """The cells that both tables begin with."""
    means = [f"{line[key]:.3f}" for key in ("truth", "oracle", "raw")]
    return [name, SHIFTS[name].suffice, kind, f"{line['records']:,.0f}", str(line["audits"]), *means]


def in_words(name: str, kind: str, line: Mapping[str, Any]) -> str:
    """That line as the README has it."""
    cells = opening(name, kind, line)
    for what in PLANS:
        of = line[what]
        some = of["error"] is not None
        right = [f"{of['error']:+.3f}", f"{of['right']} of {of['answered']}"] if some else ["", ""]
        cells += [str(of["answered"]), *right, f"{of['seconds']:.1f}"]
    return f"| {' | '.join(cells)} |"


def of_references(name: str, kind: str, line: Mapping[str, Any]) -> str:
    """The line of the table of references."""
    of = line["reference"]
    again = "" if of["still rejected"] is None else str(of["still rejected"])
    right = f"{of['right']} of {of['answered']}" if of["answered"] else ""
    cells = [f"{of['before']:.3f}", str(of["rejected"]), f"{of['after']:.3f}", again, str(of["answered"]), right]
    return f"| {' | '.join([*opening(name, kind, line), *cells])} |"


def totals(table: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of shifts whose covariates suffice and of the others: audits, answers and intervals that hold the truth."""
    found = []
    for what, words in (("drawn", "suffice"), ("all", "suffice"), ("no", "do not suffice")):
        lines = [line for key, line in table.items() if SHIFTS[key.split(" | ")[0]].suffice == what]
        cells = [f"{what}: covariates {words}", str(sum(line["audits"] for line in lines))]
        for plan in PLANS:
            answered, right = (sum(line[plan][key] for line in lines) for key in ("answered", "right"))
            cells += [str(answered), f"{right} of {answered}"]
        found.append(f"| {' | '.join(cells)} |")
    return found


def head(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"


# -- what is expected -----------------------------------------------------------------------------------------------


def differences(name: str, kind: str, line: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """What does not hold: claims on any number of audits, and the README's numbers where there are as many."""
    shift, of, problems = SHIFTS[name], line["stack"], []
    where = f"{name}, {kind}, {line['audits']} audits"
    wrong = of["answered"] - of["right"]
    if shift.suffice != "no" and stats.binom.sf(wrong - 1, of["answered"], 0.05) < 0.005:
        problems.append(f"{where}: the covariates suffice, and {wrong} of {of['answered']} intervals miss the truth")
    if name in expected["refused"] and of["answered"] > 0.1 * line["audits"]:
        problems.append(f"{where}: an answer in {of['answered']}, expected in none")
    return problems


def departures(line: Mapping[str, Any], printed: Mapping[str, Any], where: str = "") -> list[str]:
    """Which numbers are not those of the README; seconds are nobody's to compare."""
    problems = []
    for key, told in printed.items():
        if isinstance(told, Mapping):
            problems += departures(line[key], told, f"{where}, {key}")
        elif key != "seconds":
            same = line[key] == told
            if isinstance(told, float) and isinstance(line[key], float):
                same = abs(line[key] - told) <= WITHIN
            problems += [] if same else [f"{where}, {key}: {line[key]}, in the README {told}"]
    return problems


def compared(name: str, kind: str, n: int, rows: Sequence[Mapping[str, Any]], expected: Mapping[str, Any]) -> list[str]:
    """Everything that differs in the audits of one shift; the first is compared however many there are."""
    problems = differences(name, kind, summary(rows), expected)
    for what, some in (("first", rows[:1]), ("table", rows)):
        printed = expected[what].get(key_of(name, kind, n))
        if printed is not None and printed["audits"] == len(some):
            problems += departures(summary(some), printed, f"{name}, {kind}, {n}, {what}")
    return problems


def key_of(name: str, kind: str, n: int) -> str:
    return f"{name} | {kind} | {n}"


# -- the command ----------------------------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--full", action="store_true", help="as many audits as the table has, and both sizes")
    parser.add_argument("--audits", type=int, help="of each shift, in the place of 1 or those of the table")
    parser.add_argument("--records", type=int, nargs="+", choices=COUNTS, help="default: 2000; with --full both")
    parser.add_argument("--worlds", nargs="+", choices=SHIFTS, default=list(SHIFTS))
    parser.add_argument("--kinds", nargs="+", choices=(PLACEBO, REAL), default=[PLACEBO, REAL])
    parser.add_argument("--again", action="store_true", help="audit anew what the files in --out have already")
    parser.add_argument("--record", action="store_true", help="make what is found the numbers to expect")
    parser.add_argument("--out", type=Path, default=audits.RESULTS)
    options = parser.parse_args()
    if options.record and not (options.full and len(options.worlds) == len(SHIFTS) and len(options.kinds) == 2):
        parser.error("--record takes --full and every shift: the README's table is of one form")
    options.records = options.records or (list(COUNTS) if options.full else [2000])
    return options


def asked(options: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Shifts, kinds and sizes for which there is data; what is not there is said."""
    found = []
    for name in options.worlds:
        shift: Shift = SHIFTS[name]
        absent = [path for path in shift.needs if not (options.data / path).is_file()]
        if absent:
            print(f"left out: {name}, for {', '.join(absent)} is not in {options.data}", file=sys.stderr)
            continue
        kinds = [kind for kind in options.kinds if kind in shift.kinds]
        found += [(name, kind, n) for n in options.records if n == 2000 or shift.large for kind in kinds]
    return found


def main() -> int:
    warnings.filterwarnings("ignore", module="sklearn")  # the network is stopped early on purpose
    options, expected = parsed(), json.loads(EXPECTED.read_text())
    table, first, problems, references = {}, {}, [], []
    print(head(*COLUMNS, *(f"{plan}: {column}" for plan in PLANS for column in OF_A_PLAN)))
    for name, kind, n in asked(options):
        count = options.audits or (COUNTS[n] if options.full else 1)
        path = audits.named(options.out, "real_shift", n, kind, name)
        if options.again:
            path.unlink(missing_ok=True)
        # Threads of boosting that wait for each other on busy cores cost many times as much.
        with threadpool_limits(1):
            rows = list(audits.lines(path, count, partial(audit, name, kind, n, options.data)))
        key, line = key_of(name, kind, n), summary(rows)
        table[key], first[key] = line, summary(rows[:1])
        problems += [] if options.record else compared(name, kind, n, rows, expected)
        references += [of_references(name, kind, line)] if "reference" in line else []
        print(in_words(name, kind, line), flush=True)
    print("", head("all of them", "audits", *OF_TOTALS), *totals(table), sep="\n")
    print("", head(*COLUMNS, *OF_REFERENCES), *references, sep="\n")
    if options.record:
        EXPECTED.write_text(json.dumps({**expected, "first": first, "table": table}, indent=1) + "\n")
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
