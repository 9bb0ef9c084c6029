"""Public tools for private synthetic tables beside ours: ``python benchmarks/peers/tables/compare.py [--install]``.

Each run (table, tool, epsilon, seed) is a process of its own in the tool's environment, one thread, within so many CPU
seconds. Seed k means the same private records, the same other sample and the same held-out records for every tool, so
differences are paired. What is finished, failed or did not finish is kept in ``measured/TABLE/TOOL.json`` at once; a
second call makes what is missing. Tables or tools that are absent are left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]

import call_tool  # noqa: E402
import data  # noqa: E402 - after the path
import page  # noqa: E402
import run  # noqa: E402
import score  # noqa: E402

from miaudit.errors import MiauditError  # noqa: E402
from miaudit.io.atomic import write_text  # noqa: E402
from miaudit.synthesis import Table  # noqa: E402

ENVIRONMENTS = ("dpmm", "smartnoise-synth", "mbi")
MECHANISMS = "https://github.com/ryan112358/mbi", "361705d7f05f8c0ac4d5b3640e688eb4f692346e"  # July 2026
BASELINES = ("private", "real", "shuffled")
SEEDS = {1.0: 5, 0.3: 5, 3.9: 5}  # epsilon: how many seeds, in the order of measuring
# second implementations: only where asked for by name
EXTRA = ("mst-shipped", "dpmm-mst", "dpmm-aim", "mbi-mst", "mbi-aim")
MARKS = ("<!-- tables: benchmarks/peers/tables/compare.py -->", "<!-- end of the tables -->")


class Run(NamedTuple):
    """One run: a table, a tool (or what is no tool), epsilon (None for what is no tool) and a seed."""

    table: str
    tool: str
    epsilon: float | None
    seed: int

    @property
    def key(self) -> str:
        return f"{'-' if self.epsilon is None else f'{self.epsilon:g}'} {self.seed}"


# -- what was measured ------------------------------------------------------------------------------------------------


def path_of(measured: Path, table: str, tool: str) -> Path:
    return measured / table / f"{tool}.json"


def known(measured: Path, table: str, tool: str) -> dict[str, Any]:
    path = path_of(measured, table, tool)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(measured: Path, wanted: Run, entry: dict[str, Any]) -> None:
    """Add one run to its file, whole or not at all."""
    path = path_of(measured, wanted.table, wanted.tool)
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = known(measured, wanted.table, wanted.tool) | {wanted.key: entry}
    write_text(path, json.dumps(dict(sorted(entries.items())), indent=1) + "\n")


def wanted(tables: Sequence[str], chosen: Sequence[str], epsilons: Sequence[float], seeds: int) -> Iterator[Run]:
    """All runs asked for, in the order of measuring: what is no tool first, then seed by seed."""
    for table in tables:
        for seed in range(min(seeds, max(SEEDS.values()))):
            yield from (Run(table, name, None, seed) for name in BASELINES)
        for epsilon in epsilons:
            for seed in range(min(seeds, SEEDS[epsilon])):
                yield from (Run(table, tool, epsilon, seed) for tool in chosen)


# -- one run ----------------------------------------------------------------------------------------------------------


def made(subject: data.Subject, split: data.Split, job: dict[str, Any], python: Path) -> dict[str, Any]:
    """Let a tool make its table in a process of its own; return its line, with the table's values or why it failed."""
    schema = subject.graph.schema
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        levels = [column.levels for column in schema.columns]
        np.savez(folder / "private.npz", codes=split.private.values.astype(np.int64), levels=levels, names=schema.names)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        threads |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "NPROC": "1"}
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | threads
        if call_tool.RUN[job["tool"]][0] == "miaudit":
            environment["PYTHONPATH"] = str(ROOT / "src")
        wall = 4 * job["limit"] + 120
        try:
            command = [str(python), str(HERE / "call_tool.py"), str(folder)]
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=wall, cwd=folder, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"did not finish in {wall:g} s of wall clock"}
        if done.returncode in (-signal.SIGTERM, -signal.SIGINT):
            raise KeyboardInterrupt  # somebody stopped it, which says nothing of the tool
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            used_up = done.returncode == -signal.SIGXCPU
            return {"failed": f"did not finish in {job['limit']:g} CPU s" if used_up else "killed, out of memory maybe"}
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            return {"failed": lines[-1][:200] if lines else f"ended with {done.returncode}"}
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"values": np.load(folder / "synthetic.npy")}


def measured_run(job: Run, limit: float, python: Path | None) -> dict[str, Any]:
    """Return the entry of one run."""
    subject = data.subject(job.table)
    split = subject.draw(job.seed)
    if job.epsilon is None:
        return score.scored(score.baselines(split, job.seed)[job.tool], split, subject, job.seed)
    assert python is not None
    given = job._asdict() | {"delta": subject.delta, "records": subject.records, "limit": limit}
    found = made(subject, split, given, python)
    stated = {"delta": subject.delta, "records": subject.records}
    if "failed" in found:
        return stated | found
    try:
        table = Table(subject.graph.schema, found.pop("values"))
    except MiauditError as error:
        return stated | {"failed": f"made a table that its columns do not allow: {str(error)[:150]}"}
    return stated | rounded(found) | rounded(score.scored(table, split, subject, job.seed))


