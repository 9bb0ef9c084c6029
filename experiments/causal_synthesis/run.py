"""Causal against plain generators, with and without privacy: what an attacker learns of a record (causal-synthesis).

``python experiments/causal_synthesis/run.py`` runs the small form; ``--full`` the paper's numbers of records, cut to an
hour for each data set. Results go to ``results/experiments/causal_synthesis/attack`` (``attack-full``), one data set
after the other, as JSON and as markdown, and are compared with ``expected.json``. Each arm is kept as soon as it is
whole, and the sets of each generator until then: the same command goes on where it was stopped.
Utility is measured by ``utility_tables.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attack
import yaml
from kept import Kept, place
from scipy import stats

from miaudit.io import atomic

HERE = Path(__file__).parent
RESULTS = Path("results/experiments/causal_synthesis/attack")
OUTLIER = "outlier"


def run(name: str, settings: Mapping[str, Any], kept: Kept, only: Sequence[str] | None = None) -> Any:
    """One data set (``only`` these arms of it), or the planted outlier; arms that are kept are not made again."""
    if name == OUTLIER:
        return attack.outlier(settings[OUTLIER], settings["seed"], kept)
    own = settings["worlds"][name]
    wrong = own.get("wrong_graphs", settings["wrong_graphs"])
    return attack.measured(name, own, settings["attack"], wrong, settings["seed"], kept, only)


# -- what is expected -------------------------------------------------------------------------------------------------


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return what does not hold of what expected.json says."""
    problems = []
    for name, part in found.items():
        if name == OUTLIER:
            problems += outlier_differences(part, expected[OUTLIER])
            continue
        problems += placebo_differences(name, part["arms"], expected["placebos"])
        for arm, row in part["arms"].items():
            if row.get("verdict", {}).get("status") == "refuted":
                problems.append(f"{name}, {arm}: the bound {row['bound']} crosses {row['verdict']['upper']}")
    return problems


def placebo_differences(name: str, arms: Mapping[str, Any], expected: Mapping[str, float]) -> list[str]:
    """Return the arms of a data set with too many placebos away from chance, and whether all of them have too many.

    An interval misses by chance in 5%. Each placebo permutes memberships by itself, so the numbers are binomial. All
    arms of all forms share one level, and so do all data sets: of 40 arms one with 5 of 25 is no rarity.
    """
    placebos = {arm: [one["placebo auc"] for one in row["rows"]] for arm, row in arms.items()}
    every = [one for some in placebos.values() for one in some]
    tested = [(f"{name}, {arm}", some, expected["arms"]) for arm, some in placebos.items()]
    problems = []
    for where, some, tests in [*tested, (f"{name}, all arms", every, expected["data_sets"])]:
        away = sum(not low <= 0.5 <= high for low, _, high in some)
        if stats.binom.sf(away - 1, len(some), expected["misses"]) < expected["level"] / tests:
            problems.append(f"{where}: {away} of {len(some)} placebos are away from chance")
    return problems


