"""Synth-MIA's attacks on synthetic tables beside ours: AUC and TPR at 1%, CPU seconds and peak memory.

``python benchmarks/peers/table_attacks.py --synth-mia FOLDER [--data ../shared/data]``. FOLDER holds the folder
``synth_mia`` of github.com/joshward96/Synth-MIA, which is in no package index. It needs pandas, scipy, scikit-learn,
torch and tqdm in the environment that runs this. Without it, or without Adult, one line says so and nothing is done.

Tables are those of ``experiments/causal_synthesis/table_generators.py``, seed by seed: as many members as controls as
synthetic records. Synth-MIA also gets as many reference records, which ours do without. Both are judged on the same
members and controls. What is done is kept in ``--kept``, and a second call makes what is missing.

``--cost`` measures the work of ``benchmarks/table_audit.py`` instead: 30,000 records of Adult by CTGAN, 20,000 members,
9,758 controls. There Synth-MIA has to spend half of the controls as its reference. Gen-LRA and MC are timed on two
small numbers of attacked records, and what one more costs is **extrapolated** (of MC its memory, too). All others are
run whole.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PEER = "synth_mia"
OURS = ("miaudit: adoption and closeness", "miaudit: distance")
WHOLE = "miaudit: the whole audit"
# a row -> the class, its options, whether categories are one-hot (else ordinal, as its tutorial has it for densities)
ATTACKS: dict[str, tuple[str, Mapping[str, Any], bool]] = {
    "Gen-LRA": ("GenLRA", {}, False),
    "Gen-LRA, 5 neighbours": ("GenLRA", {"k_nearest": 5}, False),
    "DOMIAS": ("DOMIAS", {}, False),
    "DCR": ("DCR", {}, True),
    "DCR-Diff": ("DCRDiff", {}, True),
    "DPI": ("DPI", {}, True),
    "LOGAN": ("LOGAN", {}, True),
    "MC": ("MC", {}, True),
    "density": ("DensityEstimate", {}, False),
    "local neighbourhood": ("LocalNeighborhood", {}, True),
    "classifier": ("Classifier", {}, True),
}
# two numbers of attacked records that are timed with --cost, where all would take half an hour or gigabytes
TIMED = {"Gen-LRA": (20, 120), "Gen-LRA, 5 neighbours": (20, 120), "MC": (100, 600)}
DISTANCES = "MC"  # which holds all distances at once, so its memory grows with the records
TABLES = ("kernel", "SMOTE", "trees", "kernel of other people")
PARTS = ("members", "controls", "synthetic", "reference")
Parts = dict[str, Any]  # the tables as frames, or as encoded arrays


# -- in a process of its own ------------------------------------------------------------------------------------------


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def frames(folder: Path) -> Parts:
    """Return the tables as frames: numbers as float64, categories as a type of pandas that Synth-MIA looks for."""
    import pandas as pd

    with np.load(folder / "tables.npz", allow_pickle=False) as held:
        nominal, names = held["nominal"], [f"c{j}" for j in range(len(held["nominal"]))]
        found = {part: pd.DataFrame(held[part], columns=names) for part in PARTS}
    for frame in found.values():
        for name in np.array(names)[nominal]:
            frame[name] = frame[name].astype(int).astype("category")
    return found


def encoded(tables: Parts, one_hot: bool) -> Parts:
    """Return arrays as Synth-MIA's own preparation makes them."""
    preparation = importlib.import_module(f"{PEER}.utils").TabularPreprocessor
    own = preparation(fit_target="synth", categorical_encoding="one-hot" if one_hot else "ordinal")
    own.fit(tables["members"], tables["controls"], tables["synthetic"])
    *arrays, _transformer = own.transform(*(tables[part] for part in PARTS))
    return {part: np.asarray(array, dtype=np.float64) for part, array in zip(PARTS, arrays, strict=True)}