def rounded(found: dict[str, Any]) -> dict[str, Any]:
    """Six digits are more than any of these figures has."""
    return {
        key: rounded(value) if isinstance(value, dict) else round(value, 6) if isinstance(value, float) else value
        for key, value in found.items()
    }


def unfinished(entries: dict[str, Any], job: Run) -> str | None:
    """Why a run is not worth trying: another seed of it did not finish."""
    for key, entry in entries.items():
        epsilon, seed = key.split()
        if epsilon == job.key.split()[0] and str(entry.get("failed", "")).startswith("did not finish"):
            return f"not run: seed {seed} {entry['failed']}"
    return None


# -- the command ------------------------------------------------------------------------------------------------------


def install_mechanisms(environments: Path, source: str) -> None:
    """Put MST and AIM for mbi, which are in its repository and in no package, beside its interpreter."""
    environment = environments / "mbi"
    if (environment / "mechanisms").exists() or run.python_of("mbi", environments) is None:
        return
    with tempfile.TemporaryDirectory() as name:
        clone, commit = ["git", "-C", name], MECHANISMS[1]
        try:
            subprocess.run(["git", "clone", "-q", "--no-checkout", source, name], check=True, timeout=300)
            subprocess.run([*clone, "checkout", "-q", commit, "--", "mechanisms"], check=True, timeout=60)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
            print(f"the mechanisms of mbi are not to be had: {failed}", file=sys.stderr)
            return
        shutil.copytree(Path(name) / "mechanisms", environment / "mechanisms")


def absent(chosen: Sequence[str], tables: Sequence[str], environments: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Tools and tables that cannot be had here, and why."""
    tools_out, tables_out = {}, {}
    for tool in chosen:
        environment = call_tool.RUN[tool][0]
        if run.python_of(environment, environments) is None:
            tools_out[tool] = f"no environment {environment} in {environments}: run with --install"
        elif environment == "mbi" and not (environments / "mbi" / "mechanisms").exists():
            tools_out[tool] = f"no mechanisms in {environments / 'mbi'}: run with --install, or with --mechanisms"
    for table in tables:
        try:
            data.subject(table)
        except FileNotFoundError as error:
            tables_out[table] = f"{error.filename} is not there"
    return tools_out, tables_out


def measure(options: argparse.Namespace, chosen: Sequence[str]) -> None:
    """Make the runs that are missing, one after the other."""
    tools_out, tables_out = absent(chosen, options.table, options.environments)
    for name, reason in (tools_out | tables_out).items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    there = [table for table in options.table if table not in tables_out]
    for job in wanted(there, [t for t in chosen if t not in tools_out], options.epsilon, options.seeds):
        entries = known(options.measured, job.table, job.tool)
        if job.key in entries and not (options.again and "failed" in entries[job.key]):
            continue
        reason = None if options.again else unfinished(entries, job)
        python = None if job.epsilon is None else run.python_of(call_tool.RUN[job.tool][0], options.environments)
        entry = {"failed": reason} if reason else measured_run(job, options.limit, python)
        keep(options.measured, job, entry)
        brief = entry.get("failed") or f"columns {entry['columns']:.4f}, pairs {entry['pairs']:.4f}"
        print(f"{job.table}, {job.tool}, {job.key}: {entry.get('cpu', 0):.1f} s, {brief}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path("/tmp/peers"), help="a virtual environment per tool")
    parser.add_argument("--install", action="store_true", help="make the environments that are missing (network)")
    parser.add_argument("--mechanisms", default=MECHANISMS[0], help="git repository of mbi, with MST and AIM in it")
    parser.add_argument("--table", choices=data.READ, action="append", help="some of the tables")
    parser.add_argument("--tool", choices=call_tool.RUN, action="append", help="some of the tools")
    parser.add_argument("--epsilon", type=float, choices=SEEDS, action="append", help="some of the epsilons")
    parser.add_argument("--seeds", type=int, default=5, help="at most so many of each (default: 5)")
    parser.add_argument("--limit", type=float, default=600.0, help="CPU seconds of a run (default: 600)")
    parser.add_argument("--again", action="store_true", help="try once more what failed or did not finish")
    parser.add_argument("--measured", type=Path, default=HERE / "measured", help="where runs are kept")
    parser.add_argument("--docs", type=Path, help="put the tables into this page, between its two marks")
    parser.add_argument("--show", action="store_true", help="run nothing, show what was measured")
    options = parser.parse_args()
    if options.seeds < 1 or not options.limit > 0:
        parser.error("--seeds and --limit are above 0")
    if options.measured.exists() and not options.measured.is_dir():
        parser.error(f"--measured is a folder, and {options.measured} is none")
    if options.docs and not (options.docs.is_file() and all(m in options.docs.read_text("utf-8") for m in MARKS)):
        parser.error(f"--docs is a page with the lines {' and '.join(MARKS)}, and {options.docs} is none")
    chosen = options.tool or [tool for tool in call_tool.RUN if tool not in EXTRA]
    options.table, options.epsilon = options.table or list(data.READ), options.epsilon or list(SEEDS)
    if options.install:
        run.install(options.environments, 900, ENVIRONMENTS, HERE)
        install_mechanisms(options.environments, options.mechanisms)
    if not options.show:
        measure(options, chosen)
    found = page.written(options.measured)
    print(found)
    if options.docs:
        run.insert(options.docs, found, MARKS)


if __name__ == "__main__":
    main()