def outlier_differences(part: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    problems = []
    best = max(row["auc"][0] for row in part["arms"]["none"]["rows"])
    if best < expected["auc_without_privacy_above"]:
        problems.append(f"outlier: without privacy the best AUC is only known to exceed {best}")
    holds = [row["auc"][0] <= 0.5 <= row["auc"][2] for row in part["arms"]["dp"]["rows"]]
    if not all(holds):
        problems.append(f"outlier: at epsilon {part['epsilon']} the intervals of {holds.count(False)} AUCs exclude 0.5")
    if part["arms"]["dp"]["bound"]["reachable"] < expected["reachable_above"]:
        problems.append(f"outlier: no attack could show more than {part['arms']['dp']['bound']['reachable']}")
    for arm, status in expected["verdicts"].items():
        if arm in part["arms"] and part["arms"][arm]["verdict"] != status:
            problems.append(f"outlier, {arm}: the claim is {part['arms'][arm]['verdict']}, not {status}")
    return problems


# -- tables -----------------------------------------------------------------------------------------------------------


NOTHING = 0.1  # a generator with less of the dependence between columns than this has learned next to nothing


def table(name: str, part: Mapping[str, Any]) -> str:
    """Everything measured, as markdown: what the README quotes, then attack by attack."""
    if name == OUTLIER:
        return "\n".join([*outlier_table(part), ""])
    lines = [*in_short(name, part), "", *in_short_changes(name, part), "", *attack_table(name, part), ""]
    return "\n".join([*lines, *bounds(name, part), ""])


def in_short(name: str, part: Mapping[str, Any]) -> list[str]:
    """A row for each arm: what its generators learned, the attacks on average, the best of them, the bound."""
    lines = [
        f"| {name}, {part['records']:,} records | dependence learned | mean AUC | mean placebo AUC | "
        "best attack: AUC | placebos away from chance (widest half-width) | epsilon at least | could have shown | "
        "promised |",
        "|---" * 9 + "|",
    ]
    for arm, row in part["arms"].items():
        rows, own = row["rows"], row["bound"] or {"value": float("nan"), "reachable": float("nan")}
        best = max(rows, key=lambda one: one["auc"][1])
        away = sum(not one["placebo auc"][0] <= 0.5 <= one["placebo auc"][2] for one in rows)
        widest = max((one["placebo auc"][2] - one["placebo auc"][0]) / 2 for one in rows)
        means = [sum(one[key][1] for one in rows) / len(rows) for key in ("auc", "placebo auc")]
        promised = f"{row['verdict']['upper']:.2f}" if "verdict" in row else "none"
        lines.append(
            f"| {arm} | {amount(row['learned'])} | {means[0]:.3f} | {means[1]:.3f} | {best['extractor']}, "
            f"{best['classifier']}: {cell(best['auc'])} | {away} of {len(rows)} ({widest:.3f}) | {own['value']:.2f} | "
            f"{own['reachable']:.2f} | {promised} |"
        )
    return lines


def in_short_changes(name: str, part: Mapping[str, Any]) -> list[str]:
    """A row for each comparison: of how many attacks the interval of the change excludes zero."""
    lines = [
        f"| {name}: change (form of) | drop of TPR - FPR, mean | drop of accuracy, the paper's advantage | "
        "fell, rose beyond their intervals |",
        "|---|---|---|---|",
    ]
    for comparison, rows in part["changes"].items():
        fell, rose = sum(row["advantage"][0] > 0 for row in rows), sum(row["advantage"][2] < 0 for row in rows)
        drops = [sum(row[key][1] for row in rows) / len(rows) for key in ("advantage", "accuracy")]
        lines.append(f"| {comparison} | {drops[0]:+.3f} | {drops[1]:+.3f} | {fell}, {rose} of {len(rows)} |")
    return lines


def amount(learned: list[float]) -> str:
    """What was learned, marked where it is next to nothing: that no leak is found there says nothing."""
    shown = f"{learned[1]:.2f} ({learned[0]:.2f} to {learned[2]:.2f})"
    return f"{shown}, **next to nothing**" if learned[1] < NOTHING else shown


def attack_table(name: str, part: Mapping[str, Any]) -> list[str]:
    """Tables 5 to 10 in form: every arm, extractor and classifier, with its placebo."""
    lines = [
        f"| {name} | extractor | classifier | accuracy | PA (TPR) | NA (1 - FPR) | AUC | TPR - FPR | placebo AUC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for arm, row in part["arms"].items():
        for one in row["rows"]:
            classifier = one["classifier"] + (", constant" if one["constant"] == 1 else "")
            lines.append(
                f"| {arm} | {one['extractor']} | {classifier} | {cell(one['accuracy'])} | {one['tpr'][1]:.2f} | "
                f"{1 - one['fpr'][1]:.2f} | "
                + " | ".join(cell(one[metric]) for metric in ("auc", "advantage", "placebo auc"))
                + " |"
            )
    return lines


def bounds(name: str, part: Mapping[str, Any]) -> list[str]:
    """The lower bounds beside what they could have been and what the accountant says."""
    lines = [
        f"| {name} | models | epsilon at least | could have shown | accountant | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for arm, row in part["arms"].items():
        upper, own = row.get("verdict"), row["bound"]
        if own is None:
            continue
        said = f"{upper['upper']:.2f} | {upper['status']}" if upper else "none | "
        lines.append(f"| {arm} | {row['models']} | {own['value']:.2f} | {own['reachable']:.2f} | {said} |")
    return lines


def outlier_table(part: Mapping[str, Any]) -> list[str]:
    lines = [
        f"| planted outlier, promise of epsilon {part['epsilon']:g} | dependence learned | extractor, classifier | "
        "AUC of sets | its placebo | AUC of models | epsilon at least | could have shown | promise |",
        "|---" * 9 + "|",
    ]
    for arm, row in part["arms"].items():
        own = row["bound"] or {"value": float("nan"), "reachable": float("nan")}
        of_arm = [arm, amount(row["learned"])]
        shown = [f"{own['value']:.2f}", f"{own['reachable']:.2f}", row.get("verdict", "")]
        for one in row["rows"]:
            areas = [cell(one[key]) for key in ("auc", "placebo auc", "auc_of_models")]
            cells = [f"{one['extractor']}, {one['classifier']}", *areas]
            lines.append(f"| {' | '.join([*of_arm, *cells, *shown])} |")
            of_arm, shown = ["", ""], ["", "", ""]  # said once
    return lines


def cell(limits: list[float]) -> str:
    """A value with its interval."""
    return f"{limits[1]:.3f} ({limits[0]:.3f} to {limits[2]:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the paper's numbers of records")
    parser.add_argument("--form", help="any other form of config.yaml")
    parser.add_argument("--only", nargs="+", help=f"data sets, or {OUTLIER}; default all of the form")
    parser.add_argument(
        "--arms", nargs="+", help='these arms alone, such as "tables, DP"; a later run makes the others'
    )
    parser.add_argument("--numbers-only", action="store_true", help="no figures")
    parser.add_argument("--out", type=Path, help=f"default {RESULTS}, of other forms than small with the form's name")
    options = parser.parse_args()
    forms = yaml.safe_load((HERE / "config.yaml").read_text())
    form = options.form or ("full" if options.full else "small")
    if "worlds" not in forms.get(form, {}):
        parser.error(
            f"--form: expected {', '.join(name for name in forms if 'worlds' in forms[name])}, received {form}"
        )
    settings, out = forms[form], options.out or place(RESULTS, form)
    known = [*settings["worlds"], OUTLIER]
    for name in options.only or []:
        if name not in known:
            parser.error(f"--only: expected {', '.join(known)}, received {name}")
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name in options.only or known:
        found[name] = run(name, settings, Kept(out / f"{name}-arms"), options.arms)
        atomic.write_text(out / f"{name}.json", json.dumps(found[name], indent=1) + "\n")
        atomic.write_text(out / f"{name}.md", table(name, found[name]))
        print(table(name, found[name]), flush=True)
    if not options.numbers_only:
        import figures  # noqa: PLC0415 - altair is slow to load

        figures.draw(found, out)
    problems = differences(found, json.loads((HERE / "expected.json").read_text()))
    for problem in problems:
        print(f"differs: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
