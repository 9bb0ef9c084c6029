"""The page: self-contained, escaped, complete, and alive in a browser."""

import base64
import html as html_library
import json
import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Exploratory
from miaudit.findings.metric import Metric
from miaudit.metrics import definition
from miaudit.report import audit_charts, audit_page, page_frame
from miaudit.report.limit_rows import limit_rows
from report.test_audit_charts import charts_of, typed

EVIL = "\"><script>alert(1)</script>\u2028</SCRIPT><!-- & ' {{ 7*7 }}"


def findings(names=("loss",), n=1000, group=None, design="one-run", gap=1.2, repeat=None, **plan):
    rng = np.random.default_rng(1)
    member = np.arange(n) % 2 == 0
    score = rng.normal(size=n) + gap * member
    # The door of evidence refuses line separators in names; groups, units and sources may hold them.
    scores = {name.replace("\u2028", " "): score + i * rng.normal(size=n) for i, name in enumerate(names)}
    evidence = ma.Evidence(score=scores, member=member, design=design, group=group, source="scores.npz")
    options = ma.Plan(**plan)
    return ma.audit(evidence, plan=options, rng=np.random.default_rng(0), repeat=repeat or {"seed": 0}).to_dict()


def page_of(found):
    return audit_page.page(typed(found))


@cache
def default_page():
    return page_of(findings())


