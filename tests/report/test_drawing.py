"""Charts are drawn in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import miaudit as ma
from miaudit.report import drawing
from report.test_audit_charts import charts_of, findings

N = 600


ADDRESSES = 16_000_000 * 1024  # ulimit -v 16000000


AUDIT = ("audit", "scores.npz", "--score", "score", "--member", "member", "--design", "one-run", "--no-bounds")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    member = np.arange(N) % 2 == 0
    np.savez(tmp_path / "scores.npz", score=rng.normal(size=N) + 3.0 * member, member=member)
    return tmp_path


def limited(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({ADDRESSES}, {ADDRESSES}))\n"
        "from miaudit.command.program import main\nmain()"
    )
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold processes to the limit")
def test_without_addresses_to_draw_with_the_findings_survive(place: Path) -> None:
    ran = limited(place, *AUDIT, "--out", "out")
    assert ran.returncode == 3, ran.stderr
    lines = ran.stderr.splitlines()
    assert len(lines) == 1 and "ulimit -v" in lines[0] and "miaudit report" in lines[0]
    assert sorted(path.name for path in (place / "out").iterdir()) == ["findings.json", "report.html"]
    found = json.loads((place / "out" / "findings.json").read_text())
    assert found["verdict"]["status"] == "flagged"
    page = (place / "out" / "report.html").read_text()
    assert "above the limit" in page and "without its figures" in page and "<figure" not in page
    before = {path.name: path.read_bytes() for path in (place / "out").iterdir()}
    again = limited(place, "report", "out", "--overwrite")
    assert again.returncode == 1 and len(again.stderr.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in (place / "out").iterdir()} == before


@pytest.mark.long
def test_what_is_drawn_in_a_process_of_its_own_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from miaudit.report import drawing

    spec = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}}}
    here = drawing.svg(spec), drawing.png(spec)
    monkeypatch.setattr(drawing, "_limit", lambda: 1 << 50)
    assert (drawing.svg(spec), drawing.png(spec)) == here


SPEC = {"data": {"values": [{"a": 2}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}}}


@pytest.mark.thorough
@pytest.mark.long
def test_what_is_drawn_ahead_is_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_renderers", {})
    drawing._answer.cache_clear()
    here = drawing.svg(SPEC), drawing.png(SPEC), drawing.program()
    assert not drawing._renderers
    drawing._answer.cache_clear()
    drawing.program.cache_clear()
    drawing.prepare()
    (renderer,) = drawing._renderers.values()
    drawing.draw_ahead([SPEC], pictures=True)
    asked = drawing._answer.cache_info().misses
    assert (drawing.svg(SPEC), drawing.png(SPEC), drawing.program()) == here
    assert drawing._answer.cache_info().misses == asked  # nothing was drawn twice
    renderer._end()  # a process that is killed is no loss where addresses are not limited
    drawing._answer.cache_clear()
    assert drawing.svg(SPEC) == here[0]
    with pytest.raises(ValueError, match="failed"):
        drawing.svg({**SPEC, "mark": "nothing"})


@pytest.mark.long
def test_png():
    assert drawing.png(charts_of(findings())["verdict"].to_dict()).startswith(b"\x89PNG")


@pytest.mark.thorough
@pytest.mark.long
def test_an_extreme_curve_can_be_drawn():
    member = np.arange(400) % 2 == 0
    for score in (member.astype(float), 1.0 - member, np.zeros(400)):
        evidence = ma.Evidence(score=score, member=member, design="one-run")
        for chart in charts_of(ma.audit(evidence, rng=np.random.default_rng(0)).to_dict()).values():
            assert "NaN" not in drawing.svg(chart.to_dict())


@pytest.mark.long
def test_a_figure_says_what_it_shows() -> None:
    chart = charts_of(findings())["verdict"].to_dict()
    root = ElementTree.fromstring(drawing.svg({**chart, "description": "a < b & c"}))
    names = [(child.tag.rpartition("}")[2], child.text) for child in root][:2]
    assert names == [("title", " ".join(chart["title"]["text"])), ("desc", "a < b & c")]
    assert root.get("role") == "img"
    bare = {key: part for key, part in chart.items() if key != "title"}
    assert "<desc>" not in drawing.svg(bare)


@pytest.mark.long
def test_a_picture_is_what_the_renderer_makes_of_the_specification() -> None:
    import vl_convert

    chart = charts_of(findings())["roc-linear"].to_dict()
    unseen = [layer for layer in chart["layer"] if layer["mark"].get("opacity") == 0]
    assert len(unseen) == 1  # circles for the pointer, which a picture does without
    assert drawing.png(chart) == vl_convert.vegalite_to_png(json.dumps(chart), scale=2.0, allowed_base_urls=[])
    vector = drawing.svg(chart)
    assert 'opacity="0"' not in vector
    unseen[0]["mark"]["opacity"] = 0.2
    assert len(drawing.svg(chart)) > 1.5 * len(vector)  # what can be seen is not left out
