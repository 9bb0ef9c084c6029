"""The page of a table's audit: it stands alone, escapes what the table says, and says what was not found."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest

from miaudit.findings.table import Rate, TableFindings
from miaudit.report import exports, fidelity_charts, table_page
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.table_audit import TablePlan, audit_table

pytestmark = pytest.mark.long

NASTY = "<img src=x onerror=alert(1)>'"


def draw(n: int, rng: np.random.Generator) -> Table:
    schema = Schema((Column("age", "continuous", low=-50, high=50), Column(NASTY, "categorical", ("a", "'b", "c"))))
    return Table(schema, np.c_[rng.normal(size=n), rng.integers(0, 3, n)])


@pytest.fixture(scope="module")
def content() -> TableFindings:
    rng = np.random.default_rng(0)
    made, members, control = (draw(n, rng) for n in (150, 150, 150))
    leaky = Table(made.schema, np.r_[made.values[:100], members.values[:50]])
    found = audit_table(
        leaky, members, control, plan=TablePlan(attempts=60), design="one-run", rng=rng, source="made & sold.csv"
    )
    return TableFindings.from_dict(found.to_dict())


@pytest.mark.thorough
@pytest.mark.long
def test_the_page_stands_alone_and_escapes(content: TableFindings) -> None:
    page = table_page.page(content)
    assert "<img src=x" not in page
    assert "made &amp; sold.csv" in page
    assert not re.search(r"(src|href)=[\"']https?:", page)
    for text in ("Concern", "Would it have been seen?", "What this audit cannot see", "What the table keeps"):
        assert text in page
    assert page.count("<figure") == len(table_page.charts(content))
    assert table_page.page(content) == page


def test_the_first_screen_has_a_plain_sentence_and_steps(content: TableFindings) -> None:
    page = html.unescape(table_page.page(content))
    assert "Of 1,000 members the attack 'copies' is right about 333, of 1,000 control records about 0" in page
    assert page.index("Of 1,000 members") < page.index("Do not hand on this table") < page.index("h-attacks")
    silent = replace(content, verdict=replace(content.verdict, status="not-testable"))
    assert table_page._plain(silent) == ""
    undeclared = replace(silent, membership=replace(content.membership, design=None), repeat={"command": "miaudit x"})
    told = [step.command for step in table_page._steps(undeclared)]
    assert told == ["miaudit x --design one-run", "miaudit draw --help"] or undeclared.leading().status == "flagged"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("design", ["one-run", None, "zero-run"])
def test_the_box_holds_one_verdict(content: TableFindings, design: str | None) -> None:
    verdict, membership = content.verdict, content.membership
    if design != "one-run":
        verdict = replace(verdict, status="not-testable", text="Not answered: Nothing was randomised.")
        refused = replace(membership.verdict, status="refused", text="Not answered: There is a reason.")
        membership = replace(membership, design=design, verdict=refused)
    found = replace(content, verdict=verdict, membership=membership)
    assert found.exit_code == (3 if design == "one-run" else 4)
    page = table_page.page(found)
    proof = "an epsilon of at least"
    assert proof in found.leading().text.partition(". ")[0]  # proven, and nobody claimed it
    box = page[page.index('<section id="verdict"') :]
    box = box[: box.index("</section>")]
    assert box.count('class="lead"') == 1
    leads, follows = verdict.text, membership.verdict.text
    if design == "zero-run":
        leads, follows = follows, leads
    assert html.escape(leads.split(": ")[-1][1:]) in box and html.escape(follows) not in box
    assert page.count(html.escape(follows)) == 1  # in its own section
    reason = {None: " (undeclared)", "zero-run": " (refused)"}
    word = "Concern" if design == "one-run" else f"Not answered{reason[design]}"
    badge = box[box.index('class="badge"') : box.index("</h2>")]
    assert badge.strip().endswith(word) and f"{word}: " not in box
    assert exports.tags(found)["miaudit.text"].endswith(leads.split(": ")[-1])


@pytest.mark.long
def test_every_chart_is_named_titled_and_described(content: TableFindings) -> None:
    drawn = table_page.charts(content)
    assert set(drawn) <= set(table_page.NAMES)
    assert set(fidelity_charts.NAMES) | {"differences", "rates"} <= set(drawn)
    for chart in drawn.values():
        spec = chart.to_dict(validate=False)
        assert spec["title"]["text"]
        assert len(spec["description"]) > 40
    title = " ".join(drawn["differences"].to_dict(validate=False)["title"]["text"])
    flagged = sum(row.status == "flagged" for row in content.attacks)
    assert title.startswith(f"{flagged} of 5 attacks that decide")


@pytest.mark.long
def test_a_page_without_fidelity_or_a_found_control_says_so(content: TableFindings) -> None:
    blind = replace(content, fidelity=None, positive_control=replace(content.positive_control, found=False))
    page = table_page.page(blind)
    assert "does NOT see them" in page
    assert "The positive control was not seen" in page
    assert "What the table keeps" not in page
    assert "With one cell of each copy changed, it is seen in" in page
    assert "With one cell of each" not in table_page.page(replace(content, near_control=None))


@pytest.mark.long
def test_near_copies_that_chance_explains_are_called_that(content: TableFindings) -> None:
    silent = tuple(replace(part, status=None) if part.name != "copies" else part for part in content.attacks)
    page = table_page.page(replace(content, attacks=silent))
    assert "Not beyond chance" in page and 'class="None"' not in page
    above = tuple(replace(part, corrected_low=0.1) if part.status is None else part for part in silent)
    assert "Above chance, decides nothing" in table_page.page(replace(content, attacks=above))


@pytest.mark.long
def test_what_decides_stands_before_what_informs_with_the_excess_that_it_detects(content: TableFindings) -> None:
    page = html.unescape(table_page.page(content))
    decides, informs = page.index("What decides"), page.index("What informs, and never decides")
    assert page.index("h-attacks") < decides < informs < page.index("Would it have been seen?")
    blocking, informing = page[decides:informs], page[informs:]
    assert 'scope="row">copies<' in blocking and 'scope="row">record by record<' in blocking
    assert "linkability" not in blocking
    for row in content.attacks:
        if row.role == "informing":
            assert (row.status, row.threshold) == (None, None)
            assert f'scope="row">{row.name}<' in informing
    assert "Smallest excess that it detects" in informing


@pytest.mark.long
def test_an_attack_without_predicates_has_no_numbers(content: TableFindings) -> None:
    empty = Rate(0, 0, None, 0.0, 1.0)
    row = replace(content.attacks[1], members=empty, control=empty, difference=None, note="no predicate")
    row = replace(row, risk=None, risk_low=None, risk_high=None)
    found = replace(content, attacks=(content.attacks[0], row))
    page = table_page.page(TableFindings.from_dict(found.to_dict()))
    assert "no predicate" in page


@pytest.mark.long
def test_the_page_says_that_undeclared_households_get_no_verdict_and_counts_declared_ones() -> None:
    rng = np.random.default_rng(3)
    made, members, control = draw(100, rng), draw(40, rng), draw(40, rng)
    fives = [Table(table.schema, np.repeat(table.values, 5, axis=0)) for table in (members, control)]
    plan = TablePlan(attempts=20, fidelity=False, secrets=("age",), neighbours=3)
    undeclared = audit_table(made, *fives, plan=plan, design="one-run", rng=rng).to_dict()
    page = " ".join(table_page.page(TableFindings.from_dict(undeclared)).split())
    assert "400 records have an equal one" in page and "name the unit (--unit)" in page
    assert '<section id="verdict" class="verdict refused"' in page
    units = np.arange(200) // 5, 40 + np.arange(200) // 5
    declared = audit_table(made, *fives, units=units, plan=plan, design="one-run", rng=rng).to_dict()
    assert "(of 40 and 40 units)" in table_page.page(TableFindings.from_dict(declared))