def attacked(name: str, parts: Parts, few: int | None = None) -> tuple[list[float], float]:
    """Scores of members and then controls (so many of each in proportion, or all), and CPU seconds."""
    members, controls = parts["members"], parts["controls"]
    if few is not None:
        inside = round(few * len(members) / (len(members) + len(controls)))
        members, controls = members[:inside], controls[: few - inside]
    kind, options, _ = ATTACKS[name]
    attack = getattr(importlib.import_module(f"{PEER}.attackers"), kind)(**options)
    start = time.process_time()
    _truth, scores = attack.attack(members, controls, parts["synthetic"], parts["reference"])
    return np.asarray(scores, dtype=np.float64).tolist(), time.process_time() - start


def scored(folder: Path, names: list[str]) -> dict[str, Any]:
    """Attack one table by each of these names."""
    tables, found = frames(folder), {}
    for name in names:
        seeded()
        try:
            scores, seconds = attacked(name, encoded(tables, ATTACKS[name][2]))
        except Exception as error:  # another tool's: what it says is the result
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:200]}
        else:
            found[name] = {"scores": scores, "seconds": seconds}
    return found


def cost(folder: Path, name: str) -> dict[str, Any]:
    """CPU seconds, peak memory and scores of one attack on all records, or the first two from small numbers of them."""
    parts = encoded(frames(folder), ATTACKS[name][2])
    everybody, before = len(parts["members"]) + len(parts["controls"]), megabytes()
    attacked(name, parts, 2)  # what is loaded and cached
    if name not in TIMED:
        seeded()
        scores, seconds = attacked(name, parts)
        return {"seconds": seconds, "peak": megabytes(), "before": before, "scores": scores}
    took, peak = [], []
    for few in TIMED[name]:
        seeded()
        took.append(attacked(name, parts, few)[1])
        peak.append(megabytes())
    more = (everybody - TIMED[name][1]) / (TIMED[name][1] - TIMED[name][0])
    grows = peak[1] - peak[0] if name == DISTANCES else 0.0
    return {"seconds": took[1] + more * (took[1] - took[0]), "peak": peak[1] + more * grows, "before": before}


def seeded() -> None:
    """Fix the two generators that its attacks draw from."""
    import torch

    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 (LOGAN draws from it)


def cost_of_ours(folder: Path, name: str) -> dict[str, Any]:
    """CPU seconds, peak memory and scores of one of ours on all records."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from table_audit import Metric, PoolScores, Table, audit_table, tables

    from miaudit.synthesis.table_attacks.closest_record import nearest

    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    schema = tables(Path(data), 30_000)[0].schema
    with np.load(folder / "tables.npz", allow_pickle=False) as held:
        values = {part: held[part] for part in PARTS}
    synthetic, members = Table(schema, values["synthetic"]), Table(schema, values["members"])
    control = Table(schema, np.r_[values["controls"], values["reference"]])
    pool, rng = Table(schema, np.r_[members.values, control.values]), np.random.default_rng(2)
    attacked_ones = len(members) + len(values["controls"])
    before, start = megabytes(), time.process_time()
    scores = None
    if name == OURS[0]:
        scores = PoolScores.of(synthetic, pool, rng=rng).together[:attacked_ones].tolist()
    elif name == OURS[1]:
        found = nearest(Metric.of(control), pool, synthetic, rng=rng).distance[:, 0]
        scores = (-found[:attacked_ones]).tolist()
    else:
        audit_table(synthetic, members, control, design="one-run", rng=rng)
    end = time.process_time()
    return {"seconds": end - start, "peak": megabytes(), "before": before} | ({"scores": scores} if scores else {})


def worker(arguments: list[str]) -> None:
    """Answer a process that asked for one table or for one attack's cost."""
    what, folder, names = arguments[0], Path(arguments[1]), arguments[2:]
    warnings.simplefilter("ignore")
    if what == "ours":
        print(json.dumps(cost_of_ours(folder, names[0])))
    else:
        print(json.dumps(scored(folder, names) if what == "scored" else cost(folder, names[0])))


