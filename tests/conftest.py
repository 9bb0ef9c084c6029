from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import settings

from miaudit.command import program
from validity.hooks import (  # noqa: F401 - pytest finds hooks and fixtures here
    claim,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
)

# The same examples in every run: a suite that fails one time in a hundred teaches people to run it again.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; return exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["miaudit", *map(str, arguments)])
        capsys.readouterr()
        try:
            program.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
