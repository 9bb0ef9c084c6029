"""How much each kind of canary shows of mu, and what it costs the model: the table of docs/canaries.md.

    PYTHONPATH=src python benchmarks/canaries.py [--json FILE] [--data FOLDER] [--count 1000] [--only TEXT]

For each world, model and kind: one set of canaries, four trainings with coins of their own, eight shadow models of none
of them, and as many models with and without the canaries whose accuracy on records that no model learned is compared.
Worlds need MNIST and Location-30 (--data); without them handwritten digits of scikit-learn take their place.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.canaries import KINDS, Kind, added, fitting
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.dp import one_run
from miaudit.models.targets import SklearnTarget, TorchTarget
from miaudit.models.train_config import TrainConfig

RUNS, SHADOWS, CONFIDENCE = 4, 8, 0.95
NATURAL = "natural"
SCORES = ("loss", "lira_online")


def worlds(data: Path) -> Iterator[tuple[str, Records, Records, tuple[int, ...]]]:
    """Name, records, held-out records, and the shape of an image, for each world."""
    rng = np.random.default_rng(0)
    if (data / "mnist" / "mnist.npz").is_file():
        with np.load(data / "mnist" / "mnist.npz") as file:
            rows = rng.permutation(60_000)[:6000]
            square = file["x_train"][rows].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
            yield "MNIST, 14 x 14", *_parted(square.reshape(6000, -1), file["y_train"][rows], 4000), (14, 14)
    else:
        x, y = load_digits(return_X_y=True)
        order = rng.permutation(len(x))
        yield "digits, 8 x 8", *_parted(x[order] / 16, y[order], 1400), (8, 8)
    if (data / "location30" / "location30.npz").is_file():
        with np.load(data / "location30" / "location30.npz") as file:
            x = np.unpackbits(file["x_packed"], axis=1)[:, : int(file["n_features"])]
            order = rng.permutation(len(x))
            yield "Location-30", *_parted(x[order], file["y"][order], 4000), ()


def _parted(x: Any, y: Any, natural: int) -> tuple[Records, Records]:
    x, y = x.astype(np.float32), y.astype(np.int64)
    return tuple(Records(x[s], y[s], None, {}, "data") for s in (slice(natural), slice(natural, None)))  # type: ignore[return-value]


def models(records: Records) -> Iterator[tuple[str, Any]]:
    """Name and target of each model."""
    yield "forest", SklearnTarget(RandomForestClassifier(30, n_jobs=1))
    try:
        from miaudit.models.nets import mlp
    except ImportError:
        return
    network = mlp(records.x.shape[1], int(records.y.max()) + 1)  # type: ignore[union-attr]
    training = TrainConfig(optimiser="adam", learning_rate=0.002, epochs=20, batch=64, weight_decay=0.0, device="cpu")
    yield "MLP", TorchTarget(network, training, None, "mlp")


def of_kind(name: str, count: int, shape: tuple[int, ...]) -> Kind:
    """The record of a kind; rows of pixels are images."""
    made: Any = KINDS[name](count)
    return replace(made, shape=shape) if shape and hasattr(made, "shape") else made  # type: ignore[no-any-return]


def with_canaries(records: Records, name: str, count: int, shape: tuple[int, ...], target: Any) -> Records:
    """Records with canaries of a kind; natural ones are records as they are."""
    if name == NATURAL:
        return replace(records, canary=np.arange(records.n) >= records.n - count)
    rng = np.random.default_rng(7)
    return added(records, of_kind(name, count, shape), rng=rng, reference=target, seed=7)


def shown(target: Any, records: Records) -> dict[str, list[float]]:
    """Bounds on mu of each run, by score."""
    shadows = Shadows(models=SHADOWS, vulnerability=False)
    campaign = Campaign(target, records, attacks=SCORES, shadows=shadows, runs=RUNS)
    evidence = collect(campaign, rng=np.random.default_rng(1)).evidence
    found: dict[str, list[float]] = {name: [] for name in SCORES}
    for number, run in enumerate(evidence.runs):
        for name in SCORES:
            rng = np.random.default_rng(number)
            bound = one_run.audit(run.only(name), parameter="mu", confidence=CONFIDENCE, rng=rng)
            found[name].append(bound.value)
    return found


def accuracy(target: Any, records: Records, held_out: Records, seed: int) -> float:
    """Accuracy on records that no model learned; a coin decides for each canary."""
    canary = np.zeros(records.n, dtype=np.bool_) if records.canary is None else records.canary
    rows = np.flatnonzero(~canary | (np.random.default_rng(100 + seed).random(records.n) < 0.5))
    x = target.prepared(records.x)
    outputs = target.outputs(target.fit(x, records.y, rows, seed=seed), target.prepared(held_out.x))
    return float((np.asarray(outputs).argmax(axis=1) == held_out.y).mean())


def compare(data: Path, count: int, only: str) -> Iterator[dict[str, Any]]:
    """One row for each world, model and kind, where ``only`` is part of these three."""
    for world, records, held_out, shape in worlds(data):
        kinds = [NATURAL, *fitting(records, shape=shape)]
        for model, target in models(records):
            wanted = [kind for kind in kinds if only in f"{world} {model} {kind}"]
            plain = [accuracy(target, records, held_out, seed) for seed in range(RUNS if wanted else 0)]
            for kind in wanted:
                begin = time.perf_counter()
                whole = with_canaries(records, kind, min(count, records.n // 4), shape, target)
                yield {
                    "world": world,
                    "model": model,
                    "kind": kind,
                    "canaries": int(np.count_nonzero(whole.canary)),
                    "records": int(np.count_nonzero(~np.asarray(whole.canary))),
                    "mu": shown(target, whole),
                    "accuracy_without": plain,
                    # Natural "canaries" of which half are left out are what an audit without canaries costs.
                    "accuracy_with": [accuracy(target, whole, held_out, seed) for seed in range(RUNS)],
                    "seconds": round(time.perf_counter() - begin, 1),
                }


def line(row: dict[str, Any]) -> str:
    """One line of the table: means and standard deviations over the runs."""
    cells = [f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" for values in row["mu"].values()]
    change = 100 * (np.array(row["accuracy_with"]) - row["accuracy_without"])
    cells.append(f"{change.mean():+.1f} ± {change.std(ddof=1):.1f}")
    return f"| {row['world']} | {row['model']} | {row['kind']} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of the names of data, model and kind: 'Location-30 MLP hard'")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | model | canaries | mu, loss | mu, LiRA | accuracy, points |\n|---|---|---|---|---|---|")
    rows = []
    for row in compare(options.data, options.count, options.only):
        print(line(row), flush=True)
        rows.append(row)
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