def asked(what: str, folder: Path, names: list[str], peer: Path) -> dict[str, Any]:
    """Start such a process and return what it says."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(peer)])}
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", what, str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- the tables, and what came out ------------------------------------------------------------------------------------


def handed_over(folder: Path, parts: dict[str, Any], nominal: Any) -> None:
    np.savez(folder / "tables.npz", nominal=nominal, **{part: table.values for part, table in parts.items()})


def drawn(people: Any, kind: str, n: int, seed: int) -> tuple[dict[str, Any], np.random.Generator]:
    """Return the tables of one seed, the same as in the experiment, and the generator that goes on."""
    import table_generators as experiment

    leak_free = kind == TABLES[-1]
    place = 99 if leak_free else list(experiment.MAKERS).index(kind)
    rng = np.random.default_rng([experiment.SEED, place, seed])
    chosen = rng.permutation(len(people))[: 3 * n]
    members, controls, others = (people.subset(chosen[i * n : (i + 1) * n]) for i in range(3))
    source, make = (others, experiment.MAKERS["kernel"]) if leak_free else (members, experiment.MAKERS[kind])
    made = experiment.clipped(people.schema, make(source, n, rng))
    if leak_free:  # the reference must not be the people of the table
        rest = np.setdiff1d(np.arange(len(people)), chosen)
        others = people.subset(np.random.default_rng(seed).permutation(rest)[:n])
    return dict(zip(PARTS, (members, controls, made, others), strict=True)), rng


def one_table(people: Any, kind: str, n: int, seed: int, names: list[str], peer: Path) -> dict[str, Any]:
    """Return AUC, TPR at 1% and CPU seconds of each attack on one table, ours among them."""
    import table_generators as experiment

    from miaudit.synthesis.schema import Table

    parts, rng = drawn(people, kind, n, seed)
    pool = Table(people.schema, np.r_[parts["members"].values, parts["controls"].values])
    metric, start = experiment.Metric.of(parts["controls"]), time.process_time()
    distance = -experiment.nearest(metric, pool, parts["synthetic"], rng=rng).distance[:, 0]
    middle = time.process_time()
    together = experiment.PoolScores.of(parts["synthetic"], pool, None, rng=rng).together
    ours = (together, time.process_time() - middle), (distance, middle - start)
    with tempfile.TemporaryDirectory() as name:
        handed_over(Path(name), parts, experiment.nominal(people.schema))
        theirs = asked("scored", Path(name), names, peer)
    theirs = dict.fromkeys(names, theirs) if "failed" in theirs else theirs
    entries = {row: {"scores": scores, "seconds": seconds} for row, (scores, seconds) in zip(OURS, ours, strict=True)}
    return {row: judged(entry, n) for row, entry in (entries | theirs).items()}


def judged(entry: dict[str, Any], n: int) -> dict[str, Any]:
    """Return AUC and TPR at 1% of scores of n members and then of controls; what failed stays as it is."""
    import table_generators as experiment

    if "failed" in entry:
        return entry
    scores = np.asarray(entry["scores"], dtype=np.float64)
    if not np.isfinite(scores).all():
        return {"failed": "scores that are no numbers"}
    auc, tpr = experiment.success(scores, np.arange(len(scores)) < n)
    return {"auc": auc, "tpr": tpr, "seconds": entry["seconds"]}


def mean_and_error(values: list[float]) -> str:
    """Return the mean, and from two seeds on its standard error."""
    mean = f"{np.mean(values):.3f}"
    return f"{mean} ({np.std(values, ddof=1) / len(values) ** 0.5:.3f})" if len(values) > 1 else mean


def line(kind: str, row: str, entries: list[dict[str, Any]]) -> str:
    """One row: a table and an attack, over seeds."""
    done = [entry for entry in entries if "failed" not in entry]
    cells = [entries[0].get("failed", ""), "", ""]
    if done:
        cells = [mean_and_error([entry[part] for entry in done]) for part in ("auc", "tpr")]
        cells.append(f"{np.median([entry['seconds'] for entry in done]):.2g}")
    return f"| {kind} | {row} | {' | '.join(cells)} | {len(done)} of {len(entries)} |"


def of_all(kept: dict[str, Any], n: int) -> list[str]:
    """Lines of the table of one number of members."""
    lines = []
    for kind in TABLES:
        own = [entry for key, entry in kept.items() if key.startswith(f"{kind}, {n}, ")]
        for row in (*OURS, *ATTACKS):
            entries = [entry[row] for entry in own if row in entry]
            lines += [line(kind, row, entries)] if entries else []
    return lines


def success_of_all(options: argparse.Namespace) -> None:
    import table_generators as experiment

    people = experiment.adult(options.data)
    names = options.attack or list(ATTACKS)
    kept = json.loads(options.kept.read_text(encoding="utf-8")) if options.kept.is_file() else {}
    for seed in range(options.seeds):
        for kind in TABLES:
            key = f"{kind}, {options.members}, {seed}"
            missing = [name for name in names if name not in kept.get(key, {})]
            if missing:
                found = one_table(people, kind, options.members, seed, missing, options.synth_mia)
                kept[key] = kept.get(key, {}) | found
                options.kept.parent.mkdir(parents=True, exist_ok=True)
                options.kept.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
                print(key, file=sys.stderr, flush=True)
    print(f"{options.members} members, as many controls, synthetic and reference records\n")
    print("| table | attack | AUC | TPR at 1% | CPU s | seeds |\n|---|---|---|---|---|---|")
    print("\n".join(of_all(kept, options.members)))


def costs(options: argparse.Namespace) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import table_generators as experiment
    from table_audit import tables

    synthetic, members, control = tables(options.data, 30_000)
    order, half = np.random.default_rng(3).permutation(len(control)), len(control) // 2
    picked = np.random.default_rng(4).permutation(len(members))[:20_000]
    split = members.subset(picked), control.subset(order[:half]), synthetic, control.subset(order[half : 2 * half])
    print(f"{len(synthetic):,} synthetic records, 20,000 members, {len(control):,} controls\n")
    print("| attack | CPU s | peak MB | before | AUC | TPR at 1% | records timed |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data.json").write_text(json.dumps(str(options.data.resolve())), encoding="utf-8")
        handed_over(folder, dict(zip(PARTS, split, strict=True)), experiment.nominal(members.schema))
        member = np.arange(20_000 + half) < 20_000
        for row in [WHOLE, *OURS, *(options.attack or ATTACKS)]:
            found = asked("cost" if row in ATTACKS else "ours", folder, [row], options.synth_mia)
            if "failed" in found:
                print(f"| {row} | {found['failed']} | | | | | |", flush=True)
                continue
            cells = [f"{found[part]:,.{digits}f}" for part, digits in (("seconds", 1), ("peak", 0), ("before", 0))]
            reached = experiment.success(np.array(found["scores"]), member) if "scores" in found else ()
            cells += [f"{value:.3f}" for value in reached] or ["", ""]
            print(f"| {row} | {' | '.join(cells)} | {TIMED[row][1] if row in TIMED else 'all'} |", flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--synth-mia", type=Path, help="the folder that holds the folder synth_mia")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="holds adult_anonymeter/")
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="some of its attacks")
    parser.add_argument("--cost", action="store_true", help="CPU seconds and peak memory on the audit's own work")
    parser.add_argument("--kept", type=Path, default=ROOT / "results/benchmarks/table_attacks.json")
    options = parser.parse_args()
    archive = options.data / "adult_anonymeter" / "adult_members_control_ctgan.npz"
    if options.synth_mia is None or not (options.synth_mia / PEER / "__init__.py").is_file():
        where = "--synth-mia is not given" if options.synth_mia is None else f"{options.synth_mia} holds no {PEER}"
        print(f"skipped: {where}. Get it with git clone https://github.com/joshward96/Synth-MIA", file=sys.stderr)
        return 0
    if not archive.is_file():
        print(f"skipped: {archive} is not there. Name the folder of the data with --data", file=sys.stderr)
        return 0
    sys.path.insert(0, str(ROOT / "experiments" / "causal_synthesis"))
    warnings.filterwarnings("ignore", category=UserWarning)
    (costs if options.cost else success_of_all)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
