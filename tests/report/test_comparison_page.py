"""Pages of comparisons."""

import re
from dataclasses import replace

import pytest

from findings.test_budget import course, release
from findings.test_comparison import findings, shifted
from miaudit.errors import InputError
from miaudit.findings.budget import Budget
from miaudit.findings.comparison import compare, history
from miaudit.findings.kinds import from_dict
from miaudit.findings.kinds import read as read_findings
from miaudit.report import comparison_page, kinds
from report.test_audit_page import EVIL, Page


@pytest.mark.thorough
@pytest.mark.long
def test_the_chart_shows_causal_numbers_under_whole_labels():
    """Right of its dashed line is more leakage, which no raw number of a zero-run audit may claim."""
    found = compare(shifted(), shifted(1.0))
    rows = comparison_page.charts(found)["differences"].to_dict()["layer"][1]["encoding"]["y"]
    assert rows["sort"][-2:] == ["Balanced accuracy (tilted)", "Balanced accuracy (hajek)"]
    assert all(name.endswith(("(aipw)", "(tilted)", "(hajek)")) for name in rows["sort"])
    assert rows["axis"]["labelLimit"] >= 7 * max(map(len, rows["sort"]))
    assert comparison_page.charts(compare(findings(0.3), shifted())) == {}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["comparison", "history"])
def test_the_pages_are_written_and_checked(tmp_path, kind):
    a, b = findings(0.3), findings(1.2)
    found = compare(a, b, names=("old", "new")) if kind == "comparison" else history([("old", a), ("new", b)])
    kinds.write(found, tmp_path / "out")
    back = read_findings(tmp_path / "out" / "findings.json").to_dict()
    assert back == found.to_dict()
    text = (tmp_path / "out" / "report.html").read_text()
    assert "Leakage rose" in text
    assert (tmp_path / "out" / "figures").glob("*.svg")
    for key in back:
        if key in ("format", "kind"):
            continue
        with pytest.raises(InputError):
            from_dict({name: value for name, value in back.items() if name != key})


@pytest.mark.parametrize(
    ("primary", "said"),
    [("auc", "pairs of a member and a non-member the attack"), ("tpr_at_fpr_0.1", "Accusing 100 of 1,000 non-members")],
)
def test_the_first_screen_has_a_plain_sentence_and_steps(primary, said):
    a, b = findings(0.3), findings(1.2)
    rose = replace(compare(a, b, names=("old", "new")), primary=primary)
    words = Page(comparison_page.page(rose)).words
    assert said in words and words.index(said) < words.index("What to do next") < words.index("Metric by metric")
    clear = replace(a, verdict=replace(a.verdict, status="clear"))
    fell = Page(comparison_page.page(history([("old", b), ("new", clear)]))).words
    assert (
        "Hold back new" in words and "Keep new as the one to beat" in fell and "Random guessing picks it in 50." in fell
    )
    silent = replace(rose, status="not-comparable", later="clear")
    assert comparison_page._plain(silent) == "" and "compare again" in comparison_page._steps(silent)[0].text


def test_hostile_names_stay_text():
    a, b = findings(0.3), findings(1.2)
    for found in (compare(a, b, names=(EVIL, EVIL + "2")), history([(EVIL, a), (EVIL + "2", b)])):
        page = Page(comparison_page.page(replace(found, repeat={"command": EVIL})))
        assert len(page.scripts) == len(Page(comparison_page.page(found)).scripts)


@pytest.mark.long
@pytest.mark.parametrize(("fresh", "word"), [(True, "Alarm"), (False, "No alarm")])
def test_a_history_with_a_budget_shows_what_each_release_spent(tmp_path, fresh, word):
    life = course(0.2, *[0.008] * 4, fresh=fresh)
    kinds.write(life, tmp_path / "out")
    words = Page((tmp_path / "out" / "report.html").read_text()).words
    assert words.index(word) < words.index("What to do next") < words.index("What each release spent")
    for text in ("3.07%", "1.93%", "2026-05-01", "The budget is 5%", "These comparisons describe what changed."):
        assert text in words
    assert ("It raises an alarm at 40." in words) is fresh
    assert ("begin a new folder" in words) is fresh


def test_one_release_and_one_without_an_answer_have_a_page():
    assert "1 audit, oldest first" in Page(comparison_page.page(course(0.4))).words
    audits = [("v1", release(1, 0.4)), ("v2", replace(release(2), verdict=replace(release(2).verdict, limits=())))]
    silent = history(audits, budget=Budget.of(audits, 0.05, "shared", "Declared."))
    words = Page(comparison_page.page(silent)).words
    assert "Not answered" in words and "Audit v2 again" in words


def test_names_in_the_budget_are_escaped():
    audits = [(EVIL, release(1, 1e-9, date=EVIL))]
    text = comparison_page.page(history(audits, budget=Budget.of(audits, 0.05, "shared", EVIL)))
    assert EVIL not in text


@pytest.mark.long
def test_no_alarm_is_not_shown_in_green_and_a_name_keeps_its_letters():
    words = comparison_page.page(course(0.2, *[0.008] * 4, fresh=False))
    marks = re.findall(r'<td[^>]*class="([^"]*)"[^>]*><span class="mark">No alarm</span>', words)
    assert 'class="mark">No alarm' in words
    assert "clear" not in " ".join(marks)
    found = replace(history([("v1", findings(0.3)), ("v2", findings(1.2))]), text="v2 exceeds a limit.")
    assert comparison_page._without(found, "Alarm") == "v2 exceeds a limit."
    assert comparison_page._without(replace(found, text="Alarm: two audits."), "Alarm") == "Two audits."
