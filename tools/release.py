"""Build a wheel and a source archive of the last commit and try both as a stranger: ``python tools/release.py [DIST]``.

From a clean clone: the archive, and the wheel made from the archive, so that nothing is missing from it. Each goes into
an empty environment and runs ``miaudit demo`` in an empty folder. Prints what was built, its size and what an
installation weighs; keeps both under DIST where that is given. Needs an index of packages, as pip does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Tried:
    """An artefact that was installed into an empty environment, and what its demo left."""

    artefact: Path
    python: Path
    megabytes: int
    seconds: float
    results: Path


def run(*command: str | Path, where: Path, **environment: str) -> str:
    """Run a command; its output ends the program where it fails."""
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env = {**plain, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), **environment}
    said = [str(part) for part in command]
    done = subprocess.run(said, cwd=where, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(said)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def build(work: Path) -> list[Path]:
    """Build the source archive of the last commit, and the wheel from that archive."""
    run("git", "clone", "--quiet", ROOT, work / "clone", where=work)
    python = environment(work / "builder")
    run(python, "-m", "pip", "install", "--quiet", "build", where=work)
    run(python, "-m", "build", "--outdir", work / "dist", work / "clone", where=work)
    return sorted((work / "dist").iterdir())


def tried(artefact: Path, work: Path) -> Tried:
    """Install an artefact alone, run the demo in an empty folder, and look at what it left."""
    folder = work / artefact.name.removesuffix(".gz")
    python = environment(folder / "environment")
    run(python, "-m", "pip", "install", "--quiet", artefact, where=folder)
    absent = "import importlib.util as u; raise SystemExit(any(u.find_spec(name) for name in ('torch', 'pytest')))"
    run(python, "-c", absent, where=folder)
    (folder / "empty").mkdir()
    begun = time.perf_counter()
    run(python.with_name("miaudit"), "demo", where=folder / "empty", OPENBLAS_NUM_THREADS="1")
    seconds = time.perf_counter() - begun
    results = folder / "empty" / "results" / "demo"
    found = json.loads((results / "findings.json").read_text(encoding="utf-8"))
    if found["verdict"]["status"] != "flagged" or not (results / "report.html").is_file():
        sys.exit(f"the demo of {artefact.name} left no page, or says {found['verdict']['status']}")
    weight = sum(file.stat().st_size for file in (folder / "environment").rglob("*") if file.is_file())
    return Tried(artefact, python, round(weight / 1e6), seconds, results)


def main() -> None:
    """Build, try both, and say what came of it."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        artefacts = build(work)
        for one in (tried(artefact, work) for artefact in artefacts):
            size = one.artefact.stat().st_size / 1e6
            print(f"{one.artefact.name}: {size:.1f} MB; installed {one.megabytes} MB; demo {one.seconds:.1f} s")
        for kept in sys.argv[1:2]:
            Path(kept).mkdir(parents=True, exist_ok=True)
            for artefact in artefacts:
                (Path(kept) / artefact.name).write_bytes(artefact.read_bytes())


if __name__ == "__main__":
    main()
