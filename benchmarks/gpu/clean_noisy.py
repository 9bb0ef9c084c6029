"""Figure 3(c) of causal-mia as printed: a resnet16 of width 4, 10,000 steps, four seeds, clean and noisy CIFAR-10.

It is ``experiments/causal_mia/clean_noisy.py``, whose claims must hold, seed by seed: what a seed gave is kept in
``--out``, so that the same command goes on where it stopped. The form ``printed`` draws from 50,000 images; they are
not in the data beside the checkout, and without cifar10/cifar10_60k.npz the form ``full`` takes the 12,000 that are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence

import yaml
from measurement import ROOT, Sheet, run

EXPERIMENT = ROOT / "experiments" / "causal_mia"


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    there = (options.data / "cifar10" / "cifar10_60k.npz").is_file()
    form = "tiny" if options.tiny else "printed" if there else "full"
    settings = yaml.safe_load((EXPERIMENT / "clean_noisy.yaml").read_text(encoding="utf-8"))[form]
    images = sum(settings[kind] for kind in ("members", "drifted", "iid"))
    command = [sys.executable, str(EXPERIMENT / "clean_noisy.py"), "--data", str(options.data), "--form", form]
    command += ["--device", options.device.partition(":")[0], "--out", str(options.out)]
    for seed in range(settings["seeds"]):
        start = time.perf_counter()
        done = called([*command, "--seeds", str(seed), "--collect-only"])
        if done.returncode:
            sheet.require(False, f"seed {seed}: {done.stderr.strip().splitlines()[-1][:200]}")
            return
        sheet.row(f"seed {seed}", f"{time.perf_counter() - start:.0f} s", *[""] * 5)
    done = called(command)
    if not (options.out / "clean_noisy.json").is_file():
        sheet.require(False, f"analysis: {done.stderr.strip().splitlines()[-1][:200]}")
        return
    found = json.loads((options.out / "clean_noisy.json").read_text(encoding="utf-8"))
    expected = json.loads((EXPERIMENT / "clean_noisy_expected.json").read_text(encoding="utf-8"))
    mean, printed = found["mean"], expected["printed"]
    aucs = [f"{mean[name]['auc']:.3f}" for name in ("iid", "drifted", "network", "grain", "oracle")]
    sheet.row(f"{form}: {images:,} images, {len(found['seeds'])} seeds", "", *aucs)
    sheet.row("as printed", "", printed["iid"], printed["drifted"], printed["corrected"], "", "")
    differs = [line for line in done.stderr.splitlines() if line.startswith("differs: ")]
    sheet.require(done.returncode == 0, "; ".join(differs) or f"exit code {done.returncode}")


def called(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main(arguments: Sequence[str] | None = None) -> int:
    columns = ("what", "trained in", "undrifted", "drifted", "corrected: network", "grain", "oracle")
    return run(__doc__, columns, measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
