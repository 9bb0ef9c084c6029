"""Public tools beside miaudit on the same evidence: ``python benchmarks/peers/run.py [--install]`` prints the tables.

Each way of answering a question runs in a process of its own, in the tool's environment, one thread: CPU time of a
call (imports excluded), peak memory, value, and how often its lower limit lies above a known truth. Inputs are drawn
here from fixed seeds and handed to every tool as the same file. Tools that are absent are skipped and named.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, stats

if TYPE_CHECKING:
    from measure import Way

HERE = Path(__file__).resolve().parent
SUBJECTS = {
    "lira": "LiRA scores",
    "roc": "ROC with intervals",
    "one_run": "Lower bounds from one run",
    "multi_run": "Lower bounds from many runs",
}
PEERS = (
    "jax-privacy",
    "opake",
    "tensorflow-privacy",
    "privacy-estimates",
    "privacy-meter",
    "art",
    "confidenceinterval",
    "MLstatkit",
    "roc-utils",
)
SKIPPED = {
    "dp-auditorium": "not in the package registry",
    "Privacy Meter after 1.0.1": "not in the package registry",
    "tensorflow-privacy 0.9.0": "needs TensorFlow, and has no audit: that is in tensorflow-empirical-privacy, "
    "whose modules used here need neither",
    "opacus": "trains and accounts; has no audit",
    "anonymeter": "audits synthetic tables, not scores: see docs/synthetic_tables.md",
}
MARKS = ("<!-- tables: benchmarks/peers/run.py --docs -->", "<!-- end of the tables -->")
CHANCE, RIGHT = 0.2, 0.95  # of the worlds in which everything leaks now and then


# -- evidence ---------------------------------------------------------------------------------------------------------


def gaussian(rng: np.random.Generator, m: int, mu: float) -> tuple[Any, Any]:
    member = rng.random(m) < 0.5
    return rng.normal(size=m) + mu * member, member


def sometimes_all(rng: np.random.Generator, m: int, right: float) -> tuple[Any, Any]:
    """In a fifth of the runs every bit is released, each right with this probability; otherwise nothing is."""
    score, member = gaussian(rng, m, 0.0)
    if rng.random() < CHANCE:
        score = np.where((rng.random(m) < right) == member, 5.0, -5.0) + 1e-3 * score
    return score, member


def each_may_fail(rng: np.random.Generator, m: int, chance: float) -> tuple[Any, Any]:
    """Every run reveals everything with this probability, independently of the others."""
    score, member = gaussian(rng, m, 0.0)
    failed = rng.random(m) < chance
    return np.where(failed, np.where(member, 9.0, -9.0) + score, score), member


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    def excess(e: float) -> float:
        return float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)) - delta

    return float(optimize.brentq(excess, 0, 60))


def write(path: Path, draws: list[tuple[Any, Any]], delta: float, threshold: float, truth: float = 0.0) -> None:
    score, member = (np.array(part) for part in zip(*draws, strict=True))
    np.savez(path, score=score, member=member, delta=delta, threshold=threshold, truth=truth)


def write_one_run(folder: Path, repetitions: int, scale: float) -> None:
    rng = np.random.default_rng(1)
    write(folder / "timing.npz", [gaussian(rng, round(10_000 * scale), 1.0) for _ in range(10)], 1e-5, 1.9)
    silent = [gaussian(rng, 1_000, 0.0) for _ in range(repetitions)]
    for family in ("epsilon", "mu"):
        write(folder / f"{family} nothing leaks.npz", silent, 1e-5, 1.0)
    rare = [sometimes_all(rng, 1_000, 1.0) for _ in range(repetitions)]
    write(folder / "epsilon all bits in a fifth of runs, delta 0.2.npz", rare, CHANCE, 1.0)
    mu = float(stats.norm.ppf(CHANCE * RIGHT) - stats.norm.ppf(CHANCE * (1 - RIGHT)))
    noisy = [sometimes_all(rng, 1_000, RIGHT) for _ in range(repetitions)]
    name = f"mu all bits in a fifth of runs, mu {mu:.3f}.npz"
    write(folder / name, noisy, 1e-5, 1.0, epsilon_of_gaussian(mu, 1e-5))


def write_multi_run(folder: Path, repetitions: int, scale: float) -> None:
    rng = np.random.default_rng(2)
    write(folder / "timing.npz", [gaussian(rng, round(1_000 * scale), 1.0) for _ in range(10)], 1e-5, 1.0)
    silent = [gaussian(rng, 1_000, 0.0) for _ in range(repetitions)]
    write(folder / "pure nothing leaks.npz", silent, 0.0, 1.0)
    write(folder / "epsilon nothing leaks.npz", silent, 0.0, 1.0)
    write(folder / "mu nothing leaks.npz", silent, 1e-5, 1.0)
    failing = [each_may_fail(rng, 1_000, 0.05) for _ in range(repetitions)]
    write(folder / "epsilon fails with chance 0.05, delta 0.05.npz", failing, 0.05, 1.0)


def write_roc(folder: Path, repetitions: int, scale: float) -> None:
    rng = np.random.default_rng(3)
    write(folder / "timing.npz", [gaussian(rng, round(4_000 * scale), 0.5) for _ in range(4)], 0.0, 0.0)
    silent = [gaussian(rng, 1_000, 0.0) for _ in range(repetitions)]
    write(folder / "auc nothing leaks.npz", silent, 0.0, 0.0, 0.5)
    write(folder / "tpr nothing leaks.npz", silent, 0.0, 0.0, 0.01)


def write_lira(folder: Path, _repetitions: int, scale: float) -> None:
    rng = np.random.default_rng(4)
    n, models = round(5_000 * scale), 64
    included = rng.permuted(np.tile(np.arange(models) % 2 == 0, (n, 1)), axis=1)
    hardness = 2 * rng.normal(size=n)
    member = rng.random(n) < 0.5
    shadow = hardness[:, None] + included + rng.normal(size=(n, models))
    np.savez(folder / "shadow.npz", target=hardness + member + rng.normal(size=n), shadow=shadow, included=included)
    np.save(folder / "member.npy", member)


WRITE = {"lira": write_lira, "roc": write_roc, "one_run": write_one_run, "multi_run": write_multi_run}


# -- processes --------------------------------------------------------------------------------------------------------


def python_of(tool: str, environments: Path) -> Path | None:
    if tool == "miaudit":
        return Path(sys.executable)
    path = environments / tool / "bin" / "python"
    return path if path.exists() else None


def install(environments: Path, limit: float, tools: Collection[str] = PEERS, folder: Path = HERE) -> None:
    """Make an environment for each of these tools; one that does not install within the limit is left out."""
    for tool in tools:
        if (environments / tool).exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", str(environments / tool)], check=True)
        pip = [str(environments / tool / "bin" / "pip"), "install", "-q", "-r", f"requirements/{tool}.txt"]
        if "no-deps" in (folder / f"requirements/{tool}.txt").read_text(encoding="utf-8").splitlines()[0]:
            pip.append("--no-deps")
        try:
            subprocess.run(pip, check=True, cwd=folder, timeout=limit)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
            print(f"{tool} does not install: {failed}", file=sys.stderr)
            (environments / tool / "bin" / "python").unlink()


def versions_in(tool: str, python: Path) -> str:
    lines = (HERE / f"requirements/{tool}.txt").read_text(encoding="utf-8").splitlines()
    package = next(line.split("==")[0] for line in lines if line and not line.startswith("#"))
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return f"{package} {done.stdout.strip()}"


def measured(subject: str, tool: str, option: str, folder: Path, python: Path, seconds: float) -> dict[str, Any]:
    command = [str(python), str(HERE / f"{subject}.py"), tool, option, str(folder), str(seconds)]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | one_thread, timeout=60 + 40 * seconds
        )
    except subprocess.TimeoutExpired:
        return {"failed": "did not finish"}
    except subprocess.CalledProcessError as failed:
        return {"failed": failed.stderr.strip().splitlines()[-1][:200] if failed.stderr.strip() else "failed"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows_of(subject: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    ways = importlib.import_module(subject).WAYS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        WRITE[subject](folder, options.repetitions, options.scale)
        for tool, offered in ways.items():
            python = python_of(tool, options.environments)
            if python is None or (options.tool and tool not in options.tool):
                continue
            for option, way in offered.items():
                found = {"subject": subject, "tool": tool, "option": option} | described(way)
                found |= measured(subject, tool, option, folder, python, options.seconds)
                if subject == "lira" and "failed" not in found:
                    found |= compared(folder, tool, option)
                print(
                    f"{subject}: {tool}, {option}: {found.get('cpu', found.get('failed'))}", file=sys.stderr, flush=True
                )
                yield found


def compared(folder: Path, tool: str, option: str) -> dict[str, float]:
    """AUC of the scores of a tool, and of ours."""
    score, member = np.load(folder / f"{tool} {option}.npy"), np.load(folder / "member.npy")
    ranks = stats.rankdata(score)
    n1 = int(member.sum())
    auc = (ranks[member].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(member) - n1))
    return {"value": float(auc)}


# -- tables -----------------------------------------------------------------------------------------------------------


def limits(wrong: int, count: int) -> tuple[float, float]:
    """Clopper-Pearson, 95%."""
    low = stats.beta.ppf(0.025, wrong, count - wrong + 1) if wrong else 0.0
    high = stats.beta.ppf(0.975, wrong + 1, count - wrong) if wrong < count else 1.0
    return float(low), float(high)


def time_in_words(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def rate_in_words(found: list[Any]) -> str:
    wrong, count, _mean = found
    low, high = limits(wrong, count)
    mark = "**" if low > 0.05 else ""  # shown to exceed the nominal level
    return f"{mark}{100 * wrong / count:.1f}%{mark} ({100 * low:.1f}-{100 * high:.1f}; {count})"


def table(rows: list[dict[str, Any]]) -> str:
    """One Markdown table for each subject; ratios are to the fastest valid way of ours for the same question."""
    lines: list[str] = []
    for subject, title in SUBJECTS.items():
        of_it = [row for row in rows if row["subject"] == subject]
        if not of_it:
            continue
        worlds = list(dict.fromkeys(world for row in of_it for world in row.get("alarms", {})))
        shared = sorted({world.split(",")[0] for world in worlds}, key=lambda world: (world != "nothing leaks", world))
        value = "AUC" if subject == "lira" else "value"
        lines += [f"## {title}", ""]
        for question in dict.fromkeys(row["question"] for row in of_it):
            asked = [row for row in of_it if row["question"] == question]
            ours = [r["cpu"] for r in asked if r["tool"] == "miaudit" and r["held"] and "cpu" in r]
            base = min(ours, default=math.nan)
            lines += [f"### {question}", "", *table_head(value, shared)]
            lines += [table_row(row, base, shared) for row in asked]
            lines.append("")
    return "\n".join(lines)


def table_head(value: str, worlds: list[str]) -> list[str]:
    columns = ["tool", "option", "CPU", "ratio", "peak MB", value, *(f"false alarms, {w}" for w in worlds), "note"]
    return ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]


def table_row(row: dict[str, Any], base: float, worlds: list[str]) -> str:
    if "failed" in row:
        cells = [row["tool"], row["option"], row["failed"], *["" for _ in range(3 + len(worlds))], row["note"]]
        return "| " + " | ".join(cells) + " |"
    alarmed = {world.split(",")[0]: rate_in_words(found) for world, found in row.get("alarms", {}).items()}
    cells = [
        row["tool"],
        row["option"],
        time_in_words(row["cpu"]),
        f"{row['cpu'] / base:.3g}",
        f"{row['peak']:.0f}",
        f"{row['value']:.4f}",
        *(alarmed.get(world, "") for world in worlds),
        row["note"],
    ]
    return "| " + " | ".join(cells) + " |"


def skipped(environments: Path) -> str:
    absent = {tool: "no environment of it here" for tool in PEERS if python_of(tool, environments) is None}
    return "\n".join(f"- {name}: {reason}" for name, reason in (absent | SKIPPED).items())


def insert(path: Path, page: str, marks: tuple[str, str]) -> None:
    """Put a page's tables between its two marks."""
    before, rest = path.read_text(encoding="utf-8").split(marks[0])
    path.write_text(f"{before}{marks[0]}\n\n{page}\n{marks[1]}{rest.split(marks[1])[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path("/tmp/peers"), help="a virtual environment per tool")
    parser.add_argument(
        "--install", action="store_true", help="make those that are missing, of --tool if given (network)"
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that an installation may take")
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="some of the subjects")
    parser.add_argument("--repetitions", type=int, default=400, help="audits for each rate of false alarms")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU that these may take: slow tools get fewer")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the timed evidence")
    known = ("miaudit", *PEERS)
    parser.add_argument(
        "--tool", choices=known, action="append", help="some of the tools; the others' rows are kept from --json"
    )
    parser.add_argument("--json", type=Path, help="write the rows here; what was not run now is kept from there")
    parser.add_argument("--docs", type=Path, help="put the tables into this page, between its two marks")
    parser.add_argument("--show", action="store_true", help="run nothing, show the rows of --json")
    options = parser.parse_args()
    if options.install:
        asked = [tool for tool in PEERS if not options.tool or tool in options.tool]
        install(options.environments, options.limit, asked)
    rows = measure_all(options)
    found = [(tool, python_of(tool, options.environments)) for tool in PEERS]
    versions = ", ".join(versions_in(tool, python) for tool, python in found if python)
    page = f"{table(rows)}\n## Versions, and what is missing\n\n{versions}.\n\n{skipped(options.environments)}\n"
    print(page)
    if options.docs:
        insert(options.docs, page, MARKS)


def measure_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of what is asked for, and of the rest what the file has; written after each, so that a stop loses one."""
    kept: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text(encoding="utf-8"))
    ways = all_ways()
    places = {place: i for i, place in enumerate(ways)}
    rows = {place_of(row): row | described(ways[place_of(row)]) for row in kept if place_of(row) in ways}
    for subject in () if options.show else options.only or SUBJECTS:
        for row in rows_of(subject, options):
            rows[place_of(row)] = row
            if options.json:
                in_order = sorted(rows.values(), key=lambda row: places[place_of(row)])
                options.json.write_text(json.dumps(in_order, indent=1) + "\n", encoding="utf-8")
    return sorted(rows.values(), key=lambda row: places[place_of(row)])


def place_of(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["subject"], row["tool"], row["option"]


def all_ways() -> dict[tuple[str, str, str], Way]:
    return {
        (subject, tool, option): way
        for subject in SUBJECTS
        for tool, offered in importlib.import_module(subject).WAYS.items()
        for option, way in offered.items()
    }


def described(way: Way) -> dict[str, Any]:
    return {"question": way.question, "note": way.note, "held": way.held}


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
