"""Shadow models end to end on location30: 64 small networks, their outputs, LiRA and each record's vulnerability.

``python benchmarks/shadow.py`` trains with two processes and prints the seconds of each stage and the rates of LiRA
beside the raw loss. ``--executor ray`` does the same on a local Ray cluster, ``--store FOLDER`` keeps the models.
Before it, vulnerability alone: 50,000 records under 256 models, beside every pair of models and a table for each block
(``tests/models/vulnerability_twins.py``), timed on as many records as fill ten blocks.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before numpy

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from miaudit.attacks import lira
from miaudit.jobs import resumable
from miaudit.metrics.roc import Roc
from miaudit.models import nets, shadow
from miaudit.models.shadow import ShadowOutputs
from miaudit.models.targets import TorchTarget
from miaudit.models.train_config import TrainConfig
from models.vulnerability_twins import pair_by_pair  # the same pairs that the tests use as a twin

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "location30" / "location30.npz"
LIMIT = 300.0  # seconds on two cores


def load() -> tuple[np.ndarray, np.ndarray]:
    """Records (5010, 446) of 0 and 1, and their classes 0 to 29."""
    with np.load(DATA, allow_pickle=False) as archive:
        x = np.unpackbits(archive["x_packed"], axis=1)[:, : int(archive["n_features"])]
        y = archive["y"].astype(np.int64)
    return x.astype(np.float32), y - y.min()


def timed(name: str, call: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    found = call()
    print(f"{name:<44}{time.perf_counter() - start:8.2f} s", flush=True)
    return found


def cpu(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def vulnerability_alone(n: int = 50_000, models: int = 256, few: int = 1280) -> None:
    rng = np.random.default_rng(0)
    included = shadow.inclusion(n, models, rng=rng)
    signal = rng.normal(size=(n, models)) + 0.5 * included.T
    ours = cpu(lambda: shadow.vulnerability(signal, included, rng=rng))
    pairs = cpu(lambda: pair_by_pair(signal[:few], included[:, :few])) * n / few
    print(f"vulnerability of {n:,} records under {models} models: {ours:.1f} CPU s (target: at most 10)")
    print(f"  every pair of models, a table for each block: {pairs:.0f} CPU s, {pairs / ours:.0f} times as many")


def rates(name: str, score: np.ndarray, member: np.ndarray) -> None:
    roc = Roc.of(score, member)
    above = [
        float(np.mean(score[member] > np.quantile(score[~member], 1 - fpr, method="higher"))) for fpr in (1e-3, 1e-2)
    ]
    print(f"  {name:<14} AUC {roc.auc:.3f}   TPR at 0.1% FPR {above[0]:.3f}   at 1% {above[1]:.3f}")


def show(progress: resumable.Progress) -> None:
    if progress.finished % 16 == 0:
        print(f"  {progress}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--executor", default="local")
    parser.add_argument("--store", help="default: a temporary folder")
    options = parser.parse_args()
    vulnerability_alone()
    if not DATA.is_file():
        print(f"skipped: {DATA} is not there, and this benchmark needs the data set location30")
        return
    begin = time.perf_counter()
    x, y = timed("data", load)
    rng = np.random.default_rng(0)
    member = rng.random(len(x)) < 0.5  # of the audited model: drawn apart from the shadow models
    included = shadow.inclusion(len(x), options.models, rng=rng)
    target = TorchTarget(nets.mlp(x.shape[1], 30, (128,)), TrainConfig(optimiser="adam", epochs=40, batch=64))
    arguments: dict[str, Any] = {"seed": 1, "workers": options.workers}
    print(timed("estimate from one fit", lambda: shadow.estimate(target, x, y, included, **arguments)))
    with tempfile.TemporaryDirectory() as folder:
        arguments |= {"store": options.store or folder, "executor": options.executor, "progress": show}
        fitted = timed("the audited model", lambda: target.fit(x, y, np.flatnonzero(member), seed=0))
        audited = ShadowOutputs.of([target.outputs(fitted, x)], member[None], y)
        name = f"{options.models} shadow models and their outputs"
        outputs = timed(name, lambda: shadow.train(target, x, y, included, **arguments))
        signal = timed("signals", lambda: outputs.signal("logit_confidence"))
    own = audited.signal("logit_confidence")[:, 0]
    ratio = timed("LiRA", lambda: lira.online(own, signal, included.T))
    leaks = timed("vulnerability of each record", lambda: shadow.vulnerability(signal, included, rng=rng))
    total = time.perf_counter() - begin
    rates("LiRA", ratio, member)
    rates("loss", audited.signal("loss")[:, 0].astype(np.float64), member)
    accuracy = [(audited.model(0).argmax(axis=1) == y)[rows].mean() for rows in (member, ~member)]
    print(f"  accuracy {accuracy[0]:.3f} on members, {accuracy[1]:.3f} on others")
    print(f"  {len(leaks.leaking())} of {len(x)} records leak at 5% (Holm); mean detection {leaks.detected.mean():.3f}")
    print(f"all: {total:.1f} s (target: at most {LIMIT:.0f} s on two cores)")


if __name__ == "__main__":
    main()
