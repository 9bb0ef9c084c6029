"""What an audit costs against its size: ``python benchmarks/scaling.py [--full] [--only NAME] [--json F] [--docs F]``.

Every size is measured in a process of its own: CPU seconds of the call (imports and the making of the data excluded,
processes that it starts included), the peak resident set above what the interpreter held after its imports, and the
bytes of files. An exponent is the slope of the logarithms by least squares over the largest three sizes, where fixed
costs weigh least: 1 is a cost in proportion, 1.05 about n log n, 2 the square. The small sizes take about two minutes;
``--full`` goes up to 10,000,000 scores and takes an hour and 4 GB. ``--docs benchmarks/scaling.md`` writes the table.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before numpy: no threads that wait

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scaling_commands as commands

import miaudit as ma

MARKS = ("<!-- table: benchmarks/scaling.py --docs -->", "<!-- end of the table -->")
FITTED = 3  # sizes, the largest
UNITS = {"cpu": "CPU s", "peak": "MB", "disk": "kB on disk"}
LEAST = {"cpu": 0.02, "peak": 5.0, "disk": 0.5}  # below, a figure is mostly fixed cost and has no exponent
Prepared = Callable[[], Any]


# -- what is measured ------------------------------------------------------------------------------------------------


def scores(n: int, *, each: int = 1, digits: int | None = None) -> ma.Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    unit = None if each == 1 else np.arange(n) // each
    score = rng.normal(size=n) + 0.1 * member
    score = score if digits is None else score.round(digits)
    return ma.Evidence(score=score, member=member, unit=unit, design="one-run")


def observed(n: int, d: int) -> ma.Evidence:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    member = rng.random(n) < 1 / (1 + np.exp(-0.5 * x[:, 0]))
    return ma.Evidence(score=rng.normal(size=n) + 0.5 * member, member=member, covariates=x, design="zero-run")


def audited(make: Callable[[int], ma.Evidence], n: int, **options: Any) -> Prepared:
    """One audit; a small one of its kind comes first, so that no module is loaded while the clock runs."""
    ma.audit(make(400), plan=ma.Plan(**options), rng=np.random.default_rng(0))
    _before.append(peak())
    evidence = make(n)
    return lambda: ma.audit(evidence, plan=ma.Plan(**options), rng=np.random.default_rng(0))


_before: list[float] = []  # peak when all modules were loaded


def loaded(make: Callable[[int], Prepared], small: int) -> Callable[[int], Prepared]:
    """The work of a command, after a small one of its kind."""

    def prepare(n: int) -> Prepared:
        make(small)()
        _before.append(peak())
        return make(n)

    return prepare


def one_run(n: int) -> Prepared:
    return audited(scores, n)


def one_run_ties(n: int) -> Prepared:
    return audited(lambda k: scores(k, digits=2), n)


def one_run_units(n: int) -> Prepared:
    return audited(lambda k: scores(k, each=2), n)


def one_run_bootstrap(n: int) -> Prepared:
    return audited(scores, n, bounds=None, n_bootstrap=100)


def zero_run(n: int) -> Prepared:
    return audited(lambda k: observed(k, 20), n)


def zero_run_covariates(d: int, n: int = 4_000) -> Prepared:
    return audited(lambda k: observed(k, d), n)


def zero_run_bootstrap(n: int) -> Prepared:
    return audited(
        lambda k: observed(k, 5), n, bounds=None, n_bootstrap=200, propensity_model="line", estimator="hajek"
    )


def lira(n: int, models: int) -> Prepared:
    from miaudit.attacks import lira as attack

    rng = np.random.default_rng(0)
    included = rng.random((n, models)) < 0.5
    shadow = rng.normal(size=(n, models)).astype(np.float32) + included
    target = rng.normal(size=n)
    attack.online(target[:100], shadow[:100], included[:100])
    return lambda: attack.online(target, shadow, included)


def lira_models(models: int) -> Prepared:
    return lira(20_000, models)


def lira_records(n: int) -> Prepared:
    return lira(n, 64)


class Guessing:
    """A target that learns nothing: outputs of so many classes cost what it takes to keep them, and no more."""

    kind, runs_user_code = "logits", True

    def __init__(self, classes: int) -> None:
        self.name, self._classes = f"{classes} classes at random", classes

    def identity(self) -> str:
        return self.name

    def fit(self, x: Any, y: Any, rows: Any, *, seed: int) -> int:  # noqa: ARG002 - a target's arguments
        return seed

    def outputs(self, fitted: int, x: Any) -> Any:
        return np.random.default_rng(fitted).normal(size=(len(x), self._classes)).astype(np.float32)


def kept(folder: Path, *, classes: int = 10, models: int = 8, signal: str | None = None, n: int = 2_000) -> Prepared:
    """Shadow models in a store, all outputs or one signal of each record."""
    from miaudit.models import shadow

    x, y = np.zeros((n, 1)), np.arange(n) % classes
    included = shadow.inclusion(n, models, rng=np.random.default_rng(0))
    return lambda: shadow.train(Guessing(classes), x, y, included, seed=0, store=folder, signal=signal)


def runs(folder: Path, count: int, *attacks: str) -> Prepared:
    """A multi-run, one model for each audited record; half of the records are in every training."""
    from miaudit.collect.campaign import Campaign, Shadows
    from miaudit.collect.records import Records
    from miaudit.collect.run_campaign import collect

    y = np.arange(2 * count) % 10
    records = Records(np.zeros((2 * count, 1)), y, None, {}, "none")
    options = {"design": "multi-run", "attacks": attacks, "audited": count, "shadows": Shadows(store=folder)}
    return lambda: collect(Campaign(Guessing(10), records, **options), rng=np.random.default_rng(0))


def campaign(folder: Path, models: int, store: Path | None = None, n: int = 2_000) -> Any:
    """A campaign of so many shadow models, whose fits are a script's, or (with a store) learn nothing here."""
    from miaudit.collect.campaign import Campaign, Shadows
    from miaudit.collect.records import Records
    from miaudit.models.command import CommandTarget

    records = Records(np.arange(n) if store is None else np.zeros((n, 1)), np.arange(n) % 10, None, {}, "none")
    target = CommandTarget("true {rows} {seed} {out}", "losses", folder) if store is None else Guessing(10)
    return Campaign(target, records, shadows=Shadows(models=models, store=store))


