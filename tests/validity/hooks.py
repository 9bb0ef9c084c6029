"""The options and the fixture of claims for pytest; ``tests/conftest.py`` takes them over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from miaudit.causal import cores
from validity import shards
from validity.claims import Claims
from validity.shards import Shard

_SECONDS = "processor seconds of claims"
_MEASURED = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("validity", "claims about error rates (tests marked validity)")
    group.addoption("--shard", type=_shard, help="run only the claims of one shard, as in 3/12")
    group.addoption("--validity-seed", default="0", help="seed of the claims, hexadecimal (default: %(default)s)")
    group.addoption("--replicates", type=int, help="run so many replicates of each statement and print the rates")
    group.addoption("--write-seconds", type=Path, metavar="FILE", help="add the seconds that claims took to a table")


def _shard(text: str) -> Shard:
    try:
        return Shard.of(text)
    except ValueError as wrong:
        raise pytest.UsageError(str(wrong)) from wrong


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_MEASURED] = {}
    config.pluginmanager.register(_Stopwatch(config), "validity-stopwatch")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out claims of other shards, and start with the dearest; what is no claim stays, for ``-m`` to choose."""
    shard: Shard | None = config.getoption("--shard")
    if shard is None:
        return
    seconds = shards.table()
    known = shards.assigned(seconds, shard.total)
    others = [
        item
        for item in items
        if item.get_closest_marker("validity") and shards.shard_of(item.nodeid, known, shard.total) != shard.number
    ]
    left_out = set(others)
    kept = (item for item in items if item not in left_out)
    items[:] = sorted(kept, key=lambda item: -seconds.get(item.nodeid, 0.0))  # so that two processes end together
    config.hook.pytest_deselected(items=others)


class _Stopwatch:
    """Collects how long claims took; with pytest-xdist in the process that gets the reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get(_SECONDS)
        if report.when == "teardown" and isinstance(seconds, float):
            self.config.stash[_MEASURED][report.nodeid] = seconds

    def pytest_sessionfinish(self) -> None:
        path: Path | None = self.config.getoption("--write-seconds")
        if path is None or hasattr(self.config, "workerinput"):
            return
        seconds = shards.table(path) if path.is_file() else {}
        seconds |= {name: round(value, 1) for name, value in self.config.stash[_MEASURED].items()}
        lines = [f"  {json.dumps(name)}: {value}" for name, value in sorted(seconds.items())]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Iterator[Claims]:
    """Sequential tests of this test's statements; at least one of them has to be a control that fails."""
    seed, replicates = (request.config.getoption(name) for name in ("--validity-seed", "--replicates"))
    claims = Claims(request.node.nodeid, int(seed, 16), replicates)
    start = time.process_time()  # and not of the clock, since other programs may run
    # One claim runs on one core; and scikit-learn's threads of boosting reset the process's filters of warnings.
    with mock.patch.object(cores, "available", return_value=1):
        yield claims
    request.node.user_properties.append((_SECONDS, time.process_time() - start))
    assert claims.controls, "a claim needs a control that has to be rejected"
