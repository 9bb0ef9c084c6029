"""Figure 14 of uncertainty-mia: calibration error against the number of classes, a subgroup's size and its shift.

The subgroup is class 0; its ground truth p_0* is known since a fifth of its labels is flipped. As in the paper, the
mean confidence is that of training records whose label was not flipped. Beside the calibration error stands what the
paper does not show: the advantage of an attack on the confidence, over those records and fresh ones of the same law.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage, special, stats
from trained_networks import Built, network

from miaudit.errors import InputError
from miaudit.jobs import resumable
from miaudit.models import nets, train
from miaudit.models.train import TrainConfig
from miaudit.models.weights import State

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
DIMENSION, SPREAD = 20, 5.0  # of the Gaussian mixture: centres from N(0, 25 I), records N(centre, I)
FRESH = 400  # records of class 0 that no model learned


@dataclass(frozen=True, eq=False)
class Sample:
    """Training records with their noisy labels, which of them are class 0 with its own label, and fresh class 0."""

    x: NDArray[np.float32]
    y: IntArray
    kept: NDArray[np.bool_]
    fresh: NDArray[np.float32]


@dataclass(frozen=True)
class Outcome:
    """What one network shows: Delta of class 0, and the advantage (AUC - 1/2) of its confidence."""

    calibration_error: float
    advantage: float


def flipped(y: IntArray, classes: int, truth: float, rng: np.random.Generator) -> IntArray:
    """Labels in which each 0 is another class with probability 1 - truth."""
    noisy = y.copy()
    turned = (y == 0) & (rng.random(len(y)) >= truth)
    noisy[turned] = rng.integers(1, classes, int(turned.sum()))
    return noisy


def outcome(sample: Sample, built: Built, state: State, truth: float) -> Outcome:
    """Ask one network that was trained on the sample."""
    members, fresh = (
        special.softmax(train.logits(built, state, x).astype(np.float64), axis=1)[:, 0]
        for x in (sample.x[sample.kept], sample.fresh)
    )
    wins = stats.mannwhitneyu(members, fresh).statistic / (len(members) * len(fresh))
    return Outcome(float((members.mean() - truth) / truth), float(wins - 0.5))


def mixture(classes: int, records: int, truth: float, rng: np.random.Generator) -> Sample:
    """Draw a Gaussian mixture of equally many records in each class."""
    centres = SPREAD * rng.normal(size=(classes, DIMENSION))
    clean = np.arange(records) % classes
    x = (centres[clean] + rng.normal(size=(records, DIMENSION))).astype(np.float32)
    fresh = (centres[0] + rng.normal(size=(FRESH, DIMENSION))).astype(np.float32)
    y = flipped(clean, classes, truth, rng)
    return Sample(x, y, (clean == 0) & (y == 0), fresh)


@dataclass(frozen=True, eq=False)
class Population:
    """What all networks of one part have in common.

    Attributes
    ----------
    part : "classes", "size" or "shift"
    settings : of the part, as in trained.yaml
    truth, seed : p_0* of class 0; of everything random
    x, y : images and their classes; none of the mixture
    """

    part: str
    settings: Mapping[str, Any]
    truth: float
    seed: int
    x: NDArray[np.float32] | None = None
    y: IntArray | None = None

    def built(self, value: float) -> Built:
        """Describe the network for one value."""
        return nets.mlp(DIMENSION, int(value), (32,)) if self.x is None else network(self.settings)

    def sample(self, value: float, repeat: int) -> Sample:
        """Draw what one network is trained on. Of images all values of a repeat have the same ones, in one order."""
        if self.x is None or self.y is None:
            rng = np.random.default_rng([self.seed, repeat, int(value)])
            return mixture(int(value), self.settings["records"], self.truth, rng)
        rng, others = np.random.default_rng([self.seed, repeat]), self.settings["others"]
        sizes, strength = dict.fromkeys(range(10), others), 0.0
        if self.part == "size":
            sizes[0] = int(value)
        else:
            strength = value
        return images(self.x, self.y, sizes, self.truth, rng, self.built(value), strength)


def measured(population: Population, folder: Path, workers: int) -> dict[str, Any]:
    """Train every network that is not kept in the folder, and sum up over the repeats.

    ``together`` in the settings trains so many repeats of one value as one stack, for networks so small that a step
    costs more than its arithmetic.
    """
    settings = population.settings
    together, repeats = settings.get("together", 1), settings["repeats"]
    if repeats % together:
        raise InputError("together", f"a divisor of the {repeats} repeats", str(together), "correct trained.yaml")
    jobs = [(value, repeat) for value in settings["values"] for repeat in range(repeats)]
    data = [] if population.x is None or population.y is None else [population.x, population.y]
    decides = {
        "settings": json.dumps([population.part, settings, population.truth, population.seed]),
        "data": resumable.digest(data),
        "torch": torch.__version__,
    }
    with resumable.Store.alone(folder, decides, population.part) as store:
        kept = resumable.finish(
            trained,
            population,
            jobs,
            place=store,
            what="networks",
            failure=lambda number, problem: f"network {number} ({population.part}): {problem}",
            at_once=together,
            workers=workers,
            progress=lambda done: print(f"\r{population.part}: {done}    ", end="", file=sys.stderr, flush=True),
        )
        print(file=sys.stderr)
        found = np.stack([np.load(kept[number]) for number in range(len(jobs))])
    rows = found.reshape(len(settings["values"]), repeats, 2).swapaxes(0, 1)
    return summary(settings["values"], [[Outcome(*one) for one in row] for row in rows.tolist()], population.seed)


def trained(population: Population, batch: Sequence[tuple[float, int]]) -> list[FloatArray]:
    """Train the networks of a batch, several of one value as a stack; return what each shows."""
    config = TrainConfig(**population.settings["recipe"], device="cpu")
    samples, built = [population.sample(*one) for one in batch], population.built(batch[0][0])
    if len(batch) == 1:
        everyone = np.ones(len(samples[0].y), dtype=np.bool_)
        states = [train.fit(built, config, samples[0].x, samples[0].y, everyone, seed=batch[0][1])]
    else:
        x, y = (np.concatenate([getattr(sample, name) for sample in samples]) for name in ("x", "y"))
        whose = np.repeat(np.arange(len(batch)), [len(sample.y) for sample in samples])
        included = whose == np.arange(len(batch))[:, None]
        seeds = [repeat for _, repeat in batch]
        states = train.fit_many(built, config, x, y, included, seeds=seeds, stacked=True, at_once=len(batch))
    shown = [outcome(sample, built, state, population.truth) for sample, state in zip(samples, states, strict=True)]
    return [np.array([one.calibration_error, one.advantage]) for one in shown]


def images(
    x: NDArray[np.float32],
    y: IntArray,
    sizes: Mapping[int, int],
    truth: float,
    rng: np.random.Generator,
    built: Built,
    strength: float = 0.0,
) -> Sample:
    """Draw so many images of each class; class 0 is varied with this strength, and its labels are flipped."""
    order = rng.permutation(len(y))
    by_class = {k: order[y[order] == k] for k in sizes}
    rows = np.concatenate([by_class[k][:count] for k, count in sizes.items()])
    fresh = x[by_class[0][-FRESH:]]
    taken = x[rows].copy()
    if strength > 0:
        zero = y[rows] == 0
        taken[zero], fresh = varied(taken[zero], strength, rng), varied(fresh, strength, rng)
    noisy = flipped(y[rows], 10, truth, rng)
    shape = (-1, 784) if str(built).startswith("mlp") else (-1, 1, 28, 28)
    return Sample(taken.reshape(shape), noisy, (y[rows] == 0) & (noisy == 0), fresh.reshape(shape))


def varied(pictures: NDArray[np.float32], strength: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn by up to 40 degrees times the strength, move by 20% of it, enlarge by half of it, shear by 20 degrees."""
    found = np.empty_like(pictures)
    centre = (np.array(pictures.shape[1:]) - 1) / 2
    for i, picture in enumerate(pictures):
        turn, shear = np.deg2rad(rng.uniform(-strength, strength, 2) * [40, 20])
        scale = 1 + rng.uniform(0, 0.5 * strength)
        moved = rng.uniform(-0.2 * strength, 0.2 * strength, 2) * picture.shape
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        inverse = np.linalg.inv(scale * rotation @ np.array([[1.0, np.tan(shear)], [0.0, 1.0]]))
        found[i] = ndimage.affine_transform(picture, inverse, centre - inverse @ (centre + moved), order=1)
    return found