class Page(HTMLParser):
    """What a browser would make of the page: visible text, elements, and the content of scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.scripts = [], [], []
        self.inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.inside = tag
            self.scripts.append("") if tag == "script" else None

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside is None:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    def attributes(self, name):
        return [values[name] for _, values in self.elements if name in values]


@pytest.mark.long
def test_nothing_is_loaded_from_anywhere():
    page = Page(default_page())
    for name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
        for value in page.attributes(name):
            assert value.startswith(("data:", "#")), value
    assert not re.search(r"url\((?!#)|@import", re.search(r"<style>(.*?)</style>", default_page(), re.S).group(1))
    assert not {"link", "iframe", "object", "embed", "base", "form"} & {
        tag for tag, attributes in page.elements if attributes.get("href") != "data:,"
    }
    assert all(
        "http" not in script
        for script in (page.scripts[0], page.scripts[1], page.scripts[3])
        if "$schema" not in script
    )


@pytest.mark.long
def test_the_policy_allows_exactly_the_scripts_of_the_page():
    page = Page(default_page())
    (policy,) = (
        values["content"] for _, values in page.elements if values.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split(";")[1]
    for script in page.scripts[2:]:
        assert page_frame.digest(script) in policy


@pytest.mark.long
def test_every_chart_is_in_the_page():
    found = findings(group=np.arange(1000) // 2 % 3)
    page = Page(page_of(found))
    drawn = charts_of(found)
    assert page.attributes("data-chart") == list(drawn)
    assert list(json.loads(page.scripts[0])) == list(drawn)
    stills = [v["src"] for tag, v in page.elements if tag == "img"]
    assert len(stills) == len(drawn)
    assert all(base64.b64decode(still.partition(",")[2]).startswith(b"<svg") for still in stills)
    pictures = [v for _, v in page.elements if v.get("role") == "img"]
    assert all(len(v["aria-label"]) > 20 for v in pictures)


@pytest.mark.long
def test_text_from_data_is_escaped():
    found = findings(names=(EVIL, EVIL + "2"), group=np.where(np.arange(1000) // 2 % 2, EVIL, "b"))
    for key in ("assumptions", "notes", "corrections"):
        found[key] = [EVIL]
    found["evidence"]["source"] = found["repeat"]["command"] = EVIL
    found["verdict"]["text"] = found["metrics"][0]["note"] = EVIL
    found["rows"] = [{"row": 0, "unit": EVIL, "score": 1.0}]
    text = page_of(found)
    page, ordinary = Page(text), Page(default_page())
    assert len(page.scripts) == len(ordinary.scripts) == 5
    assert page.scripts[2:] == ordinary.scripts[2:]
    json.loads(page.scripts[0])
    json.loads(page.scripts[1])
    assert "<script>alert" not in text
    assert "\u2028" not in "".join(page.scripts[:2])
    assert "49" not in page.words.partition(EVIL[:20])[2][:60]
    assert EVIL.replace("\u2028", " ") in page.words


def test_text_escaped_in_json_comes_back():
    value = {"name": EVIL}
    written = str(page_frame.data(value))
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == value


SECTIONS = (
    "How many members an attacker finds",
    "Read the curve where you need it",
    "Scores of members and non-members",
    "All metrics",
    "By group",
    "All scores",
    "Most exposed members",
    "How to read these numbers",
    "What was assumed",
    "How to repeat it",
)


@pytest.mark.long
def test_sections_stand_in_order():
    found = findings(names=("loss", "margin"), group=np.arange(1000) // 2 % 2, row_level=3)
    words = Page(page_of(found)).words
    places = [words.index(section) for section in SECTIONS]
    assert places == sorted(places)
    absent = Page(default_page()).words
    assert not [section for section in ("By group", "All scores", "Most exposed") if section in absent]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"gap": 4.0}, "Concern"),
        ({"gap": 0.0, "n": 6000}, "Within the limits"),
        ({"n": 100, "gap": 0.3}, "Not answered (inconclusive)"),
        ({"design": "zero-run"}, "Not answered (not testable)"),
        ({"design": None}, "Not answered (undeclared)"),
    ],
)
def test_the_verdict_is_a_word_and_an_icon(options, word):
    text = page_of(findings(**options))
    badge = re.search(r'<h2 id="verdict-word".*?</h2>', text, re.S).group()
    assert word in badge
    assert "<path" in badge
    assert "no leakage" not in Page(text).words.lower()


@pytest.mark.long
def test_what_the_verdict_rests_on_is_said():
    words = Page(page_of(findings(design=None, names=("a", "b"), headline=Exploratory()))).words
    assert "All numbers: raw, the design was not declared" in words
    assert "If membership was decided at random, the verdict would be: Exploratory, not evidence: " in words
    assert "Exploratory: chosen on the same data, not evidence" in words


@pytest.mark.long
def test_zero_run_numbers_are_raw_not_causal():
    text = page_of(findings(design="zero-run"))
    words = Page(text).words
    assert "All numbers: raw, not causal" in words
    assert words.count("raw, not causal") >= 10
    assert re.findall(r"<td>raw</td>", text) == []


def test_an_unresolved_value_is_a_limit():
    found = findings(fpr_targets=(0.001, 0.1))
    assert found["metrics"][0]["value"] is None
    row = audit_page._metric_row(typed(found), typed(found).metrics[0])
    assert row["value"].startswith("≤ ")
    assert row["interval"].startswith("at most ")
    assert row["precision"].startswith("≤ ")


def test_the_control_agrees_with_the_table():
    found = findings()
    given = audit_page._control(typed(found))
    points = {point[0]: point[1:] for point in given["points"]}
    for metric in found["metrics"]:
        if metric["name"].startswith("tpr_at_fpr_") and metric["value"] is not None:
            assert points[definition.of(metric["name"]).fpr] == [metric["value"], metric["low"], metric["high"]]
    assert [p[0] for p in given["points"]] == sorted(points)


@pytest.mark.long
def test_accessible_by_keyboard_and_by_ear():
    page = Page(default_page())
    tags = [tag for tag, _ in page.elements]
    assert {"main", "header", "footer", "section"} <= set(tags)
    assert tags.count("h1") == 1
    labels = {v["for"] for tag, v in page.elements if tag == "label"}
    for tag, attributes in page.elements:
        if tag == "input":
            assert attributes["id"] in labels or attributes.get("aria-label")
        if "scroll" in attributes.get("class", "").split():
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert set(page.attributes("aria-labelledby")) <= set(ids)


@pytest.mark.long
def test_equal_findings_give_equal_pages():
    assert default_page() == page_of(findings())


# -- in a browser -----------------------------------------------------------------------------------------------------

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--enable-logging=stderr", "--v=0", "--window-size=1000,900", "--virtual-time-budget=4000", "--dump-dom"),
)


def in_browser(tmp_path, text):
    """The document after its scripts have run, and the lines of the console."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    profile = tmp_path / "profile"
    run = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.long
