"""Records and networks of the parts of threshold-post that train: real records, with or without canaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special
from sklearn import datasets

from miaudit.findings.audit import ScoreFindings
from miaudit.findings.metric import Metric, named
from miaudit.models.targets import TorchTarget
from miaudit.models.train_config import TrainConfig

CONFIDENCE = 0.95
VERDICT = ("verdict", "level")
Triple = tuple[float, float | None, float]
Labelled = tuple[np.ndarray, np.ndarray]


def _digits(_data: Path) -> Labelled:
    """Digits (1797, 64) on [0, 1], which come with scikit-learn."""
    z = datasets.load_digits()
    return (z.data / 16).astype(np.float32), z.target.astype(np.int64)


def _mnist(data: Path) -> Labelled:
    """Digits (70000, 784) on [0, 1]."""
    with np.load(data / "mnist" / "mnist.npz", allow_pickle=False) as z:
        x, y = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
        return (x.reshape(len(x), -1) / np.float32(255)).astype(np.float32), y.astype(np.int64)


def _cifar10(data: Path) -> Labelled:
    """Images (12000, 3072) on [-1, 1]."""
    with np.load(data / "cifar10" / "cifar10_12k.npz", allow_pickle=False) as z:
        x, y = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
        return (x.reshape(len(x), -1) / np.float32(127.5) - 1).astype(np.float32), y.astype(np.int64)


def _location30(data: Path) -> Labelled:
    """Check-ins (5010, 446), 0 or 1, of 30 classes."""
    with np.load(data / "location30" / "location30.npz", allow_pickle=False) as z:
        x = np.unpackbits(z["x_packed"], axis=1)[:, : int(z["n_features"])]
        return x.astype(np.float32), z["y"].astype(np.int64)


_READ: Mapping[str, Callable[[Path], Labelled]] = {
    "digits": _digits,
    "mnist": _mnist,
    "cifar10": _cifar10,
    "location30": _location30,
}
FILES = {"mnist": "mnist/mnist.npz", "cifar10": "cifar10/cifar10_12k.npz", "location30": "location30/location30.npz"}


def records(settings: Mapping[str, Any], data: Path, rng: np.random.Generator) -> Labelled:
    """Read the records (n, d) and labels (n,) of a data set; ``records`` of the settings keeps so many, at random."""
    x, y = _READ[settings["data"]](data)
    rows = rng.permutation(len(y))[: settings.get("records")]
    return x[rows], y[rows]


def missing(settings: Mapping[str, Any], data: Path) -> list[str]:
    """Return the files that the settings name, at any depth, and the folder has not."""
    found = [missing(value, data) for value in settings.values() if isinstance(value, Mapping)]
    name = FILES.get(str(settings.get("data")))
    return [*([name] if name and not (data / name).is_file() else []), *(file for files in found for file in files)]


def with_canaries(
    x: np.ndarray, y: np.ndarray, *, share: float, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put noise with labels by chance in the place of a share of the records; return who they are (n,), too.

    Nothing but having learned it tells the label of a canary, and no other record helps.
    """
    canary = rng.random(len(y)) < share
    x = x.copy()
    x[canary] = scale * rng.normal(size=(int(canary.sum()), x.shape[1]))
    return x, np.where(canary, rng.integers(0, int(y.max()) + 1, len(y)), y), canary


def network(x: np.ndarray, y: np.ndarray, settings: Mapping[str, Any], **changed: Any) -> TorchTarget:
    """Describe a perceptron for these records and how it is trained."""
    from miaudit.models import nets  # noqa: PLC0415 - the parts that train nothing do without torch

    built = nets.mlp(x.shape[1], int(y.max()) + 1, hidden=tuple(settings["hidden"]))
    config = TrainConfig(**{**settings["recipe"], "device": "cpu", **changed})
    return TorchTarget(built, config, called=str(built))


def triples(found: ScoreFindings, names: list[str]) -> dict[str, Triple]:
    """Lower limit, value and upper limit of each metric; no value where the FPR cannot be resolved."""
    metrics = {name: named(found.metrics, name) for name in names}
    return {name: _triple(metric) for name, metric in metrics.items() if metric is not None}


def _triple(metric: Metric) -> Triple:
    return float(metric.low or 0.0), metric.value, float(1.0 if metric.high is None else metric.high)


def mean_with_limits(values: np.ndarray) -> Triple:
    """Return the mean of independent values (k,), k at least 2, with Student's limits."""
    width = float(special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - width), float(values.mean()), float(values.mean() + width)


def departures(found: Any, kept: Any, tolerance: float, where: str = "") -> list[str]:
    """Return which of the kept figures were found otherwise; what was not kept is not compared.

    Training is repeatable bit for bit on one kind of machine only, so numbers may differ by a tolerance, and verdicts
    on limits near a threshold by a step.
    """
    if isinstance(kept, Mapping):
        return [
            p
            for name in kept
            if name not in VERDICT
            for p in departures(found[name], kept[name], tolerance, f"{where} {name}".strip())
        ]
    if isinstance(kept, list):
        if len(found) != len(kept):
            return [f"{where}: {len(found)} of them, {len(kept)} expected"]
        pairs = zip(found, kept, strict=True)
        return [p for i, (one, other) in enumerate(pairs) for p in departures(one, other, tolerance, f"{where} {i}")]
    if isinstance(kept, float) and isinstance(found, float):
        return [] if abs(found - kept) <= tolerance else [f"{where}: {found:.4f}, in the README {kept}"]
    return [] if found == kept else [f"{where}: {found!r}, in the README {kept!r}"]


def cell(limits: Triple, decimals: int = 3) -> str:
    """Write a number with its limits; an upper limit alone where there is none."""
    low, value, high = (None if one is None else f"{one:.{decimals}f}" for one in limits)
    return f"at most {high}" if value is None else f"{value} ({low} to {high})"


def signed(limits: Triple) -> str:
    """Write a difference with its limits."""
    low, value, high = limits
    return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"
