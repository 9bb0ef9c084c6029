"""1, 2 and 4 workers on one GPU, and Ray with one GPU declared: each fit has the device that it was given.

Each fit says which GPUs it sees and on which its network was. The outputs of all ways are compared with those of one
worker: on the CPU they must be equal, on a GPU within ``WITHIN`` of their spread.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from measurement import Sheet, pictures, run

from miaudit.jobs.executor import Local, Ray, outcomes
from miaudit.jobs.resources import VARIABLE, Resources, dealt, visible
from miaudit.models import nets, train
from miaudit.models.train_config import TrainConfig

WITHIN = 1e-3
FITS = 8


@dataclass(frozen=True)
class Given:
    """What all fits share; it travels to other processes."""

    x: np.ndarray
    y: np.ndarray
    config: TrainConfig


@dataclass(frozen=True)
class Seen:
    """What a fit saw: the variable that names its GPUs, how many torch can use, and bytes that it took of one."""

    variable: str | None
    count: int
    taken: int
    outputs: np.ndarray


def fit(given: Given, number: int) -> Seen:
    """Train one network on half of the records, ask it about all, and say on what."""
    network = nets.small_convnet(3, 10, 8)
    state = train.fit(network, given.config, given.x, given.y, np.arange(number % 2, len(given.x), 2), seed=number)
    outputs = train.logits(network, state, given.x, device=given.config.device)
    count = torch.cuda.device_count()
    taken = torch.cuda.max_memory_allocated() if count else 0
    return Seen(os.environ.get(VARIABLE), count, taken, outputs)


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    x, y = pictures(*((40, 8) if options.tiny else (4000, 32)))
    config = TrainConfig(learning_rate=0.02, epochs=1 if options.tiny else 5, batch=20, device=options.device)
    given, cuda = Given((x / np.float32(127.5) - 1).astype(np.float32), y, config), options.device != "cpu"
    first: list[Seen] = []
    for workers in (1, 2) if options.tiny else (1, 2, 4):
        share: float = (1 if workers == 1 else 1 / workers) if cuda else 0
        own = dealt(visible(), workers, share)
        place = Local(workers, Resources(gpus=share))
        found = row(sheet, f"{workers} workers of this machine", given, place, set(own), first, cuda=cuda)
        first = first or found
    if options.no_ray or not importlib.util.find_spec("ray"):
        sheet.row("Ray, one GPU declared", "left out", *[""] * 4)
        return
    with declared():
        row(sheet, "Ray, one GPU declared", given, Ray("", 2, Resources(gpus=1)), {"0"}, first, cuda=cuda)


def row(
    sheet: Sheet, name: str, given: Given, place: Local | Ray, own: set[Any], first: list[Seen], *, cuda: bool
) -> list[Seen]:
    """One line: eight fits, what each was given and used, and how far their outputs are from the first line's."""
    start, found = time.perf_counter(), [None] * FITS
    for outcome in outcomes(fit, given, range(FITS), executor=place):
        sheet.require(not outcome.problem, f"{name}, fit {outcome.number}: {outcome.problem}")
        found[outcome.number] = outcome.value
    seconds = time.perf_counter() - start
    seen: list[Seen] = [one for one in found if one is not None]
    variables = sorted({str(one.variable) for one in seen})
    used = all((one.count == 1 and one.taken > 0) if cuda else one.taken == 0 for one in seen)
    right = {one.variable for one in seen} <= own and used and len(seen) == FITS
    words = sheet.require(right, f"{name}: fits saw {variables}, and were given {sorted(map(str, own))}")
    scale = first[0].outputs.std() if first else 1.0
    far = max((abs(a.outputs - b.outputs).max() / scale for a, b in zip(seen, first, strict=False)), default=0.0)
    equal = sheet.require(far <= (WITHIN if cuda else 0), f"{name}: outputs are {far:.2g} from those of one worker")
    sheet.row(name, ", ".join(repr(one) for one in variables), words, f"{far:.2g}", equal, f"{seconds:.1f} s")
    return seen


@contextmanager
def declared() -> Iterator[None]:
    """A Ray cluster of this machine that is told of one GPU, whether or not there is one."""
    import ray

    path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    options: dict[str, Any] = {"runtime_env": {"env_vars": path}, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, num_gpus=1, include_dashboard=False, **options)
    try:
        yield
    finally:
        ray.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    columns = ("where", "GPUs that fits saw", "as given", "from one worker", "as it must", f"{FITS} fits")
    more = ("--no-ray", {"action": "store_true", "help": "leave Ray out"})
    return run(__doc__, columns, measure, arguments, more)


if __name__ == "__main__":
    sys.exit(main())