def collected(models: int, folder: Path) -> Prepared:
    """Fits that learn nothing, kept in a store, and the evidence of them."""
    from miaudit.collect.run_campaign import collect

    collect(campaign(folder, 4, folder.parent / "warm"), rng=np.random.default_rng(0))
    return lambda: collect(campaign(folder, models, folder), rng=np.random.default_rng(0))


def drawn(models: int, folder: Path) -> Prepared:
    """A folder for each fit."""
    from miaudit.collect.drawn import draw

    config = folder.parent / "a.yaml"
    config.touch()
    draw(
        campaign(folder.parent, 4), folder.parent / "warm", config=config, rng=np.random.default_rng(0), overwrite=True
    )
    return lambda: draw(campaign(folder.parent, models), folder, config=config, rng=np.random.default_rng(0))


def gathered(models: int, folder: Path) -> Prepared:
    """The evidence of fits in folders."""
    from miaudit.collect.drawn import FITS, gather, read

    def prepared(count: int, place: Path) -> Prepared:
        drawn(count, place)()
        for i, out in enumerate(sorted((place / FITS).glob("*/out"))):
            np.save(out / "outputs.npy", np.random.default_rng(i).exponential(size=2_000))
        return lambda: gather(campaign(folder.parent, count), read(place), rng=np.random.default_rng(0))

    prepared(4, folder.parent / "small")()
    return prepared(models, folder)


@dataclass(frozen=True)
class Work:
    """What grows, at which sizes it is measured, and the largest exponent that each figure may have."""

    what: str
    grows: str
    prepare: Callable[..., Prepared]
    small: tuple[int, ...]
    full: tuple[int, ...]
    at_most: dict[str, float] = field(default_factory=lambda: {"cpu": 1.2, "peak": 1.15})
    keeps: bool = False  # files, in a folder that it is given


_OF_FILES = {"disk": 1.02}
_UP_TO_7 = (10**4, 10**5, 10**6, 10**7)
_CLASSES = (10, 100, 1000)


def _audits() -> dict[str, Work]:
    up_to_6, replicates = (10**4, 10**5, 10**6), (10**4, 10**5, 5 * 10**5)
    covariates = {"cpu": 2.2, "peak": 1.3}
    return {
        "one-run": Work("one-run audit, distinct scores", "scores", one_run, up_to_6, _UP_TO_7),
        "one-run-ties": Work("one-run audit, scores of two decimals", "scores", one_run_ties, up_to_6, _UP_TO_7),
        "one-run-units": Work("one-run audit, two records a unit", "scores", one_run_units, up_to_6, _UP_TO_7),
        "one-run-bootstrap": Work("one-run, 100 replicates", "scores", one_run_bootstrap, replicates, up_to_6),
        "zero-run": Work("zero-run audit, 20 covariates", "records", zero_run, (1_000, 4_000, 20_000), up_to_6),
        "zero-run-covariates": Work(
            "zero-run audit of 4,000 records", "covariates", zero_run_covariates, (5, 20), (5, 10, 20, 40), covariates
        ),
        "zero-run-bootstrap": Work(
            "zero-run, 5 covariates, 200 replicates", "records", zero_run_bootstrap, (2_000, 10_000), replicates
        ),
    }


