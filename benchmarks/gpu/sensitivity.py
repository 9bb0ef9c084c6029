"""How far one record moves DP-SGD's clipped sum under float32, TF32 and bfloat16, and 30 starts of a private resnet16.

At most the clip, to one millionth of it, for each kind of layer; and the check that records stay apart, which is made
before the first step, refuses none of the starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from measurement import ROOT, Sheet, pictures, run

from miaudit.errors import InputError
from miaudit.models import nets, train
from miaudit.models.devices import device_of, products
from miaudit.models.train import Private, TrainConfig

sys.path.insert(0, str(ROOT / "tests"))
from models.clipped_layers import CASES, KINDS, Words, moved  # the kinds of layer, and the measure, that the tests use

ABOVE = 1e-6
ROUGH = 1e-4  # of a network whose own weights are bfloat16, which training never makes: other records round otherwise
CLIP = 1e-3  # far below all gradients, so that each record moves the sum by just that
PRECISIONS = ("float32", "TF32", "bf16")


@contextmanager
def computed_in(precision: str, device: torch.device) -> Iterator[None]:
    """What a user may ask for around the training; the clipped sum must not follow."""
    with products(tf32=precision == "TF32"), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    place = device_of(options.device)
    kinds = {**KINDS, **({} if options.tiny else CASES)}
    for name, (make, draw) in kinds.items():
        torch.manual_seed(5)
        net, x, y = make().to(place), draw().to(place), torch.randint(0, 3, (7,)).to(place)
        for precision in PRECISIONS:
            with computed_in(precision, place):
                most = max(moved(net, x, y, clip=CLIP))
            otherwise = f"{name} in {precision}: a record moves the sum by {most:.8f} clips"
            above = ROUGH if "bfloat16" in name else ABOVE
            words = sheet.require(most <= 1 + above, otherwise)
            sheet.row(name, precision, f"{most:.8f}", words)
    batches(options, sheet)
    starts(options, sheet)


def batches(options: argparse.Namespace, sheet: Sheet) -> None:
    """Batches as they are trained with: a device may compute a record otherwise where one of 256 others is missing."""
    place, size = device_of(options.device), 16 if options.tiny else 256
    side = 8 if options.tiny else 32
    networks = {
        "mlp": (nets.mlp(3 * side**2, 10, (256,)), lambda: torch.randn(size, 3 * side**2)),
        "convnet": (nets.small_convnet(3, 10, 16), lambda: torch.randn(size, 3, side, side)),
        "resnet16": (nets.resnet16(3, 10), lambda: torch.randn(size, 3, side, side)),
        "words": (Words, lambda: torch.randint(0, 11, (size, 30))),
    }
    for name, (make, draw) in networks.items():
        torch.manual_seed(5)
        net, x, y = make().to(place), draw().to(place), torch.randint(0, 3, (size,)).to(place)
        for precision in PRECISIONS:
            with computed_in(precision, place):
                most = max(moved(net, x, y, clip=CLIP, leaving=range(0, size, size // 8)))
            row = f"{name}, {size} records"
            allowed = 1 + max(ABOVE, size * 2**-24)  # the sum itself is rounded to float32
            words = sheet.require(most <= allowed, f"{row} in {precision}: a record moves the sum by {most:.8f} clips")
            sheet.row(row, precision, f"{most:.8f}", words)


def starts(options: argparse.Namespace, sheet: Sheet) -> None:
    count, n, side = (2, 8, 8) if options.tiny else (30, 256, 32)
    x, y = pictures(n, side)
    x = (x / np.float32(127.5) - 1).astype(np.float32)
    private = Private(noise=1.0, clip=1.0, delta=1e-3, records=n)
    for precision in PRECISIONS:
        config = TrainConfig(
            epochs=1,
            batch=n,
            device=options.device,
            private=private,
            tf32=precision == "TF32",
            mixed_precision=precision == "bf16",
        )
        refused = []
        for seed in range(count):
            try:
                train.fit(nets.resnet16(3, 10), config, x, y, np.arange(n), seed=seed)
            except InputError as error:
                refused.append(f"seed {seed}: {error}")
        begun = f"{count - len(refused)} of {count} begin"
        words = sheet.require(not refused, f"DP resnet16 in {precision}: {begun}; {refused[0] if refused else ''}")
        sheet.row("DP resnet16, starts", precision, begun, words)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(__doc__, ("layer", "asked for", "most that a record moves it, in clips", "holds"), measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