def summary(values: Sequence[float], rows: Sequence[Sequence[Outcome]], seed: int) -> dict[str, Any]:
    """Means with 95% limits over repeats, and how the calibration error changes from the first value to the last."""
    error = np.array([[one.calibration_error for one in row] for row in rows])
    gain = np.array([[one.advantage for one in row] for row in rows])
    return {
        "values": list(values),
        "repeats": len(rows),
        "calibration_error": [mean(column) for column in error.T],
        "advantage": [mean(column) for column in gain.T],
        "trend": mean(error[:, -1] - error[:, 0]),
        "advantage_trend": mean(gain[:, -1] - gain[:, 0]),
        "seed": seed,
    }


def mean(values: FloatArray) -> dict[str, float]:
    """Mean with Student's 95% limits."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return {"low": float(values.mean() - half), "value": float(values.mean()), "high": float(values.mean() + half)}


def table(part: str, row: Mapping[str, Any]) -> list[str]:
    """Markdown of one part."""
    name = {"classes": "classes", "size": "records of class 0", "shift": "strength of the shift"}[part]
    lines = [f"| {name} | calibration error of class 0 | advantage of its confidence |", "|---|---|---|"]
    for value, error, gain in zip(row["values"], row["calibration_error"], row["advantage"], strict=True):
        lines.append(f"| {value:g} | {_cell(error)} | {_cell(gain)} |")
    return [*lines, "", f"First to last, {row['repeats']} repeats: calibration error {_cell(row['trend'])}, advantage "
            f"{_cell(row['advantage_trend'])}"]  # fmt: skip


def _cell(limits: Mapping[str, float]) -> str:
    return f"{limits['value']:+.3f} ({limits['low']:+.3f} to {limits['high']:+.3f})"
