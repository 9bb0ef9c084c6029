"""The tables of benchmarks/peers/private_tables.md, from the runs that are kept; nothing is measured here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.metrics.classical import student_limits

TITLES = {
    "adult": "Adult",
    "synthetic22": "synthetic22",
    "acs": "ACS Connecticut",
    "pain": "pain1000",
}
ROWS = {
    "real": "real (other sample)",
    "miaudit-graph": "miaudit, tables along the graph",
    "miaudit-tables": "miaudit, tables without a graph",
    "miaudit-stages": "miaudit, tables in two stages",
    "miaudit-vae": "miaudit, causal VAE",
    "mst": "MST",
    "mst-shipped": "MST, drawn as shipped",
    "dpmm-mst": "MST, of dpmm",
    "mbi-mst": "MST, mbi 2.0",
    "aim": "AIM",
    "dpmm-aim": "AIM, of dpmm",
    "mbi-aim": "AIM, mbi 2.0",
    "privbayes": "PrivBayes",
    "dpctgan": "DP-CTGAN",
    "shuffled": "columns shuffled",
}
OURS = ("miaudit-graph", "miaudit-tables")  # that others are compared with
LEVEL = 0.95
FEWEST = 3  # seeds for an interval

Entries = Mapping[str, Mapping[str, Any]]  # key "epsilon seed" -> entry
BySeed = Mapping[int, Mapping[str, Any]]


def read(measured: Path, table: str) -> dict[str, Entries]:
    """Return what is kept for one table, by tool."""
    paths = {name: measured / table / f"{name}.json" for name in ("private", *ROWS)}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def of_epsilon(entries: Entries, epsilon: str) -> dict[int, Mapping[str, Any]]:
    """Return the entries of one epsilon (or of "-") by seed."""
    found = {}
    for key, entry in entries.items():
        own, seed = key.split()
        if own == epsilon:
            found[int(seed)] = entry
    return found


def mean_in_words(values: Sequence[float], digits: int = 3) -> str:
    """The mean; from three seeds on with Student's interval.

    Examples
    --------
    >>> mean_in_words([-0.0001, 0.0]), mean_in_words([0.1, 0.2, 0.3])
    ('0.000', '0.200 (-0.048 to 0.448)')
    """
    mean = float(np.mean(values))
    if len(values) < FEWEST:
        return f"{round(mean, digits) + 0.0:.{digits}f}"  # no -0.000
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    low, high = student_limits(mean, error, len(values) - 1, LEVEL)
    return "{} ({} to {})".format(*(f"{round(value, digits) + 0.0:.{digits}f}" for value in (mean, low, high)))


def lost(entry: Mapping[str, Any], private: Mapping[str, Any]) -> dict[str, float]:
    """AUC lost by each task: that of the private records themselves less that of the table."""
    return {task: private["auc"][task] - value for task, value in entry["auc"].items()}


def seconds(values: Sequence[float]) -> str:
    return f"{np.median(values):.3g}" if values else ""


def tasks_of(private: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Up to three tasks are shown one by one, more as their mean."""
    tasks = list(next(iter(private.values()))["auc"])
    return tasks if len(tasks) <= 3 else [f"mean of {len(tasks)} tasks"]


def finished(entries: BySeed, private: BySeed) -> BySeed:
    """Runs that ended with a table."""
    return {seed: entry for seed, entry in entries.items() if "failed" not in entry and seed in private}


def cells(entries: BySeed, private: BySeed, tasks: Sequence[str], with_forced: bool) -> list[str]:
    """The row of one tool: distances, AUC lost, interventional error, time, seeds."""
    done = finished(entries, private)
    if not done:
        reasons = list(dict.fromkeys(entry["failed"] for entry in entries.values()))
        return [reasons[0], *[""] * (len(tasks) + with_forced + 2), f"0 of {len(entries)}"]
    losses = [lost(entry, private[seed]) for seed, entry in done.items()]
    shown = [mean_in_words([entry[part] for entry in done.values()]) for part in ("columns", "pairs")]
    if len(losses[0]) == len(tasks):
        shown += [mean_in_words([loss[task] for loss in losses]) for task in tasks]
    else:
        shown.append(mean_in_words([float(np.mean(list(loss.values()))) for loss in losses]))
    forced = [entry["interventional"]["error"] for entry in done.values() if "interventional" in entry]
    shown += [mean_in_words(forced) if forced else ""] * with_forced
    shown.append(seconds([entry["cpu"] for entry in done.values() if "cpu" in entry]))
    return [*shown, f"{len(done)}" if len(done) == len(entries) else f"{len(done)} of {len(entries)}"]


def line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(part.replace("|", "/") for part in parts) + " |"


