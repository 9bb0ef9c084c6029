"""fit and fit_many for each network, precision and option: equal seeds twice, and stacked beside looped.

Two models are as far apart as their weights differ, in units of the way that training went from the initial weights.
Equal seeds must give equal models, bit for bit, and so must a loop. Stacked ones take their sums in another order, and
training can magnify that: they may differ by ``WITHIN``, or by ``TIMES`` what one rounding of the records does to one
model, if that is more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from measurement import Sheet, pictures, run

from miaudit.errors import InputError
from miaudit.models import nets, train
from miaudit.models.train import EarlyStopping, Private, Pruning, TrainConfig

WITHIN = {"float32": 1e-3, "bf16": 0.1}
TIMES = 5
MODELS = 3


@dataclass(frozen=True)
class Case:
    """One line: a network, and what is done in its training."""

    network: str
    option: str
    precision: str
    factory: nets.Network
    config: TrainConfig

    @property
    def name(self) -> str:
        return f"{self.network}, {self.option}, {self.precision}"


def cases(device: str, side: int, tiny: bool) -> Iterator[Case]:
    numbers = 3 * side * side
    networks = {
        "mlp": lambda dropout: nets.mlp(numbers, 10, (64,), dropout),
        "convnet": lambda dropout: nets.small_convnet(3, 10, 8, dropout),
        "resnet16, group": lambda dropout: nets.resnet16(3, 10, 1, dropout),
        "resnet16, batch": lambda dropout: nets.resnet16(3, 10, 1, dropout, "batch"),
    }
    records = 32 if tiny else 1000
    private = Private(noise=1.0, clip=1.0, delta=1e-3, records=records, repeatable=True)
    options: Mapping[str, dict[str, Any]] = {
        "plain": {},
        "dropout": {},
        "augmentation": {"augmentation": "flip-crop"},
        "early stopping": {"early_stopping": EarlyStopping(share=0.2, patience=1)},
        "pruning": {"pruning": Pruning(0.5)},
        "DP-SGD": {"private": private},
    }
    base = TrainConfig(learning_rate=0.02, epochs=2, batch=16 if tiny else 64, device=device)
    for network, factory in networks.items():
        for option, changed in options.items():
            if network == "resnet16, batch" and option == "DP-SGD":  # which is refused
                continue
            if tiny and "16" in network and option != "plain":
                continue
            made = factory(0.2 if option == "dropout" else 0.0)
            for precision in ("float32",) if device == "cpu" and not tiny else ("float32", "bf16"):
                if tiny and precision == "bf16" and network != "mlp":
                    continue
                config = replace(base, mixed_precision=precision == "bf16", **changed)
                yield Case(network, option, precision, made, config)


def apart(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor], initial: Mapping[str, Any]) -> float:
    """Distance of two models' weights, in units of the way from the initial ones to the second."""

    def flat(state: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([values.double().reshape(-1) for values in state.values() if values.is_floating_point()])

    way = (flat(other) - flat(initial)).norm()
    return float((flat(one) - flat(other)).norm() / way.clamp_min(1e-30))


def initial(case: Case, x: np.ndarray, y: np.ndarray) -> Mapping[str, Any]:
    """Weights after a training whose steps have next to no length: those with which the seed begins."""
    still = replace(case.config, learning_rate=1e-30, weight_decay=0.0, epochs=1, early_stopping=None, pruning=None)
    return train.fit(case.factory, still, x, y, np.arange(len(x)), seed=0)


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    n, side = (64, 8) if options.tiny else (2000, 32)
    x, y = pictures(n, side)
    x = (x / np.float32(127.5) - 1).astype(np.float32)
    included = np.random.default_rng(0).random((MODELS, n)) < 0.5
    seeds = list(range(MODELS))
    for case in cases(options.device, side, options.tiny):
        if options.networks and not any(case.network.startswith(one) for one in options.networks):
            continue
        start, within = time.perf_counter(), WITHIN[case.precision]
        once, again = (
            train.fit(case.factory, case.config, x, y, np.flatnonzero(included[0]), seed=0) for _ in range(2)
        )
        begun = initial(case, x, y)
        twice = apart(again, once, begun)
        looped = train.fit_many(case.factory, case.config, x, y, included, seeds=seeds, stacked=False)
        loop = apart(looped[0], once, begun)
        first = sheet.require(twice == 0, f"{case.name}: equal seeds are {twice:.2g} apart")
        second = sheet.require(loop == 0, f"{case.name}: fit_many in a loop is {loop:.2g} from fit")
        try:
            stacked = train.fit_many(case.factory, case.config, x, y, included, seeds=seeds, stacked=True)
            far = apart(stacked[0], once, begun)
            nudged = train.fit(case.factory, case.config, np.nextafter(x, 2), y, np.flatnonzero(included[0]), seed=0)
            within = max(within, TIMES * apart(nudged, once, begun))
            third = sheet.require(far <= within, f"{case.name}: stacked is {far:.2g} from looped")
            stack = f"{far:.2g}"
        except InputError as error:
            stack, third = f"refused: {error.received.removeprefix('True with ')}", ""
        distances = (f"{twice:.2g}", first, f"{loop:.2g}", second, stack, third)
        seconds = f"{time.perf_counter() - start:.1f} s"
        sheet.row(case.network, case.option, case.precision, *distances, f"{within:.2g}", seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    compared = ("same seed twice", "as promised", "in a loop", "as promised", "stacked", "within")
    more = ("--networks", {"nargs": "+", "default": [], "help": "those whose name begins so: resnet16"})
    return run(__doc__, ("network", "option", "precision", *compared, "tolerance", "time"), measure, arguments, more)


if __name__ == "__main__":
    sys.exit(main())
