"""The folder of an audit: whole or not at all, and nobody else's files."""

import json
import os
from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.errors import OutputError
from miaudit.findings.audit import Findings
from miaudit.report import audit_charts, audit_page, drawing, kinds


class Drawn:
    def __init__(self, name, content):
        self.spec = {"description": f"{name}: {content.verdict.text}"}

    def to_dict(self, **_):
        return self.spec


def drawn(content):
    names = ("verdict", "roc-log", "roc-linear", "distribution", *(["groups"] if content.groups else []))
    return {name: Drawn(name, content) for name in names}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Drawing is tested elsewhere."""
    monkeypatch.setattr(audit_charts, "charts", drawn)
    monkeypatch.setattr(drawing, "png", lambda spec: b"\x89PNG" + spec["description"].encode())
    monkeypatch.setattr(drawing, "svg", lambda spec: f"<svg>{spec['description']}</svg>")
    monkeypatch.setattr(drawing, "draw_ahead", lambda specs, **_: None)
    monkeypatch.setattr(audit_page, "page", lambda content, built=None: f"<html>{content.verdict.text}")


@cache
def audit(gap=1.0, group=False):
    rng = np.random.default_rng(0)
    member = np.arange(400) % 2 == 0
    groups = np.arange(400) // 2 % 2 if group else None
    evidence = ma.Evidence(score=rng.normal(size=400) + gap * member, member=member, design="one-run", group=groups)
    return ma.audit(evidence, rng=rng)


def contents(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def test_a_new_folder_holds_all_of_it(tmp_path):
    out = tmp_path / "results" / "audit"
    found = audit(group=True)
    kinds.write(found, out, overwrite=False)
    drawings = [f"figures/{name}.{kind}" for name in audit_charts.charts(found) for kind in ("png", "svg")]
    assert sorted(contents(out)) == sorted(["findings.json", "report.html", *drawings])
    assert Findings.read(out / "findings.json") == Findings.from_dict(found.to_dict())
    assert [p.name for p in out.iterdir() if p.name.startswith(".")] == []


def test_charts_are_built_once_for_the_page_and_the_figures(tmp_path, monkeypatch):
    calls, taken = [], []
    monkeypatch.setattr(audit_charts, "charts", lambda content: calls.append(content) or drawn(content))
    monkeypatch.setattr(audit_page, "page", lambda content, built=None, files=False: taken.append((built, files)) or "")
    found = audit()
    kinds.write(found, tmp_path)
    (built, files) = taken[0]
    assert len(calls) == len(taken) == 1 and files and not built.missing
    assert dict(built.specs) == {name: one.to_dict() for name, one in drawn(found).items()}
    monkeypatch.setattr(audit_page, "page", lambda content: str(len(charts_of_its_own(content))))
    charts_of_its_own = lambda content: audit_charts.charts(content)  # noqa: E731
    kinds.write(found, tmp_path, overwrite=True)  # a page that takes no charts builds them again
    assert len(calls) == 3


def test_without_figures_nothing_is_drawn_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(audit_charts, "charts", lambda content: pytest.fail("built"))
    monkeypatch.setattr(drawing, "_ahead", lambda *_: pytest.fail("drawn"))
    found = audit()
    assert kinds.write(found, tmp_path, figures=False) == ""
    assert sorted(contents(tmp_path)) == ["findings.json", "report.html"]
    page = (tmp_path / "report.html").read_text()
    assert "run without figures" in page and "<figure" not in page and found.verdict.word in page


def test_figures_that_were_left_out_are_drawn_later_and_go_again(tmp_path):
    kinds.write(audit(), tmp_path, figures=False)
    kinds.rerender(audit(), tmp_path, overwrite=True)
    assert (tmp_path / "figures" / "verdict.png").is_file()
    kinds.write(audit(), tmp_path, overwrite=True, figures=False)
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("name", ["findings.json", "report.html", "figures"])
def test_an_earlier_audit_is_not_replaced_unasked(tmp_path, name):
    kinds.write(audit(), tmp_path, overwrite=False)
    before = contents(tmp_path)
    for attempt in (
        lambda: kinds.check_free(tmp_path, overwrite=False),
        lambda: kinds.write(audit(), tmp_path, overwrite=False),
    ):
        with pytest.raises(OutputError, match=rf"{name}.*--overwrite or choose another --out"):
            attempt()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["mine", "[1, 2]", '{"format": "xlsx"}', "[" * 100_000])
@pytest.mark.parametrize("name", ["findings.json", "report.html", "synthetic.csv", "synthetic.json"])
def test_a_file_of_somebody_else_is_never_replaced(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    released = name.startswith("synthetic")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=rf"{name} was not written by miaudit; move it"):
            kinds.check_free(tmp_path, overwrite=overwrite, released=released)
        if not released:
            with pytest.raises(OutputError, match="was not written by miaudit"):
                kinds.write(audit(), tmp_path, overwrite=overwrite)
    assert contents(tmp_path) == before
    kinds.check_free(tmp_path / "another", released=released)


def test_overwriting_replaces_the_audit_and_nothing_else(tmp_path):
    kinds.write(audit(group=True), tmp_path, overwrite=False)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "figures" / "photo.png").write_text("mine")
    assert (tmp_path / "figures" / "groups.svg").exists()
    found = audit(gap=3.0)
    kinds.write(found, tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "figures" / "photo.png").read_text() == "mine"
    assert not (tmp_path / "figures" / "groups.svg").exists()
    assert json.loads((tmp_path / "findings.json").read_text()) == found.to_dict()


def test_a_folder_with_other_files_is_free(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    kinds.check_free(tmp_path, overwrite=False)


@pytest.mark.parametrize("where", ["pictures.svg", "html.page"])
def test_killed_while_drawing(tmp_path, monkeypatch, where):
    out = tmp_path / "out"
    module, name = (drawing, "svg") if where == "pictures.svg" else (audit_page, "page")

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, name, killed)
        kinds.write(audit(), out, overwrite=False)
    assert not out.exists()
    kinds.write(audit(), out, overwrite=False)
    before = contents(out)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, name, killed)
        kinds.write(audit(gap=3.0), out, overwrite=True)
    assert contents(out) == before


@pytest.mark.parametrize("survives", range(0, 24, 3))
def test_stopped_while_files_are_moved(tmp_path, monkeypatch, survives):
    """In the working directory, which cannot be exchanged for another."""
    monkeypatch.chdir(tmp_path)
    kinds.write(audit(group=True), tmp_path, overwrite=False)
    before = contents(tmp_path)
    move, moved = os.replace, []

    def fragile(source, target):
        moved.append(target)
        if len(moved) == survives + 1:
            raise KeyboardInterrupt
        return move(source, target)

    monkeypatch.setattr(os, "replace", fragile)
    with pytest.raises(KeyboardInterrupt):
        kinds.write(audit(gap=3.0), tmp_path, overwrite=True)
    assert len(moved) > survives
    assert contents(tmp_path) == before


def test_where_files_are_moved_findings_leave_first_and_come_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds.write(audit(), tmp_path, overwrite=False)
    move, moved = os.replace, []

    def noted(source, target):
        moved.append(target.name)
        return move(source, target)

    monkeypatch.setattr(os, "replace", noted)
    kinds.write(audit(), tmp_path, overwrite=True)
    assert moved[0] == moved[-1] == "findings.json" and moved[-2] == "report.html"


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="is a file"):
            kinds.check_free(out, overwrite=True)
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"report\.html is in the way"):
        kinds.check_free(tmp_path / "out", overwrite=True)


def test_figures_behind_a_link_are_not_replaced(tmp_path):
    kinds.write(audit(), tmp_path / "out", overwrite=False)
    (tmp_path / "out" / "figures").rename(tmp_path / "elsewhere")
    (tmp_path / "out" / "figures").symlink_to(tmp_path / "elsewhere")
    before = {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
    for call in (kinds.check_free, lambda out, **options: kinds.write(audit(gap=3.0), out, **options)):
        with pytest.raises(OutputError, match="figures is in the way"):
            call(tmp_path / "out", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()} == before


def test_a_release_takes_the_place_of_an_earlier_one_with_its_findings(tmp_path):
    def fill(folder, text="new"):
        (folder / "synthetic.csv").write_text(text)
        (folder / "synthetic.json").write_text('{"format": 1}')

    kinds.write(audit(), tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "synthetic.parquet").touch()
    (tmp_path / "synthetic.json").write_text('{"format": 1}')
    with pytest.raises(OutputError, match="holds an earlier audit"):
        kinds.place_release(fill, tmp_path)
    entered = []
    kinds.place_release(fill, tmp_path, overwrite=True, enter=lambda: entered.append(1))
    assert {path.name for path in tmp_path.iterdir()} == {"synthetic.csv", "synthetic.json", "notes.txt"}
    kinds.write(audit(), tmp_path)
    assert (tmp_path / "synthetic.csv").read_text() == "new"

    def refuses():
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        kinds.place_release(lambda folder: fill(folder, "newer"), tmp_path, overwrite=True, enter=refuses)
    assert (tmp_path / "synthetic.csv").read_text() == "new" and (tmp_path / "findings.json").exists()


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="cannot be written"):
        kinds.check_free(tmp_path / "new" / "out", overwrite=False)


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kinds.Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        kinds.write(audit(), tmp_path / "out", overwrite=False)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_drawn_again_beside_the_findings(tmp_path):
    found = audit()
    (tmp_path / "findings.json").write_text(found.to_json(), encoding="utf-8")
    before = (tmp_path / "findings.json").read_bytes()
    kinds.rerender(Findings.read(tmp_path / "findings.json"), tmp_path, overwrite=False)
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "findings.json").read_bytes() == before
    with pytest.raises(OutputError, match="--overwrite"):
        kinds.rerender(found, tmp_path, overwrite=False)
    kinds.rerender(found, tmp_path, overwrite=True)


def test_drawn_again_elsewhere(tmp_path):
    found = audit()
    kinds.rerender(found, tmp_path / "copy", overwrite=False)
    assert (tmp_path / "copy" / "findings.json").read_text(encoding="utf-8") == found.to_json()
    with pytest.raises(OutputError):
        kinds.rerender(audit(gap=2.0), tmp_path / "copy", overwrite=False)


@pytest.mark.long
def test_every_chart_has_its_place_in_the_folder(monkeypatch):
    monkeypatch.undo()
    assert set(audit_charts.charts(audit(group=True))) <= set(kinds.figures("audit"))