def table_of(found: Mapping[str, Entries], epsilon: str) -> list[str]:
    """Lines of the table of one epsilon."""
    private = of_epsilon(found["private"], "-")
    tasks = tasks_of(private)
    forced = any("interventional" in entry for entries in found.values() for entry in entries.values())
    told = [f"AUC lost, {task}" for task in tasks]
    head = ["tool", "columns", "pairs", *told, *["interventional"] * forced, "CPU s", "seeds"]
    lines = [line(head), line(["---"] * len(head))]
    for name, title in ROWS.items():
        baseline = name in ("real", "shuffled")
        entries = of_epsilon(found.get(name, {}), "-" if baseline else epsilon)
        if entries:
            lines.append(line([title, *cells(entries, private, tasks, forced)]))
    return lines


def overspent(found: Mapping[str, Entries], epsilon: str) -> list[str]:
    """A line for each tool whose own accountant named more at the end than it was asked for."""
    lines = []
    for name, title in ROWS.items():
        spent = [entry["spent"] for entry in of_epsilon(found.get(name, {}), epsilon).values() if "spent" in entry]
        if spent and max(spent) > float(epsilon):
            told = f"{np.mean(spent):.2f}" + (f" on average, {max(spent):.2f} at most" if len(spent) > 1 else "")
            lines += [f"{title}: its own accountant said {told} at the end.", ""]
    return lines


def difference_lines(found: Mapping[str, Entries], epsilon: str) -> list[str]:
    """Lines of the tables of paired differences: each other tool less one of ours, with a graph and without."""
    private = of_epsilon(found["private"], "-")
    done = {name: finished(of_epsilon(found.get(name, {}), epsilon), private) for name in ROWS}
    lines: list[str] = []
    for base in OURS:
        others = [name for name in ROWS if name not in OURS[: OURS.index(base) + 1]]
        rows = [row for name in others if (row := difference_row(name, done[name], done[base]))]
        if rows:
            head = ["tool", "pairs", "AUC lost, mean over tasks", "seeds"]
            lines += [f"Less {ROWS[base]}, seed by seed; above 0 the tool is worse:", ""]
            lines += [line(head), line(["---"] * len(head)), *rows, ""]
    return lines


def difference_row(name: str, entries: BySeed, base: BySeed) -> str:
    """The row of one tool; empty with too few seeds in common."""
    shared = sorted(set(entries) & set(base))
    if len(shared) < FEWEST:
        return ""
    apart = [entries[seed]["pairs"] - base[seed]["pairs"] for seed in shared]
    losses = [
        float(np.mean([base[seed]["auc"][task] - value for task, value in entries[seed]["auc"].items()]))
        for seed in shared
    ]
    return line([ROWS[name], mean_in_words(apart), mean_in_words(losses), str(len(shared))])


def reference(found: Mapping[str, Entries]) -> str:
    """One line: the AUC that the private records themselves teach, and the floor of interventions."""
    private = of_epsilon(found["private"], "-")
    tasks = {task: [entry["auc"][task] for entry in private.values()] for task in next(iter(private.values()))["auc"]}
    words = ", ".join(f"{task} {np.mean(values):.3f}" for task, values in tasks.items())
    forced = [e["interventional"] for entries in found.values() for e in entries.values() if "interventional" in e]
    told = ""
    if forced:
        effect, floor = (float(np.mean([f[part] for f in forced])) for part in ("effect", "floor"))
        told = f" Interventional error: {effect:.3f} for who knows nothing of interventions, {floor:.3f} for the world."
    return f"AUC of a classifier trained on the private records themselves: {words}.{told}"


def written(measured: Path) -> str:
    """Return the tables of all that is kept."""
    lines: list[str] = []
    for table, title in TITLES.items():
        found = read(measured, table)
        if "private" not in found:
            continue
        lines += [f"## {title}", "", reference(found), ""]
        keys = {key.split()[0] for name, entries in found.items() for key in entries} - {"-"}
        for epsilon in sorted(keys, key=lambda text: (text != "1", float(text))):
            lines += [f"### {title}, epsilon {epsilon}", "", *table_of(found, epsilon), "", *overspent(found, epsilon)]
            lines += difference_lines(found, epsilon)
    absent = [title for table, title in TITLES.items() if not (measured / table).exists()]
    entries = [entry for table in TITLES for of_tool in read(measured, table).values() for entry in of_tool.values()]
    versions = sorted({entry["versions"] for entry in entries if "versions" in entry})
    lines += ["## Versions, and what is missing", "", f"Measured with {', '.join(versions) or 'no tool yet'}."]
    lines += ["", f"Not measured: {', '.join(absent)}."] if absent else []
    return "\n".join(lines) + "\n"