@needs_chromium
def test_every_chart_is_drawn_without_a_word_on_the_console(tmp_path):
    found = findings(names=("loss", EVIL), group=np.arange(1000) // 2 % 3)
    document, console = in_browser(tmp_path, page_of(found))
    assert console == []
    figures = re.findall(r'<figure class="chart drawn" data-chart="([\w-]+)".*?</figure>', document, re.S)
    assert figures == list(charts_of(found))
    for figure in re.findall(r"<figure.*?</figure>", document, re.S):
        assert "<svg" in figure
        assert "mark-" in figure


@pytest.mark.long
@needs_chromium
def test_the_control_follows_the_slider(tmp_path):
    program = """
      function move(id, value) {
        var input = document.getElementById(id);
        input.value = value;
        input.dispatchEvent(new Event("input"));
        return ["tpr-out", "tpr-limits", "ppv-out", "sentence", "fpr-number", "prior-number"].map(function (name) {
          var e = document.getElementById(name); return e.value || e.textContent; });
      }
      var told = [move("fpr-number", "10"), move("fpr-slider", "0"), move("prior-number", "1"),
                  move("fpr-slider", "-4"), move("fpr-number", "1000")];
      document.title = JSON.stringify(told);
    """
    found = findings()
    text = page_of(found).replace("script-src ", f"script-src {page_frame.digest(program)} ")
    before, end, after = text.rpartition("</body>")
    document, console = in_browser(tmp_path, f"{before}<script>{program}</script>{end}{after}")
    assert console == []
    title = re.search(r"<title>(.*?)</title>", document, re.S).group(1)
    ten, all_of_them, rare, tiny, nonsense = json.loads(html_library.unescape(title))
    metric = next(m for m in found["metrics"] if m["name"] == "tpr_at_fpr_0.1")
    assert ten[0] == definition.amount(metric["name"], metric["value"])
    assert ten[1] == Metric(**metric).interval
    assert ten[2] == audit_charts.percent(metric["precision"]["value"])
    assert all_of_them[0] == "100%"
    assert all_of_them[2] == "50%"
    assert rare[2] == "1%"
    assert rare[3].startswith("Of 100 people accused, about 1 ")
    assert tiny[0].startswith("≤ ")
    assert tiny[3].startswith("Not resolvable, upper limit only")
    assert nonsense[:4] == tiny[:4]


# -- the first screen --------------------------------------------------------------------------------------------------


def first_screen(text):
    return text[: text.index('<section aria-label="Key numbers">')]


@pytest.mark.long
def test_the_first_screen_tells_finding_meaning_steps_and_plan():
    found = typed(findings())
    screen, words = Page(first_screen(audit_page.page(found))).words, found.in_words
    limits = [text for row in limit_rows(found.verdict.limits) for text in (row["limit"], row["measured"])]
    assert len(limits) == 2 * len(found.plan["limits"])
    for text in (words.said, words.meaning, words.plan, *limits, *(step.text for step in words.steps)):
        assert text in screen
    commands = [step.command for step in words.steps if step.command]
    assert commands
    assert all(html_library.escape(command, quote=False) in default_page() for command in commands)
    assert (
        html_library.unescape(re.search(r'<pre class="slide">(.*?)</pre>', default_page(), re.S).group(1))
        == words.slide
    )


@pytest.mark.long
def test_what_is_stated_is_on_the_first_screen_and_escaped():
    about = {
        "model": EVIL,
        "version": "2",
        "owner": None,
        "purpose": None,
        "data": None,
        "by": "us",
        "date": "2026-03-01",
    }
    text = page_of({**findings(), "about": about})
    assert "version 2 · Audited by us · 2026-03-01" in Page(first_screen(text)).words
    assert "<script>alert" not in text
    assert "2026-03-01" not in default_page()  # no clock


@pytest.mark.long
def test_an_effect_is_on_the_first_screen_in_no_units_of_the_score():
    found = typed(findings(primary_metric="ate", threshold_for_concern=0.3))
    text = audit_page.page(found)
    screen = text[: text.index('id="h-roc"')]
    effect = found.metric("ate")
    shown = re.findall(r"[\d.]*\d", Page(screen).words)
    for number in (effect.value, effect.low, effect.high, 0.3):
        assert definition.amount("ate", number) not in shown
    assert 'data-chart="verdict"' not in text
    assert "such pairs" in Page(screen).words
    assert found.verdict.text.removeprefix("Concern: w") in Page(text).words  # further down, beside the table
    in_rates = Page(first_screen(default_page())).words
    rates = typed(findings())  # a control
    assert definition.amount(rates.verdict.metric, rates.verdict.low, "down") in in_rates


@pytest.mark.long
def test_privacy_parameters_are_explained_where_they_first_stand():
    text = Page(default_page()).words
    for symbol in ("μ", "ε"):
        assert text.index(f"{symbol} says") == text.index(symbol)
    assert text.count("μ says") == 1


@pytest.mark.thorough
@pytest.mark.long
def test_a_page_links_to_the_figures_beside_it_and_to_no_others(tmp_path):
    from miaudit.report import kinds

    found = typed(findings())
    assert kinds.write(found, tmp_path / "out") == ""
    links = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8")).attributes("href")
    files = [link for link in links if not link.startswith(("#", "data:"))]
    assert len(files) == 2 * len(charts_of(findings()))
    assert all((tmp_path / "out" / link).is_file() for link in files)
    found.to_html(tmp_path / "alone.html")
    alone = Page((tmp_path / "alone.html").read_text(encoding="utf-8")).attributes("href")
    assert all(link.startswith(("#", "data:")) for link in alone)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "emptied", "reason"),
    [
        ("roc-log", {"n": 30}, "No curve on log axes: so few non-members"),
        ("groups", {"group": np.zeros(1000, dtype=int)}, ""),
        ("bounds", {"gap": 0.0}, ""),
    ],
)
def test_a_chart_that_would_be_mostly_empty_is_left_out_with_its_reason(name, emptied, reason):
    full = findings(group=np.arange(1000) // 2 % 3)
    assert name in charts_of(full)  # a control
    found = findings(**emptied)
    assert name not in charts_of(found)
    assert reason in Page(page_of(found)).words


@pytest.mark.long
def test_a_histogram_of_one_bar_is_left_out_with_its_reason():
    crowded = findings()
    shape = crowded["scores"][0]["distribution"]
    bins = len(shape["members"])
    for kind in ("members", "nonmembers"):
        shape[kind] = [0.95, *[0.05 / (bins - 1)] * (bins - 1)]
    assert "distribution" not in charts_of(crowded)
    assert "No histogram: at least 95% of the scores of either class lie in one bin" in Page(page_of(crowded)).words
    assert "distribution" in charts_of(findings())


@pytest.mark.long
def test_an_undeclared_audit_says_once_that_it_is_not_answered_and_its_cards_have_short_numbers():
    text = page_of(findings(design=None))
    lead = re.search(r'<p class="lead">(.*?)</p>', text, re.S).group(1)
    assert lead.startswith("It is not declared how membership was decided. ")
    card = re.search(r'<dt>Surest members</dt><dd class="big">(.*?)</dd><dd class="small">(.*?)</dd>', text).groups()
    assert re.fullmatch(r"[\d,]+ of [\d,]+", card[0])
    assert card[1].startswith("highest scores are members: ")
    assert "<dt>categories</dt><dd>none</dd>" in text
