"""From a file to findings: units, texts that are too short, names, and a model that was not trained on the members."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miaudit.auditing.extraction import ExtractionPlan
from miaudit.collect.extraction import audit_extraction
from miaudit.errors import InputError
from miaudit.findings.extraction import ExtractionFindings
from miaudit.findings.kinds import read as read_findings
from miaudit.io.token_records import TokenRecords, write_jsonl
from miaudit.report import kinds

PLAN = ExtractionPlan(prefix=4, suffix=6, queries=100)


def records(n: int = 300, *, seed: int = 0, memorised: float = 0.4, boilerplate: float = 0.1) -> TokenRecords:
    """Texts of 4 to 24 tokens; some members and some of all come out."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    lengths = rng.integers(4, 25, n)
    offsets = np.r_[0, np.cumsum(lengths)]
    known = (member & (rng.random(n) < memorised)) | (rng.random(n) < boilerplate)
    log_p = -rng.exponential(np.repeat(np.where(known, 0.02, 3.0), lengths))
    return TokenRecords(
        ids=tuple(f"text {i}" for i in range(n)),
        member=member,
        log_p=log_p,
        offsets=offsets,
        top1=log_p > -0.5,
        times=np.where(member, rng.choice([1, 4], n), 0),
        unit=tuple(f"{'in' if member[i] else 'out'} {i // 3}" for i in range(n)),
    )


@pytest.mark.long
def test_a_file_gives_the_findings_of_its_records(tmp_path: Path) -> None:
    held = records()
    write_jsonl(tmp_path / "t.jsonl", held)
    found = audit_extraction(tmp_path / "t.jsonl", PLAN, design="one-run")
    assert found.source == "t.jsonl" and found.verdict.status == "flagged" and found.exit_code == 3
    again = audit_extraction(held, PLAN, design="one-run")
    assert again.to_dict() == found.to_dict() | {"source": ""}
    assert ExtractionFindings.from_dict(found.to_dict()).to_json() == found.to_json()
    kinds.write(found, tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out" / "figures").iterdir()} == {"queries", "repetitions", "exposure"}
    assert read_findings(tmp_path / "out" / "findings.json") == found.as_written()


def test_shares_equal_a_loop_over_units() -> None:
    held = records()
    found = audit_extraction(held, PLAN)
    assert held.unit is not None and held.top1 is not None
    out: dict[str, dict[str, bool]] = {}
    short = 0
    for i, unit in enumerate(held.unit):
        own = slice(held.offsets[i], held.offsets[i + 1])
        text, likeliest = held.log_p[own], held.top1[own]
        starts = range(4, len(text) - 5, 6)
        short += not starts
        for at in starts:
            p = np.exp(text[at : at + 6].sum())
            ways = out.setdefault(unit, {"sampled": False, "greedy": False})
            ways["sampled"] |= bool(1 - (1 - p) ** 100 >= 0.5)
            ways["greedy"] |= bool(likeliest[at : at + 6].all())
    for way in found.ways:
        for side, rate in (("in", way.members), ("out", way.controls)):
            own_units = [ways[way.name] for unit, ways in out.items() if unit.startswith(side)]
            assert rate.value == pytest.approx(np.mean(own_units)), (way.name, side)
    assert found.counts["too_short"] == short and f"{short} texts have fewer than 10 tokens" in found.notes[0]
    assert found.counts["member_units"] == sum(unit.startswith("in") for unit in out)


@pytest.mark.long
def test_a_model_that_never_saw_the_members_shows_nothing() -> None:
    """200 audits at nominal 2.5%: none shown in 189 at least, and in nearly all where members are memorised."""
    shown = sum(audit_extraction(records(seed=s, memorised=0.0), PLAN).difference.low > 0 for s in range(200))
    assert shown <= 11
    assert all(audit_extraction(records(seed=s), PLAN).difference.low > 0 for s in range(20))


def test_texts_are_named_on_request_only() -> None:
    held = records()
    assert audit_extraction(held, PLAN).named == ()
    named = audit_extraction(held, PLAN, names=True).named
    queries = [one.queries for one in named if one.queries is not None]
    assert queries == sorted(queries) and queries[0] <= 100
    assert all(one.ways for one in named) and {one.times for one in named if not one.member} == {0}
    assert {one.member for one in named} == {True, False}


def test_controls_that_are_among_the_members_are_said() -> None:
    held = records()
    texts = [f"{i} {np.sin(i):.12f} {np.cos(i):.12f} said" for i in range(300)]
    inside, outside = np.flatnonzero(held.member)[:3], np.flatnonzero(~held.member)[:3]
    for a, b in zip(inside, outside, strict=True):
        texts[b] = texts[a].upper() + " "
    said = TokenRecords(held.ids, held.member, held.log_p, held.offsets, text=tuple(texts))
    assert audit_extraction(said, PLAN).notes[0].startswith("3 of ")
    apart = replace(said, text=tuple(f"{i} {np.tan(i):.12f} {np.exp(-i / 9):.12f} said" for i in range(300)))
    assert not any("among the members" in note for note in audit_extraction(apart, PLAN).notes)


def test_units_of_both_kinds_are_refused() -> None:
    held = records()
    mixed = TokenRecords(held.ids, held.member, held.log_p, held.offsets, unit=tuple(str(i % 7) for i in range(300)))
    with pytest.raises(InputError, match="unit: expected units of members or of controls alone, received 7 of 7"):
        audit_extraction(mixed, PLAN)


def test_without_controls_there_is_no_answer() -> None:
    held = records()
    inside = TokenRecords(held.ids, np.ones(300, dtype=bool), held.log_p, held.offsets)
    found = audit_extraction(inside, PLAN)
    assert (found.verdict.status, found.exit_code, found.ways[0].controls.value) == ("not-testable", 4, None)
    assert "no controls have a passage" in found.verdict.text and "boilerplate would count" in found.verdict.text
    assert kinds.page(found)
    short = audit_extraction(held, ExtractionPlan(prefix=50, suffix=50))
    assert short.verdict.status == "not-testable" and "no members have a passage of 50 tokens" in short.verdict.text