def _models() -> dict[str, Work]:
    ten = "10 classes, 2,000 records"

    def compared(count: int, folder: Path) -> Prepared:
        return runs(folder, count, "lira_offline")

    def one_signal(classes: int, folder: Path) -> Prepared:
        return kept(folder, classes=classes, signal="logit_confidence")

    return {
        "lira-models": Work("online LiRA of 20,000 records", "models", lira_models, (32, 64, 128), (64, 256, 1024)),
        "lira-records": Work(
            "online LiRA, 64 models", "records", lira_records, (10**4, 3 * 10**4, 10**5), (10**5, 3 * 10**5, 10**6)
        ),
        "store-models": Work(
            f"store of outputs, {ten}", "models", lambda m, f: kept(f, models=m), (8, 16, 32), (16, 64, 256),
            _OF_FILES, keeps=True,
        ),
        "store-classes": Work(
            "store of outputs, 8 models, 2,000 records", "classes", lambda c, f: kept(f, classes=c), _CLASSES, _CLASSES,
            _OF_FILES, keeps=True,
        ),
        "store-classes-signal": Work(
            "the same, one signal a record", "classes", one_signal, _CLASSES, _CLASSES, {"disk": 0.05}, keeps=True
        ),
        "multi-run": Work(
            "multi-run, loss, 10 classes", "runs", lambda a, f: runs(f, a, "loss"), (20, 40, 80), (100, 400, 1600),
            _OF_FILES, keeps=True,
        ),
        "multi-run-compared": Work(
            "multi-run, offline LiRA, 10 classes", "runs", compared, (20, 40, 80), (100, 200, 400), {"disk": 2.02},
            keeps=True,
        ),
    }  # fmt: skip


def _commands() -> dict[str, Work]:
    texts, tables, pairs = (500, 1_500, 4_500), (2_000, 6_000, 18_000), (2_000, 8_000, 32_000)
    up_to_6, releases, steep = (10**4, 10**5, 10**6), (50, 200, 800), {"cpu": 1.5, "peak": 1.15}
    kinds: dict[str, tuple[str, str, Callable[[int], Prepared], tuple[int, ...], tuple[int, ...]]] = {
        "matched": ("audit of random strings, 20 decoys each", "strings", loaded(commands.matched, 200), pairs, pairs),
        "usage": ("usage, 20 decoys each", "records", loaded(commands.usage, 200), pairs, pairs),
        "extraction": (
            "extraction with near duplicates, 512 tokens", "texts", loaded(commands.extraction, 100), texts, texts
        ),
        "tokens": ("attacks on token log-probabilities", "texts", loaded(commands.token_attacks, 50), texts, texts),
        "table": ("audit of a synthetic table, 15 columns", "records", loaded(commands.table, 300), tables, tables),
        "release": ("private table by noisy counts", "records", loaded(commands.release, 500), tables, tables),
        "plan": ("plan of a one-run audit", "records", loaded(commands.plan, 300), up_to_6, _UP_TO_7),
        "verify": ("bundle written and verified", "scores", loaded(commands.verification, 400), up_to_6, _UP_TO_7),
        "history": ("history of audits", "audits", loaded(commands.history, 3), releases, releases),
    }  # fmt: skip
    steeper = {"table": {"at_most": steep}}
    return {name: Work(*values, **steeper.get(name, {})) for name, values in kinds.items()}


def _campaigns() -> dict[str, Work]:
    small, full = (10, 30, 100), (100, 300, 1000)
    of_scripts = "2,000 records, losses of a script"
    # the exact law of the rank test takes the fourth power of the models, and most of the time above 500
    gather, collect = {"cpu": 2.0}, {"cpu": 2.0, "disk": 1.02}
    return {
        "draw": Work(f"miaudit draw, {of_scripts}", "fits", drawn, small, full, {"cpu": 1.1, "disk": 1.02}, keeps=True),
        "gather": Work(f"miaudit gather, {of_scripts}", "fits", gathered, small, full, gather, keeps=True),
        "collect": Work(
            "miaudit collect with a store, 2,000 records, 10 classes, fits that learn nothing", "fits", collected,
            small, full, collect, keeps=True,
        ),
    }  # fmt: skip


