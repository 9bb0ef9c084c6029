"""What a list says of findings is what their whole record says."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from frozen import make
from miaudit.findings import kinds
from miaudit.findings.audit import Findings
from miaudit.findings.entry import entry
from miaudit.metrics.definition import label

NAMES = sorted(make.KEPT)


def held(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(make.sample(name))
    return content


@pytest.mark.parametrize("name", NAMES)
def test_it_agrees_with_the_record(name: str) -> None:
    content = held(name)
    found, record = entry(name, content), kinds.from_dict(content)
    assert (found.name, found.kind, found.exit_code) == (name, record.KIND, record.exit_code)
    verdict: Any = getattr(record, "verdict", None)
    assert found.status == getattr(verdict, "status", getattr(record, "status", ""))
    if not isinstance(record, Findings):
        text: Any = getattr(verdict, "text", getattr(record, "text", None))
        assert found.said and found.said[1:].rstrip("…") in (text if isinstance(text, str) else text[0])
        assert (found.metric, found.value, found.high) == ("", None, None)
        return
    assert found.metric == record.verdict.metric and found.said.startswith(f"{label(found.metric)}: ")
    causal = [m for m in record.metrics if m.name == found.metric and not record.is_raw(m)]
    if record.design == "zero-run" and not causal:
        assert found.high is None and found.said.endswith(("not measured", "raw, not causal"))
    else:
        first = next(m for m in record.metrics if m.name == found.metric)
        assert (found.value, found.low, found.high) == (first.value, first.low, first.high)
        assert first.reading in found.said


def test_of_a_table_the_verdict_that_decides_is_listed() -> None:
    content = held("table")
    quiet = {**content, "verdict": {**content["verdict"], "status": "inconclusive"}, "exit_code": 3}
    quiet["membership"] = {
        **content["membership"],
        "verdict": {**content["membership"]["verdict"], "status": "flagged"},
    }
    assert entry("a", quiet).status == "flagged"
    assert entry("a", quiet).said.endswith(quiet["membership"]["verdict"]["text"].removeprefix("Concern: ")[1:])


def test_a_stated_model_and_date_are_listed() -> None:
    content = held("one-run")
    assert (entry("a", content).subject, entry("a", content).date) == ("t.npz", "")
    said = entry("a", {**content, "about": {"model": "scorer", "version": "2", "date": "2026-03-01"}})
    assert (said.subject, said.version, said.date) == ("scorer", "2", "2026-03-01")
    none = entry("a", {**content, "about": {"model": None, "version": None, "date": None}})
    assert (none.subject, none.version, none.date) == ("t.npz", "", "")


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": None},
        {"verdict": {"metric": "auc", "status": 3}},
        {"metrics": [{"name": "auc", "value": "high"}]},
        {"metrics": 7},
        {"exit_code": True},
        {"exit_code": "3"},
        {"scores": [{}]},
        {"evidence": {"source": ["t"]}},
        {"about": {"date": 5}},
        {"about": "x"},
        {"kind": ["audit"]},
        {"kind": 7},
    ],
    ids=str,
)
def test_what_are_no_findings_is_refused(change: dict[str, Any]) -> None:
    content = copy.deepcopy(held("one-run")) | change
    with pytest.raises(ValueError, match="no findings"):
        entry("a", content)
