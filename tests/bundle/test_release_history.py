"""The audits of one model in a folder: their order, what is refused, and whether memberships are fresh."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from findings.test_budget import release
from miaudit.bundle import record
from miaudit.bundle.release_history import history
from miaudit.errors import InputError
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.comparison import compare

PLAN = ma.Plan(limits={"auc": 0.6}, bounds=None)


def write(place: Path, findings: Any) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(findings.to_json())
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three releases whose names are not in the order of their dates."""
    for name, month in (("z", 1), ("m", 2), ("a", 3)):
        write(tmp_path / "audits" / name / "findings.json", release(month, 0.4))
    return tmp_path / "audits"


def test_the_order_is_that_of_the_dates(folder: Path) -> None:
    life = history(folder, budget=0.05)
    assert [audit.name for audit in life.audits] == ["z", "m", "a"]
    assert life.budget is not None and [one.date[5:7] for one in life.budget.releases] == ["01", "02", "03"]
    assert life.exit_code == 0 and life.budget.memberships == "shared"
    assert ma.history(folder, budget=0.05).to_dict() == life.to_dict()


def test_files_and_folders_and_single_audits_are_one_history(folder: Path, tmp_path: Path) -> None:
    write(folder / "v9.json", release(4, 1e-6))
    newest = write(tmp_path / "next" / "findings.json", release(5, 0.4)).parent
    write(folder / "compared" / "findings.json", compare(release(1), release(2)))
    (folder / ".hidden").mkdir()
    (folder / "b.key.json").write_text("{}")
    (folder / "notes.txt").write_text("nothing")
    (folder / "link").symlink_to(newest)
    life = history(folder, newest, newest, budget=0.05)
    assert [audit.name for audit in life.audits] == ["z", "m", "a", "v9", "next"]
    assert life.budget is not None and [one.alarm for one in life.budget.releases] == [False] * 3 + [True, False]
    assert "Not counted: compared, which holds findings of kind comparison." in life.budget.cautions


def test_one_release_begins_a_history(tmp_path: Path) -> None:
    life = history(write(tmp_path / "v1.json", release(1, 1e-9)), budget=0.05)
    assert life.exit_code == 3 and life.changes == ()


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        (release(4, 0.4, date=None), "date: expected a date YYYY-MM-DD in every audit, received none in new.json"),
        (release(4, 0.4, date="last May"), "received 'last May' in new.json"),
        (release(4, 0.4, model="other"), "history: expected audits of one model, received"),
        (release(4, 0.4, model=None), "received"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_ordered_is_refused_in_one_line(folder: Path, findings: Findings, words: str) -> None:
    write(folder / "new.json", findings)
    with pytest.raises(InputError) as refused:
        history(folder, budget=0.05)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "content"), [("b.zip", "no bundle"), ("x.json", "{"), ("y.json", '{"format": 7}')])
def test_a_broken_audit_is_never_left_out_in_silence(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(InputError, match="history: expected audits that can be read") as refused:
        history(folder, budget=0.05)
    assert name in str(refused.value) and "\n" not in str(refused.value)


def test_a_kind_or_a_time_that_is_none_is_refused(folder: Path) -> None:
    (folder / "odd.json").write_text('{"kind": 3}')
    with pytest.raises(InputError, match="kind: expected a name, received 3"):
        history(folder, budget=0.05)
    write(folder / "odd.json", replace(release(5), about=About(date="2026-05-01T99:99")))
    with pytest.raises(InputError, match="date: expected a date"):
        history(folder, budget=0.05)


def test_no_audit_and_options_out_of_range_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    options: list[tuple[Any, dict[str, Any], str]] = [
        (tmp_path / "empty", {"budget": 0.05}, "a folder with audits"),
        (tmp_path / "nowhere", {"budget": 0.05}, "does not exist"),
        (folder, {"budget": 1.5}, "budget"),
        (folder, {"budget": 0.05, "memberships": "new"}, "memberships"),
    ]
    for place, more, words in options:
        with pytest.raises(InputError, match=words):
            history(place, **more)


def test_declared_memberships_are_believed_unless_the_audits_show_otherwise(folder: Path) -> None:
    life = history(folder, budget=0.05, memberships="fresh")
    assert life.budget is not None and life.budget.memberships == "fresh" and "Declared" in life.budget.basis
    again = release(4, 0.3)
    write(folder / "same.json", replace(again, evidence=release(3).evidence))
    with pytest.raises(InputError, match="a and same have the same evidence"):
        history(folder, budget=0.05, memberships="fresh")
    life = history(folder, budget=0.05)
    assert life.budget is not None and "a and same have the same evidence." in life.budget.basis
    write(folder / "same.json", replace(again, design="zero-run"))
    with pytest.raises(InputError, match="same has the design zero-run"):
        history(folder, budget=0.05, memberships="fresh")


def bundled(place: Path, month: int, member: np.ndarray, rng: np.random.Generator) -> None:
    person = np.array([f"p{i}" for i in range(len(member))])
    score = rng.normal(size=len(member))
    evidence = ma.Evidence(score=score, member=member, unit=person, design="one-run")
    examined, bundle, _ = record(evidence, plan=PLAN, rng=np.random.default_rng(month))
    bundle.write(place)
    about = About(model="triage", date=f"2026-{month:02}-01")
    write(place.with_suffix("") / "findings.json", replace(examined.findings, about=about))


@pytest.mark.long
def test_bundles_show_whether_members_repeat(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(400) < 0.5, rng.random(400) < 0.5
    for name, members in (("shared", (first, first)), ("opposite", (first, ~first)), ("fresh", (first, second))):
        (tmp_path / name).mkdir()
        for month, member in enumerate(members, 1):
            bundled(tmp_path / name / f"v{month}.zip", month, member, rng)
    life = history(tmp_path / "fresh", budget=0.05, memberships="fresh")
    assert life.budget is not None and life.budget.memberships == "fresh"
    for name, same in (("shared", 400), ("opposite", 0)):
        with pytest.raises(InputError, match=f"v1 and v2 have 400 records in common, and {same} of these"):
            history(tmp_path / name, budget=0.05, memberships="fresh")
        found = history(tmp_path / name, budget=0.05).budget
        assert found is not None and found.memberships == "shared" and "records in common" in found.basis
    # a bundle and its results folder are one audit, and a bundle alone has no date
    assert [audit.name for audit in life.audits] == ["v1", "v2"]
    shutil.rmtree(tmp_path / "fresh" / "v2")
    with pytest.raises(InputError, match=r"received none in v2\.zip; .* beside it"):
        history(tmp_path / "fresh", budget=0.05)