WORKS = {**_audits(), **_models(), **_campaigns(), **_commands()}


# -- measuring -------------------------------------------------------------------------------------------------------


def peak() -> float:
    """Peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if platform.system() == "Darwin" else 1e3)


def busy() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + found.ru_utime + found.ru_stime


def here(name: str, size: int) -> dict[str, float]:
    """Measure one size in this process."""
    work = WORKS[name]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        imported = peak()
        call = work.prepare(size, store) if work.keeps else work.prepare(size)
        start = busy()
        call()
        spent = busy() - start
        found = {"size": float(size), "cpu": spent, "peak": peak() - (_before[-1] if _before else imported)}
        if work.keeps:
            found["disk"] = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e3
    return found


def measured(name: str, size: int) -> dict[str, float]:
    """Measure one size in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--measure", name, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name} of {size:,} failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: Sequence[float], values: Sequence[float], least: float = 0.0) -> float | None:
    """Slope of the logarithms over the largest sizes; None where fewer than two figures are above fixed costs.

    >>> exponent([1, 10, 100, 1000], [50, 1, 100, 10_000])
    2.0
    """
    pairs = [(s, v) for s, v in zip(sizes, values, strict=True) if v >= least and v > 0][-FITTED:]
    if len(pairs) < 2:
        return None
    x, y = (np.log([pair[i] for pair in pairs]) for i in (0, 1))
    x, y = x - x.mean(), y - y.mean()
    return round(float(x @ y / (x @ x)), 3) + 0.0


def rows_of(name: str, found: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """One row for each figure of a work that has a limit: its values, its exponent, and whether that is met."""
    work, rows = WORKS[name], []
    for figure, limit in work.at_most.items():
        values = [one[figure] for one in found]
        slope = exponent([one["size"] for one in found], values, LEAST[figure])
        rows.append(
            {
                "name": name,
                "what": work.what,
                "grows": work.grows,
                "figure": figure,
                "sizes": [int(one["size"]) for one in found],
                "values": values,
                "exponent": slope,
                "limit": limit,
                "met": slope is None or slope <= limit,
            }
        )
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        line = ", ".join(f"{size:,}: {value:.3g}" for size, value in zip(row["sizes"], row["values"], strict=True))
        slope = "fixed cost" if row["exponent"] is None else f"exponent {row['exponent']:.2f}"
        verdict = "met" if row["met"] else "MISSED"
        what = f"{row['what']} [{row['grows']}], {UNITS[row['figure']]}"
        print(f"{what}: {line}; {slope}, at most {row['limit']:g} {verdict}")
    sys.stdout.flush()


# -- the page --------------------------------------------------------------------------------------------------------


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table of the page."""
    lines = ["| what | what grows | figure | measured | exponent |", "|---|---|---|---|---|"]
    for row in rows:
        pairs = zip(row["sizes"], row["values"], strict=True)
        cells = " · ".join(f"{size:,}: {_short(value)}" for size, value in pairs)
        slope = "–" if row["exponent"] is None else f"{row['exponent']:.2f}"
        lines.append(f"| {row['what']} | {row['grows']} | {UNITS[row['figure']]} | {cells} | {slope} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def put_into(page: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the table into a page, between its two marks."""
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n\n{table(rows)}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="sizes up to 10,000,000 scores: an hour, and 4 GB")
    parser.add_argument("--only", choices=WORKS, action="append", help="some of the works; others are kept from --json")
    parser.add_argument("--json", type=Path, help="write the rows here; what is not measured now is kept from there")
    parser.add_argument("--docs", type=Path, help="put the table into this page, between its two marks")
    parser.add_argument("--show", action="store_true", help="measure nothing, show the rows of --json")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, size = options.measure
        print(json.dumps(here(name, int(size))))
        return
    known: dict[str, list[dict[str, Any]]] = {}
    if options.json and options.json.exists():
        for row in json.loads(options.json.read_text(encoding="utf-8")):
            known.setdefault(row["name"], []).append(row)
    for name in () if options.show else (options.only or WORKS):
        sizes = WORKS[name].full if options.full else WORKS[name].small
        known[name] = rows_of(name, [measured(name, size) for size in sizes])
        show(known[name])
        if options.json:  # after each, so that a stop loses one
            rows = [row for kind in WORKS for row in known.get(kind, [])]
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    rows = [row for kind in WORKS for row in known.get(kind, [])]
    if options.show:
        show(rows)
    if options.docs:
        put_into(options.docs, rows)
    if not all(math.isfinite(value) for row in rows for value in row["values"]):
        raise SystemExit("a figure is no number")


if __name__ == "__main__":
    main()
