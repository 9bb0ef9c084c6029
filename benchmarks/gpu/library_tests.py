"""The tests of models with the device seen: none fails, and what is skipped is named.

``python benchmarks/gpu/library_tests.py`` runs ``pytest tests/models`` where torch sees the GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from measurement import ROOT, Sheet, run

WORKERS = (os.cpu_count() or 1) // 2  # each holds a context of some hundred MB on the GPU


def measure(options: argparse.Namespace, sheet: Sheet) -> None:
    what = ["tests/models/test_inclusion.py"] if options.tiny else ["tests/models"]
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if options.device == "cpu" else {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", *what, "-v", "--tb=short", "-m", "not slow", f"--junitxml={file}"]
        if importlib.util.find_spec("xdist") and WORKERS > 1:
            command += ["-n", str(WORKERS), "--benchmark-disable"]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **hidden},
            check=False,  # what it prints is kept as it comes, also where the time ends first
        )
        cases = list(ElementTree.parse(file).iter("testcase")) if file.is_file() else []
    sheet.require(bool(cases), f"pytest did not run: exit code {done.returncode}")
    became: Counter[str] = Counter()
    for case in cases:
        kinds = {part.tag for part in case}
        kind = next((one for one in ("failure", "error", "skipped") if one in kinds), "passed")
        became[kind] += 1
        name = f"{case.get('classname')}.{case.get('name')}"
        if kind == "skipped":
            sheet.row("skipped", name, next(part.get("message", "") for part in case if part.tag == kind))
        elif kind != "passed":
            sheet.require(False, f"{name}: {kind}")
            sheet.row(kind, name, next(part.get("message", "") for part in case if part.tag == kind)[:200])
    sheet.row("passed", became["passed"], f"of {len(cases)}")


def main(arguments: Sequence[str] | None = None) -> int:
    return run(__doc__, ("what", "test", "why"), measure, arguments)


if __name__ == "__main__":
    sys.exit(main())
