"""Count what three audits walk through: ``python tools/walks.py [--files]``.

A score, a covariate and a PyTorch target are audited by the command line in this process. Counted for each: the files
of src/miaudit in which a function ran, the types of record that were made (dataclasses, pydantic models, named tuples),
and the climbs: pairs of rooms of which the lower, in the order of imports, called a function of the higher.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import house
import numpy as np

MARKS = ("__dataclass_fields__", "model_fields", "_fields")  # of dataclasses, pydantic models, named tuples
FUNCTION = 1  # CO_OPTIMIZED: the body of a function, not of a module or a class
TABLE = ["--score", "s", "--member", "m", "--claim-mu", ".5", "--design"]
AUDITS = {
    "score": ["audit", "score.npz", *TABLE, "one-run", "--out", "a"],
    "covariate": ["audit", "shift.npz", *TABLE, "zero-run", "--covariates", "u,v", "--out", "b"],
    "PyTorch target": ["run", "torch.yaml", "--out", "c"],
}
CONFIG = """
target: {kind: torch, factory: "miaudit.models.nets:mlp", options: {inputs: 4, classes: 2, hidden: [8]},
  training: {epochs: 2, device: cpu}}
data: {path: records.npz, x: x, y: y}
shadow: {models: 4, store: store}
"""


def write_data() -> None:
    """Write the scores and the records that are audited."""
    rng = np.random.default_rng(0)
    m = rng.random(600) < 0.5
    u, v = rng.normal(size=(2, 600)) + 0.4 * m
    np.savez("score.npz", s=rng.normal(size=600) + 0.3 * m, m=m)
    np.savez("shift.npz", s=rng.normal(size=600) + u, m=m, u=u, v=v)
    np.savez("records.npz", x=rng.normal(size=(200, 4)).astype(np.float32) + m[:200, None], y=m[:200].astype(int))
    Path("torch.yaml").write_text(CONFIG, encoding="utf-8")


def note_making(kind: Any, made: set[str]) -> None:
    """Have a type write its name into a set whenever one is made, also by pydantic, which calls no ``__init__``."""
    plain = kind.__new__

    @functools.wraps(kind.__init__)  # what asks the type for its arguments still finds them
    def noted(called: type, *given: Any, **named: Any) -> Any:
        made.add(f"{called.__module__.removeprefix('miaudit.')}.{called.__qualname__}")
        return object.__new__(called) if plain is object.__new__ else plain(called, *given, **named)

    kind.__new__ = staticmethod(noted)


def walk(arguments: list[str], rooms: dict[str, str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Audit by the command line; return the paths in which a function ran, and the rooms of caller and called."""
    from miaudit.command.program import main

    paths, calls = set[str](), set[tuple[str, str]]()

    def seen(frame: Any, event: str, _argument: object) -> None:
        path, above, name = frame.f_code.co_filename, frame.f_back, frame.f_code.co_name
        if event != "call" or path not in rooms or name[0] == "<" or not frame.f_code.co_flags & FUNCTION:
            return
        paths.add(path)
        while above is not None and above.f_code.co_filename not in rooms:
            above = above.f_back
        if above is not None:
            calls.add((rooms[above.f_code.co_filename], rooms[path]))

    sys.argv, printed, code = ["miaudit", *arguments], io.StringIO(), 0
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    sys.setprofile(None)
    if code not in (0, 3, 4):
        raise SystemExit(f"miaudit {' '.join(arguments)} ended with {code}:\n{printed.getvalue()}")
    return paths, calls


def main() -> None:
    """Walk three times and print the table."""
    sys.path.insert(0, str(house.SRC))  # the tree that is counted
    known, below, made, wordy = house.modules(), house.graphs()[1], set[str](), "--files" in sys.argv
    level = functools.cache(lambda name: max((level(other) + 1 for other in below.get(name, ())), default=0))
    loaded = [vars(importlib.import_module(name)).values() for name in known if not name.endswith("__main__")]
    every = {id(found): found for values in loaded for found in values}.values()
    ours = [found for found in every if str(getattr(found, "__module__", "")).startswith(house.NAME)]
    for kind in (found for found in ours if isinstance(found, type) and any(hasattr(found, mark) for mark in MARKS)):
        note_making(kind, made)
    rooms = {str(path): house.room(name, known) for name, path in known.items()}
    print(f"{'walk':<16}{'files':>7}{'records':>9}{'climbs':>8}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_data()
        for title, arguments in AUDITS.items():
            for found in ours:  # each walk as if it were the first
                getattr(found, "cache_clear", tuple)()
            made.clear()
            paths, calls = walk(arguments, rooms)
            climbs = {f"{low} -> {high}" for low, high in calls if level(low) < level(high)}
            files = {str(Path(path).relative_to(house.SRC / house.NAME)) for path in paths}
            print(f"{title:<16}{len(files):>7}{len(made):>9}{len(climbs):>8}")
            for what, names in (("files", files), ("records", made), ("climbs", climbs)):
                print(f"  {what}: {', '.join(sorted(names))}\n" if wordy else "", end="")


if __name__ == "__main__":
    main()
