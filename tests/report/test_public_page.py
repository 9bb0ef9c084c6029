"""The page that goes with a released table: it shows what may be published, whatever the private records say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.findings.release import Guarantee, Kept, Released, Spent, SynthesisFindings, Usefulness
from miaudit.report import kinds, page_frame, public_page, synthesis_page
from report.test_audit_page import EVIL, Page

GUARANTEE = Guarantee(
    2.0, 2e-4, 1.99, "the closed form", "counts", 2000, 1.8, None, ((0.001, 0.0077), (0.01, 0.0742), (0.1, 0.74))
)


def kept(on: str, share: float = 0.55) -> Usefulness:
    rows = (Kept("dependence", share, 0.41, 0.62, "distance of pairs", 0.057, 0.079, 0.108),)
    return Usefulness("partly", f"Partly useful: it keeps {share:.0%} of dependence.", on, 377, 0.01, rows)


def release(**changes: Any) -> SynthesisFindings:
    own: dict[str, Any] = {
        "text": ("This table is (2, 0.0002)-differentially private.",),
        "guarantee": GUARANTEE,
        "spent": Spent("clinic", ("first",), 1.7, 0.001, 5.0),
        "graph": None,
        "release": Released("synthetic.csv", 400, "ab" * 32),
        "columns": ({"name": "age", "kind": "continuous"},),
        "generator": {"method": "tables"},
        "repeat": {"miaudit": "0.1.0", "command": "miaudit synthesise secret/patients.yaml"},
        "source": "secret/patients.csv",
    }
    return SynthesisFindings(**(own | changes))


def by_private_records(share: float) -> SynthesisFindings:
    judged = {"useful": kept("private records that were set aside", share), "fidelity_of": "held-out"}
    return release(**judged, notes=(f"Judged by {int(1000 * share)} private records.",), source=f"{share}.csv")


def test_what_private_records_say_does_not_change_the_public_page() -> None:
    pages = {public_page.page(by_private_records(share)) for share in (0.55, 0.97)}
    assert len(pages) == 1
    assert len({synthesis_page.page(by_private_records(share)) for share in (0.55, 0.97)}) == 2  # the publisher's own
    page = pages.pop()
    for shown in ("7.42%", "0.0002", "ab" * 32, "closed form", "first", "Not stated."):
        assert shown in page
    assert "patients" not in page and "set aside" not in page


def test_charts_of_the_publishers_page_are_not_handed_on() -> None:
    findings = by_private_records(0.55)
    built = page_frame.built(synthesis_page.charts(findings))
    assert "kept" in built.specs
    page = public_page.page(findings, built=built)
    assert 'data-chart="limit"' in page and 'data-chart="kept"' not in page and "dependence" not in page


def test_a_judgement_by_public_records_is_shown() -> None:
    page = public_page.page(release(useful=kept("public records"), fidelity_of="public"))
    assert "Judged by 377 public records." in page and 'data-chart="kept"' in page
    assert "Not stated." not in page


def test_text_from_data_is_escaped() -> None:
    names = {"columns": ({"name": EVIL, "kind": "binary"},), "spent": Spent(EVIL, (EVIL,), 1.7, 0.001, 5.0)}
    page = public_page.page(release(**names))
    assert EVIL not in page
    Page(page)


@pytest.mark.parametrize(
    "changes", [{"guarantee": None}, {"useful": replace(kept("made-up records"), status="stopped")}]
)
def test_without_a_guarantee_or_a_table_there_is_none(changes: dict[str, Any], tmp_path: Path) -> None:
    assert public_page.page(release(**changes)) == ""
    kinds.write(release(**changes), tmp_path / "out", figures=False)
    assert not (tmp_path / "out" / kinds.PUBLIC).exists()


def test_it_lies_beside_the_table_and_goes_with_it(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "synthetic.json").write_text('{"format": 1}')

    kinds.place_release(fill, tmp_path)
    kinds.write(release(), tmp_path, figures=False)
    assert "Differentially private" in (tmp_path / kinds.PUBLIC).read_text()
    kinds.place_release(fill, tmp_path, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"synthetic.json"}


def test_an_audit_in_the_folder_leaves_the_public_page(tmp_path: Path) -> None:
    kinds.write(release(), tmp_path, figures=False)
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    found = ma.audit(ma.Evidence(score=rng.normal(size=400) + member, member=member, design="one-run"), rng=rng)
    kinds.write(found, tmp_path, overwrite=True, figures=False)
    assert (tmp_path / kinds.PUBLIC).exists()


def test_advice_that_is_a_next_step_is_not_said_again() -> None:
    few = replace(kept("private records that were set aside"), status="unjudged", advice=("bring more records",))
    page = synthesis_page.page(release(useful=few, fidelity_of="held-out"))
    assert "Bring more records." in page and "What to change" not in page
    partly = replace(few, status="partly")
    assert "What to change" in synthesis_page.page(release(useful=partly, fidelity_of="held-out"))
