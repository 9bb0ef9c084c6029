"""The page of a comparison of disclosures: it says what the findings say, and loads nothing."""

from __future__ import annotations

import copy
import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from miaudit.defences import drivers, findings
from miaudit.defences.calibration import Temperature
from miaudit.defences.compare import ReleaseOption, compare
from miaudit.defences.label_sets import ConformalSet
from miaudit.defences.noise import OutputNoise
from miaudit.defences.outputs import AsItIs, LabelOnly
from miaudit.errors import InputError
from miaudit.findings.disclosure import DisclosureFindings, Limits
from miaudit.findings.policy import label_of
from miaudit.report import disclosure_page
from worlds import disclosing


@pytest.fixture(scope="module")
def content() -> DisclosureFindings:
    models = disclosing.models(effect=1.0, shadows=32, n=300, held=80)
    defences = {"temperature": Temperature(), "noise": OutputNoise(), "sets": ConformalSet(0.9), "label": LabelOnly()}
    options = [ReleaseOption("as-it-is", "output", models, AsItIs())]
    options += [ReleaseOption(name, "output", models, one) for name, one in defences.items()]
    weaker = disclosing.models(effect=0.2, shadows=32, n=300, held=80)
    options.append(ReleaseOption("<b>decay</b>", "training", weaker, AsItIs(), "<b>decay</b> & co"))
    rng = np.random.default_rng(0)
    found = compare(options, rng=rng)
    predictions, said = findings.predicted(models, rng=rng)
    driving = drivers.drivers(found.measured[0], found.measured[0], rng=rng)
    made = findings.findings(
        found, drivers=driving, predictions=predictions, notes=said, repeat={"seed": 1, "command": "miaudit x"}
    )
    return DisclosureFindings.from_dict(made.to_dict())


def shown(content: DisclosureFindings) -> str:
    page = disclosure_page.page(content)
    text = re.sub(r"<script.*?</script>|<style.*?</style>|data:image/svg[^\"]*", "", page, flags=re.S)
    assert "<b>decay" not in text
    return html.unescape(text)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "step"),
    [("flagged", "Do not release"), ("clear", "Release it as it was"), ("not-testable", "Bring audit")],
)
def test_the_first_screen_has_a_plain_sentence_and_steps(content: DisclosureFindings, status: str, step: str) -> None:
    options = tuple(replace(one, recommended=False) for one in content.options)
    found = replace(content, options=options, verdict=replace(content.verdict, status=status))  # type: ignore[arg-type]
    text = shown(found)
    assert text.index(step) > text.index("What to do next") and text.index(step) < text.index("Key numbers")
    assert ("Of 100 pairs of a member and a non-member" in text) == (status != "not-testable")
    better = replace(found, options=(*options[:-1], replace(options[-1], recommended=True)))
    assert "in place of" in disclosure_page._steps(better)[0].text or status == "not-testable"


@pytest.mark.thorough
@pytest.mark.long
def test_it_says_what_was_found(content: DisclosureFindings) -> None:
    text = shown(content)
    assert content.recommendation in text
    for part in content.parts:
        assert part in text
    for sentence in (*content.rests_on, *content.notes):
        assert sentence in text
    for one in content.options:
        assert f"{one.leakage['auc'].value:.3f}" in text
        assert one.attack in text
    for one in content.drivers:
        low, high = math.floor(1000 * one.auc.low) / 1000, math.ceil(1000 * one.auc.high) / 1000
        assert f"{low:.3f} to {high:.3f}" in text  # outward
        assert f"{one.calibration_error.value:+.3f}" in text
    assert "drawn anew with each query" in text
    assert "no leakage" not in text.lower()


@pytest.mark.long
def test_it_loads_nothing(content: DisclosureFindings) -> None:
    page = disclosure_page.page(content)
    assert "default-src 'none'" in page
    without = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.search(r"(src|href)=\"(?!data:|#)", without)


