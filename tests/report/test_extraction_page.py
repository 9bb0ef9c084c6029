"""The page of what a language model repeats: its numbers, its charts, and names that try to be markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from collect.test_extraction import PLAN, records
from miaudit.collect.extraction import audit_extraction
from miaudit.findings.extraction import ExtractionFindings, Generations, Named, NamedUnit, Rate, Run
from miaudit.report import extraction_page
from report.test_audit_page import EVIL, Page


def test_the_page_and_the_lines_say_the_shares_of_a_thousand() -> None:
    found = audit_extraction(records(), PLAN, design="one-run", names=True)
    page, said = extraction_page.page(found), extraction_page.text(found)
    for rate in (found.members, found.controls, found.difference):
        assert rate.value is not None
        number, limits = (
            f"{1000 * rate.value:,.0f}",
            f"{np.floor(1000 * rate.low):,.0f} to {np.ceil(1000 * rate.high):,.0f}",
        )
        assert f'<dd class="big">{number}</dd>' in page and f"with limits {limits}" in page
        assert f"{number} ({limits})" in said
    assert said.startswith("Concern: ") and "text 1" in page and "Times trained on" in page
    assert "This holds" not in page and "differ from members in nothing but" in extraction_page.page(
        audit_extraction(records(), PLAN, design="zero-run")
    )


def test_the_first_sentences_are_of_a_thousand_texts() -> None:
    held = replace(records(), unit=None)
    said = list(extraction_page.sentences(audit_extraction(held, PLAN, design="one-run")))
    assert said[0].startswith("Of 1,000 private texts ") and "of 1,000 that it never saw." in said[0]
    assert "of 1,000 texts can be identified as training data, if 100 of 1,000 others may be wrongly accused" in said[1]
    undeclared = audit_extraction(held, PLAN)
    assert list(extraction_page.sentences(undeclared))[1].startswith(
        "How many can be identified as training data is not"
    )
    page = extraction_page.page(replace(undeclared, source="t.jsonl"))
    assert "Not answered (undeclared)" in page and "Declare how it was decided" in page
    assert "miaudit audit t.jsonl --signal token-logprobs --design zero-run" in page
    assert "Only a model that is asked shows them (--model)" in page


def test_charts_have_a_point_for_each_number() -> None:
    found = audit_extraction(records(), PLAN)
    drawn = extraction_page.charts(found)
    assert tuple(drawn) == tuple(name for name in extraction_page.NAMES if name != "runs")  # of answers
    assert len(_rows(drawn["queries"])) == 2 * len(found.queries)
    assert [row["times"] for row in _rows(drawn["repetitions"])] == ["1", "4"]
    nothing = replace(found, members=Rate(None, 0.0, 1.0), repetitions=())
    assert extraction_page.charts(nothing) == {}


def answered() -> ExtractionFindings:
    """Findings of answers that were made elsewhere: of 4 texts and 4 controls."""
    found = audit_extraction(replace(records(), unit=None), PLAN, design="one-run")
    rate = Rate(0.5, 0.1, 0.9)
    ways = tuple(replace(found.ways[0], name=name) for name in ("answers", "answers-near"))
    return replace(
        found,
        verdict=replace(found.verdict, way="answers-near"),
        ways=ways,
        queries=(),
        repetitions=(),
        runs=(Run(6, rate, rate), Run(12, rate, Rate(0.0, 0.0, 0.4))),
        generations=Generations("p.jsonl", "c.jsonl", 1234, 56789, 7, 3.0, 2.5, 11, 12),
        told=replace(found.told, share=Rate(None, 0.0, 1.0), why_not="Answers hold no scores."),
        named=(Named("t1", True, None, None, ("answers",), 44, 321), Named("t2", False, None, None, (), 0, 9)),
        plan={name: found.plan[name] for name in ("suffix", "near", "confidence", "limit", "within")},
        source="a.jsonl",
    )


def test_the_page_of_answers_says_what_was_compared() -> None:
    found = answered()
    page, said = extraction_page.page(found), extraction_page.text(found)
    assert tuple(extraction_page.charts(found)) == ("runs",)
    assert [row["name"] for row in _rows(extraction_page.charts(found)["runs"])] == ["6 tokens"] * 2 + ["12 tokens"] * 2
    assert "1,234 answers" in page and "1,234 answers" in said and "56,789 tokens beyond their prompts" in page
    assert "a part of 11 texts and of 12 controls" in page and "3.0 answers about a text on average, 2.5 about" in page
    assert "t1: private, 44 tokens in a row, line 321; word for word" in said and "t2: control, 0 tokens" in said
    command = "miaudit extraction --generations a.jsonl --texts p.jsonl --controls c.jsonl --names"
    assert command not in page and command in extraction_page.page(replace(found, named=()))
    assert "can be identified as training data" not in page and "--model" not in page
    evil = replace(found, generations=replace(found.generations, texts=EVIL, controls=EVIL), source=EVIL)
    assert len(Page(extraction_page.page(evil)).scripts) == len(Page(page).scripts)


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


def test_a_page_with_names_does_not_ask_for_them() -> None:
    found = replace(audit_extraction(records(), PLAN, design="one-run", names=True), source="t.jsonl")
    assert "Look at which texts these are in the table below. " in extraction_page.page(found)
    unnamed = replace(found, named=())
    assert "Look at which texts these are: miaudit extraction t.jsonl --names. " in extraction_page.page(unnamed)
