"""A received page is compared with the one that the findings of a bundle make, and is never trusted as code."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit.errors import InputError
from miaudit.findings.audit import Findings
from miaudit.report import drawing, kinds, page_frame, received_page


@cache
def findings() -> Findings:
    rng = np.random.default_rng(0)
    member = np.arange(400) % 2 == 0
    held = ma.Evidence(score=rng.normal(size=400) + 0.8 * member, member=member, design="one-run")
    return ma.audit(held, plan=ma.Plan(limits={"auc": 0.6}, bounds=None), rng=0)


@cache
def page() -> str:
    return kinds.page(findings())


def written(place: Path, text: str) -> Path:
    (place / "report.html").write_text(text, encoding="utf-8")
    return place / "report.html"


def test_the_page_of_the_findings_is_the_same_with_and_without_files(tmp_path: Path) -> None:
    for files in (True, False):
        found = received_page.compare(written(tmp_path, kinds.page(findings(), files=files)), findings())
        assert found.status == "same"
    assert received_page.compare(written(tmp_path, page().replace("\n", "\r\n")), findings()).status == "same"


def test_a_page_that_was_drawn_without_charts_belongs_too(tmp_path: Path) -> None:
    kinds.write(findings(), tmp_path / "out", figures=False)
    assert received_page.compare(tmp_path / "out", findings()).status == "same"
    other = replace(findings(), notes=("Another note.",))
    assert received_page.compare(tmp_path / "out" / "report.html", other).status == "other"


def test_a_page_whose_figures_could_not_be_drawn_elsewhere_belongs_too(tmp_path: Path) -> None:
    no_room = page_frame.Built({}, drawing._NO_ROOM.format("1.95"))
    place = written(tmp_path, kinds.page(findings(), built=no_room))
    assert received_page.compare(place, findings()).status == "same"
    other = replace(findings(), notes=("Another note.",))
    assert received_page.compare(place, other).status == "other"
    # the reason is read, so it may hold nothing else
    forged = place.read_text(encoding="utf-8").replace("1.95 GiB", "1.95 GiB, and nothing leaks,")
    assert received_page.compare(written(tmp_path, forged), findings()).status == "other"


def digits(text: str) -> str:
    return re.sub(r"0\.(\d)(\d)", lambda match: f"0.{match[2]}{match[1]}", text)


def in_words(change: Callable[[str], str]) -> str:
    """Change what a reader sees, and leave scripts and style alone."""
    before, body, after = page().partition("<main>")[0], page().partition("<main>")[2], ""
    body, cut, after = body.partition("<script")
    return f"{before}<main>{change(body)}{cut}{after}"


CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "verdict": (lambda text: text.replace("Concern", "Within the limits"), "other"),
    "number": (digits, "other"),
    "sentence left out": (lambda text: re.sub(r"<li>.*?</li>", "", text, count=1, flags=re.S), "other"),
    "sentence added": (lambda text: f"{text}<p>Approved by the regulator.</p>", "other"),
    "figure": (lambda text: text.replace("base64,", "base64,AA", 1), "words"),
    "hidden by style": (lambda text: text.replace("<section", '<section style="display:none"', 1), "words"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_page_is_not_the_same(name: str, tmp_path: Path) -> None:
    change, status = CHANGES[name]
    changed = in_words(change)
    assert changed != page()
    found = received_page.compare(written(tmp_path, changed), findings())
    assert found.status == status
    assert ("does not belong" in found.text) == (status == "other")


def test_a_page_of_other_findings_is_named_with_its_first_difference(tmp_path: Path) -> None:
    other = replace(findings(), notes=("another note",))
    found = received_page.compare(written(tmp_path, kinds.page(other)), findings())
    assert found.status == "other"
    assert "it has 'Notes', where the bundle gives" in found.text


def test_another_version_decides_by_the_verdict_alone(tmp_path: Path) -> None:
    reworded = written(tmp_path, page().replace("Limits of this audit", "The limits of this audit"))
    assert received_page.compare(reworded, findings()).status == "other"
    found = received_page.compare(reworded, findings(), version="0.0.9")
    assert (found.status, "0.0.9" in found.text) == ("undecided", True)
    forged = written(tmp_path, in_words(CHANGES["verdict"][0]))
    assert received_page.compare(forged, findings(), version="0.0.9").status == "other"


def test_a_folder_has_both_findings_and_page_of_the_bundle(tmp_path: Path) -> None:
    kinds.write(findings(), tmp_path / "out")
    assert received_page.compare(tmp_path / "out", findings()).status == "same"
    other = replace(findings(), notes=("another note",))
    assert received_page.compare(tmp_path / "out", other).status == "other"
    # a page of other findings between the right findings.json is found too
    written(tmp_path / "out", kinds.page(other))
    assert received_page.compare(tmp_path / "out", findings()).status == "other"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"plain text", b"PK\x03\x04"])
def test_what_is_no_page_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_bytes(content)
    with pytest.raises(InputError, match="received"):
        received_page.compare(tmp_path / "x.html", findings())
    with pytest.raises(InputError, match="which is not there"):
        received_page.compare(tmp_path, findings())


def test_text_of_a_strange_page_stays_on_one_line(tmp_path: Path) -> None:
    strange = "<html><body>\x1b[31mred\x1b[0m\u2028line</body></html>"
    found = received_page.compare(written(tmp_path, strange), findings())
    assert found.status == "other"
    assert "\x1b" not in found.text
    assert "\u2028" not in found.text
