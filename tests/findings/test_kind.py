"""Files of every kind: what is read is written again to the byte, and what does not follow a schema is refused."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from miaudit.errors import InputError, OutputError
from miaudit.findings.kinds import KINDS, from_dict
from miaudit.report import kinds

FILES = {
    path.name.removesuffix(".json.gz"): path
    for path in sorted((Path(__file__).parents[1] / "frozen" / "files" / "findings").glob("*.json.gz"))
}
# What holds keys of any name: options, versions, public facts, counts, names of attacks and of metrics.
FREE = ("plan", "repeat", "counts", "tried", "leakage", "generator", "evidence", "predictions", "difference", "bet")
Place = tuple[str | int, ...]


@cache
def text(name: str) -> str:
    return gzip.decompress(FILES[name].read_bytes()).decode()


def one_of_each() -> list[str]:
    return list({json.loads(text(name)).get("kind", "audit"): name for name in FILES}.values())


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place whose keys are known, of a list the first and the last item."""
    yield place
    if isinstance(value, dict) and not {*place} & {*FREE}:
        for key, inner in value.items():
            yield from places(inner, (*place, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} if value else ()):
            yield from places(value[i], (*place, i))


def at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def broken(content: Any) -> Iterator[tuple[str, Any]]:
    """The same with a key left out, a key too many, or a value of another type, each at every place."""
    for place in places(content):
        *above, last = place or ("",)
        value = at(content, place)
        known = not {*place} & {*FREE}
        changes: dict[str, Any] = {}
        if isinstance(value, dict) and known:
            changes["a key too many"] = {**value, "surprise": 1}
        if place:
            changes["another type"] = [[value]] if not isinstance(value, list) else {"x": value}
            changes["text or number"] = 1.5 if isinstance(value, str) else "1.5"
        for what, changed in changes.items():
            found = copy.deepcopy(content)
            if place:
                at(found, tuple(above))[last] = changed
            yield f"{what} at {place}", found if place else changed
        if isinstance(last, str) and place:
            found = copy.deepcopy(content)
            del at(found, tuple(above))[last]
            yield f"no {place}", found


@pytest.mark.parametrize("name", FILES)
def test_what_is_read_is_written_again(name: str) -> None:
    found = from_dict(json.loads(text(name)))
    assert found.to_json() == text(name)
    assert found.as_written() == found


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_files_follow_the_schema_that_is_made_of_the_records(name: str) -> None:
    content = json.loads(text(name))
    schema = KINDS[content.get("kind", "audit")].findings.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(content)] == []
    assert not validator.is_valid({**content, "surprise": 1})
    for key in content:
        assert not validator.is_valid({k: v for k, v in content.items() if k != key})


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", one_of_each())
def test_what_does_not_follow_it_is_refused_wherever_it_stands(name: str) -> None:
    content = json.loads(text(name))
    read = []
    for what, changed in broken(content):
        try:
            from_dict(changed)
        except InputError as error:
            assert error.next_step
        else:
            read.append(what)
    assert not read


def test_an_exit_code_that_does_not_follow_is_refused() -> None:
    content = json.loads(text(one_of_each()[0]))
    with pytest.raises(InputError, match="exit_code"):
        from_dict({**content, "exit_code": {0: 3, 3: 0, 4: 0}[content["exit_code"]]})


@pytest.mark.long
def test_pydantic_is_loaded_where_findings_are_read() -> None:
    program = "import sys, miaudit; sys.exit('pydantic' in sys.modules or 'jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def found(name: str) -> Any:
    return from_dict(json.loads(text(name)))


@pytest.mark.parametrize("name", FILES)
def test_findings_of_every_kind_fit_a_screen_and_a_line(name: str) -> None:
    findings = found(name)
    lines = str(findings).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert "\n" not in repr(findings)
    assert len(repr(findings)) < 130
    assert f"(exit code {findings.exit_code}: " in repr(findings)


@pytest.mark.parametrize("name", one_of_each())
def test_a_frame_holds_the_numbers_of_the_file(name: str) -> None:
    findings, content = found(name), json.loads(text(name))
    frame = findings.to_frame()
    known = set(numbers(content))
    assert {x for x in frame["value"].to_list() if x is not None} <= known
    assert {x for x in frame["low"].to_list() if x is not None} <= known
    assert not frame.is_empty() or findings.KIND in ("verification", "synthesis")  # which may be words alone
    other = findings.to_frame("pandas")
    assert list(other.columns) == frame.columns == list(HEAD)
    assert len(other) == frame.height
    with pytest.raises(InputError, match="did you mean pandas"):
        findings.to_frame("panda")


HEAD = ("kind", "score", "name", "estimator", "value", "low", "high", "standard_error", "delta", "confidence", "note")


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers(one)
    elif isinstance(value, int | float):
        yield float(value)


@pytest.mark.long
@pytest.mark.parametrize("name", one_of_each())
def test_a_chart_of_the_page_is_one_of_altair(name: str) -> None:
    findings = found(name)
    charts = kinds.charts(findings)
    if not charts:
        with pytest.raises(InputError, match="findings with a chart"):
            findings.plot()
        return
    last = list(charts)[-1]
    assert findings.plot(last).to_dict(validate=False) == charts[last].to_dict(validate=False)
    with pytest.raises(InputError, match=last):
        findings.plot("nothing of the kind")


@pytest.mark.long
def test_the_chart_that_is_meant_may_be_named_in_short() -> None:
    audit = found("one-run")
    assert audit.plot("roc").to_dict() == audit.plot().to_dict()
    assert audit.plot("dist").to_dict()["description"] != audit.plot().to_dict()["description"]


@pytest.mark.long
def test_a_page_is_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    audit, page = found("one-run"), tmp_path / "made" / "page.html"
    audit.to_html(page)
    page.write_text("mine")
    with pytest.raises(InputError, match=r"page\.html, which is there; name another, or pass overwrite=True"):
        audit.to_html(str(page))
    assert page.read_text() == "mine"
    audit.to_html(page, overwrite=True)
    assert "<html" in page.read_text()
    assert [one.name for one in page.parent.iterdir()] == ["page.html"]
    with pytest.raises(InputError, match=r"made, a folder; pass '.*report\.html'"):
        audit.to_html(page.parent, overwrite=True)
    with pytest.raises(OutputError, match="a file stands where its folder should be"):
        audit.to_html(page / "below.html")
