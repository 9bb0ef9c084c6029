"""Data sets, networks and recipes of experiments/lira, and what is trained on them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.models import nets, shadow
from miaudit.models.targets import TorchTarget
from miaudit.models.train import TrainConfig

FIRST = 4  # shadow models of the smallest attack


@dataclass(frozen=True, eq=False)
class World:
    """Records (n, ...) with labels (n,), the network that learns them and how."""

    name: str
    x: np.ndarray
    y: np.ndarray
    network: nets.Network
    recipe: Mapping[str, Any]

    @property
    def n(self) -> int:
        """How many records there are."""
        return len(self.y)

    @classmethod
    def load(cls, name: str, data: Path, settings: Mapping[str, Any]) -> World:
        """Read a data set; ``records`` of the settings keeps so many, drawn at random."""
        x, y = _READ[name](data)
        rows = np.random.default_rng(settings["seed"]).permutation(len(y))[: settings["records"]]
        build = dict(settings["network"])
        network: nets.Network = getattr(nets, build.pop("name"))(**build)
        return cls(name, x[rows], y[rows], network, settings["recipe"])


def _location30(data: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data / "location30" / "location30.npz", allow_pickle=False) as z:
        x = np.unpackbits(z["x_packed"], axis=1)[:, : int(z["n_features"])]
        return x.astype(np.float32), z["y"].astype(np.int64)


def _cifar10(data: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data / "cifar10" / "cifar10_12k.npz", allow_pickle=False) as z:
        x = np.concatenate([z["x_train"], z["x_test"]]).transpose(0, 3, 1, 2)
        return (x / np.float32(127.5) - 1).astype(np.float32), np.concatenate([z["y_train"], z["y_test"]]).astype(int)


def _mnist(data: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(data / "mnist" / "mnist.npz", allow_pickle=False) as z:
        x, y = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
        return (x[:, None] / np.float32(255)).astype(np.float32), y.astype(int)


_READ: Mapping[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "location30": _location30,
    "cifar10": _cifar10,
    "mnist": _mnist,
}


@dataclass(frozen=True)
class Machine:
    """Where models are trained: ``store`` keeps them, ``at_once`` are stacked, ``workers`` run side by side."""

    store: Path
    device: str
    workers: int
    at_once: int


@dataclass(frozen=True, eq=False)
class Trained:
    """Models of one recipe: which records each learned (models, n), and their outputs; shadows first, then targets."""

    world: World
    outputs: shadow.ShadowOutputs
    shadows: int

    @property
    def targets(self) -> range:
        """Numbers of the target models."""
        return range(self.shadows, self.outputs.models)

    def accuracy(self) -> dict[str, list[float]]:
        """Share of right answers of each target on its members, and on the records that it never saw."""
        found: dict[str, list[float]] = {"members": [], "nonmembers": []}
        for m in self.targets:
            right, inside = self.right(m), self.outputs.included[m]
            found["members"].append(float(right[inside].mean()))
            found["nonmembers"].append(float(right[~inside].mean()))
        return found

    def right(self, model: int) -> np.ndarray:
        """Whether a model names the class of each record (n,)."""
        return np.asarray(self.outputs.model(model).argmax(axis=1) == self.world.y)


def memberships(n: int, shadows: int, targets: int, seed: int) -> np.ndarray:
    """Draw who learns what, (shadows + targets, n): fair coins for the targets, and balanced halves for the shadows.

    The first 4, 8, 16, ... shadow models hold each record in exactly half of them, so that fewer models are a prefix
    of more, and the targets are the same however many shadows there are.
    """
    coins, halves = np.random.default_rng(seed).spawn(2)
    sizes = [FIRST, *(FIRST * 2**i for i in range(int(math.log2(shadows / FIRST))))] if shadows else []
    if sum(sizes) != shadows:
        raise SystemExit(f"shadows: expected {FIRST} times a power of two, received {shadows}")
    blocks = [shadow.inclusion(n, size, rng=halves) for size in sizes]
    return np.vstack([*blocks, coins.random((targets, n)) < 0.5])


def train(
    world: World,
    machine: Machine,
    *,
    shadows: int,
    targets: int,
    seed: int,
    label: str = "",
    changed: Mapping[str, Any] | None = None,
) -> Trained:
    """Train all models of one recipe, or take from the store those that are there; ``changed`` alters the recipe."""
    config = TrainConfig(**{**world.recipe, **(changed or {})}, device=machine.device)
    name = f"{world.name}-{label}" if label else world.name
    outputs = shadow.train(
        TorchTarget(world.network, config, called=str(world.network)),
        world.x,
        world.y,
        memberships(world.n, shadows, targets, seed),
        seed=seed,
        store=machine.store / name,
        workers=machine.workers,
        at_once=1 if config.private else machine.at_once,
        progress=lambda done: print(f"\r{name}: {done}    ", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    return Trained(world, outputs, shadows)
