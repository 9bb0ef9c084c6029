"""The page of what a language model repeats: its numbers, its charts, and names that try to be markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from collect.test_extraction import PLAN, records
from miaudit.collect.extraction import audit_extraction
from miaudit.findings.extraction import Named, NamedUnit, Rate
from miaudit.report import extraction_page
from report.test_audit_page import EVIL, Page


def test_the_page_and_the_lines_say_the_shares_of_a_thousand() -> None:
    found = audit_extraction(records(), PLAN, design="one-run", names=True)
    page, said = extraction_page.page(found), extraction_page.text(found)
    for rate in (found.members, found.controls, found.difference):
        assert rate.value is not None
        shown = f"{1000 * rate.value:.0f} ({np.floor(1000 * rate.low):.0f} to {np.ceil(1000 * rate.high):.0f})"
        assert shown in page and shown in said
    assert said.startswith("Concern: ") and "text 1" in page and "Times trained on" in page
    assert "This holds" not in page and "differ from members in nothing but" in extraction_page.page(
        audit_extraction(records(), PLAN, design="zero-run")
    )


def test_the_first_sentences_are_of_a_thousand_texts() -> None:
    held = replace(records(), unit=None)
    said = list(extraction_page.sentences(audit_extraction(held, PLAN, design="one-run")))
    assert said[0].startswith("Of 1,000 private texts ") and "of 1,000 that it never saw." in said[0]
    assert "of 1,000 texts can be told to be training data, if 100 of 1,000 others may be wrongly accused" in said[1]
    undeclared = audit_extraction(held, PLAN)
    assert list(extraction_page.sentences(undeclared))[1].startswith("How many can be told to be training data is not")
    page = extraction_page.page(replace(undeclared, source="t.jsonl"))
    assert "Not answered (undeclared)" in page and "Declare how it was decided" in page
    assert "miaudit audit t.jsonl --signal token-logprobs --design zero-run" in page
    assert "Only a model that is asked shows them (--model)" in page


def test_charts_have_a_point_for_each_number() -> None:
    found = audit_extraction(records(), PLAN)
    drawn = extraction_page.charts(found)
    assert tuple(drawn) == extraction_page.NAMES
    assert len(_rows(drawn["queries"])) == 2 * len(found.queries)
    assert [row["times"] for row in _rows(drawn["repetitions"])] == ["1", "4"]
    nothing = replace(found, members=Rate(None, 0.0, 1.0), repetitions=())
    assert extraction_page.charts(nothing) == {}


def _rows(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    given = spec.get("data") or spec["layer"][0]["data"]
    return list(given.get("values") or spec["datasets"][given["name"]])


def test_hostile_names_stay_text() -> None:
    found = audit_extraction(records(), PLAN, names=True)
    evil = replace(
        found,
        source=EVIL,
        notes=(EVIL,),
        named=(Named(EVIL, True, 1, 1.0, ("sampled",)),),
        units=(NamedUnit(EVIL, True, 2, 1),),
        repeat={"command": EVIL},
    )
    page = Page(extraction_page.page(evil))
    assert len(page.scripts) == len(Page(extraction_page.page(found)).scripts)
