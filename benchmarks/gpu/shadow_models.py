"""64 resnet16 shadow models on CIFAR-10, trained 1, 8, 32 and all at once, and 512 at once.

Models per second, peak of memory, and the share of the time in which the device idled; a stack that is too large must
be one line with the number that fits. One pass over half of the records, the outputs on all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from measurement import Sheet, pictures, run, watched

from miaudit.errors import InputError
from miaudit.jobs.resumable import JobsFailedError
from miaudit.models import nets, shadow
from miaudit.models.targets import TorchTarget
from miaudit.models.train_config import TrainConfig

MODELS, AT_ONCE = 64, (1, 8, 32, 64, 512)


def records(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) of 8 bits and their classes (n,); drawn ones for the tiny size."""
    if options.tiny:
        return pictures(64, 8)
    file = options.data / "cifar10" / "cifar10_12k.npz"
    if not file.is_file():
        raise InputError("--data", "a folder that holds cifar10/cifar10_12k.npz", str(options.data), "name it")
    with np.load(file, allow_pickle=False) as z:
        x, y = np.concatenate([z["x_train"], z["x_test"]]), np.concatenate([z["y_train"], z["y_test"]])
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y.astype(np.int64)


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    x, y = records(options)
    config = TrainConfig(learning_rate=0.01, epochs=1, batch=16 if options.tiny else 128, device=options.device)
    target = TorchTarget(nets.resnet16(3, 10), config)
    models, sizes = (4, (1, 4)) if options.tiny else (MODELS, AT_ONCE)
    for at_once in sizes:
        count = max(models, at_once)
        included = shadow.inclusion(len(x), count, rng=np.random.default_rng(0))
        problem = ""
        with watched(options.device) as watch:
            try:
                found = shadow.train(target, x, y, included, seed=0, at_once=at_once)
            except JobsFailedError as error:
                problem = error.failed[0].problem
        if problem:
            said = problem.startswith("at_once: expected at most ") and "fit on the GPU together" in problem
            words = sheet.require(said, f"{at_once} at once: {problem}")
            sheet.row(count, at_once, problem, watch.gigabytes, "", words)
            continue
        words = sheet.require(found.models == count, f"{at_once} at once: {found.models} of {count} models")
        rate = f"{count / watch.seconds:.3g} a second"
        sheet.row(count, at_once, rate, watch.gigabytes, f"{watch.idle:.0%}", words)


def main(arguments: Sequence[str] | None = None) -> int:
    columns = ("models", "at once", "trained and asked", "peak", "idle", "as it must")
    return run(__doc__, columns, measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
