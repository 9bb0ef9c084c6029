"""The modules of an experiment, by the ``FOLDER`` and ``MODULES`` that a file of tests names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the experiment, by name; other experiments have modules of the same names.

    ``EXTRA`` names a library without which they are skipped.
    """
    names = request.module.MODULES
    if extra := getattr(request.module, "EXTRA", ""):
        pytest.importorskip(extra, reason=f"the extra `{extra}`")
    monkeypatch.syspath_prepend(str(request.module.FOLDER))
    hidden = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