@pytest.mark.long
def test_every_chart_is_drawn_with_its_numbers(content: DisclosureFindings) -> None:
    drawn = disclosure_page.charts(content)
    assert tuple(drawn) == disclosure_page.NAMES
    for name, chart in drawn.items():
        spec = chart.to_dict()
        assert spec["description"]
        assert spec["title"]["text"], name
    text = json.dumps(drawn["reductions"].to_dict())
    for one in content.options[1:]:
        assert f"{math.floor(1000 * one.reduction.low) / 10:.1f} to" in text
    alone = replace(content, options=content.options[:1], predictions=(), drivers=())
    assert tuple(disclosure_page.charts(alone)) == ("tradeoff",)
    for fronts in (1, 2):  # a line needs two
        some = [replace(one, front=i < fronts) for i, one in enumerate(content.options)]
        said = " ".join(disclosure_page.charts(replace(content, options=tuple(some)))["tradeoff"].title["subtitle"])
        assert ("Thick grey" in said) == (fronts == 2)
    assert "Every way to release it" in shown(alone)


@pytest.mark.long
def test_findings_are_plain_and_their_schema_holds(content: DisclosureFindings) -> None:
    again = json.loads(content.to_json())
    assert DisclosureFindings.from_dict(again).to_dict() == again
    for path in (("options", 0, "effect"), ("verdict", "status"), ("counts", "classes")):
        broken = copy.deepcopy(again)
        place = broken
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "nonsense"
        with pytest.raises(InputError, match="what the schema"):
            DisclosureFindings.from_dict(broken)
    more = {**again, "extra": 1}
    with pytest.raises(InputError):
        DisclosureFindings.from_dict(more)


@pytest.mark.long
def test_verdicts_have_their_words(content: DisclosureFindings) -> None:
    words = {
        "flagged": "Concern",
        "clear": "Within the limits",
        "inconclusive": "Not answered (inconclusive)",
        "not-testable": "Not answered (not testable)",
    }
    for status, word in words.items():
        other = replace(content, predictions=(), verdict=replace(content.verdict, status=status))
        text = shown(other)
        assert word in text.split('id="verdict-word"')[1].split("</h2>")[0]
        assert f"<title>{word}: " in text
    undeclared = replace(content.verdict, status="not-testable", reason="undeclared")
    assert "Not answered (undeclared)" in shown(replace(content, predictions=(), verdict=undeclared))


@pytest.mark.long
def test_the_box_shows_the_limits_what_is_proven_and_what_is_not_excluded(content: DisclosureFindings) -> None:
    verdict = replace(content.verdict, status="clear", proven="Better than guessing.", not_excluded="Not excluded: 3%.")
    text = shown(replace(content, predictions=(), verdict=verdict))
    box = text[text.index('id="verdict-word"') : text.index("What to do next")]
    assert "Proven even so.</strong> Better than guessing." in box and "Not excluded: 3%." in box
    assert 'class="verdict warned"' in text  # not green beside what is proven
    for one in content.verdict.limits:
        assert label_of(one.limit) in box
    assert "Default limits" in box
    stated = replace(content, predictions=(), verdict=replace(verdict, stated=True))
    assert "Limits of this audit" in shown(stated)


@pytest.mark.long
def test_every_option_says_whether_it_is_within_the_limits(content: DisclosureFindings) -> None:
    states = ("within", "exceeded", "open")
    options = tuple(replace(one, within=states[i % 3]) for i, one in enumerate(content.options))
    text = shown(replace(content, predictions=(), options=options))
    table = text[text.index("Table of options") : text.index("Table of attacks")]
    rows = table.split('scope="row"')[1:]
    for row, one in zip(rows, options, strict=True):
        assert [state for state in states if f'<span class="mark">{state}</span>' in row] == [one.within]


@pytest.mark.long
def test_one_that_is_not_resolved_has_an_upper_limit_only(content: DisclosureFindings) -> None:
    name = next(key for key in content.options[0].leakage if key.startswith("tpr"))
    limit = Limits(None, 0.0, 0.125, "upper limit only")
    options = (replace(one, leakage={**one.leakage, name: limit}) for one in content.options)
    text = shown(replace(content, options=tuple(options)))
    assert "≤ 12.5%" in text
    assert "at most 12.5%" in text
