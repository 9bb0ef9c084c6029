"""Privacy bounds in findings and on the page: what is claimed, what is shown, what is void, why nothing is given."""

import copy
import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from frozen.make import sample
from miaudit.causal.challenge import Challenge
from miaudit.dp.verdict import ClaimVerdict, LowerBound, RocLimit
from miaudit.errors import InputError
from miaudit.findings.audit import Findings
from miaudit.findings.kinds import from_dict
from miaudit.report import kinds, page_frame
from report.test_audit_charts import charts_of, typed
from report.test_audit_page import EVIL, Page, in_browser, needs_chromium, page_of
from report.test_zero_run_page import cells

GROUPS = np.array(["region: north-east, urban, over 65", "region: north-east, urban, under 65", "elsewhere"])
MU = LowerBound(
    "mu",
    0.62,
    0.95,
    "Mahloujifar et al.",
    p_value=3.1e-9,
    correct=812,
    guesses=1200,
    canaries=4000,
    reachable=2.9,
    assumptions=("Canaries were put in by independent fair coins.", "The mechanism is mu-GDP for a single record."),
    corrections=("Bonferroni over 10 numbers of guesses.",),
)
EPSILON = LowerBound(
    "epsilon",
    1.31,
    0.95,
    "Steinke et al.",
    delta=1e-5,
    p_value=2.2e-8,
    correct=812,
    guesses=1200,
    canaries=4000,
    reachable=5.4,
    assumptions=("Canaries were put in by independent fair coins.",),
)
WON = Challenge(
    2.4e-7,
    0.1,
    0.62,
    0.05,
    1161,
    2000,
    "HistGradientBoostingClassifier",
    ("HistGradientBoostingClassifier", "GaussianNB"),
    rejected=True,
    text="The propensity is refuted: gradient boosting foresees membership better than it allows.",
)
LOST = replace(WON, p_value=0.41, smallest_gamma=0.0, correct=1003, rejected=False, text="The propensity stands.")


def limit(epsilon, delta):
    fpr = np.r_[0.0, np.geomspace(1e-4, 1, 120)]
    tpr = np.minimum(np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr))
    return RocLimit(tuple(fpr.tolist()), tuple(np.clip(tpr, 0, 1).tolist()))


def gaussian_limit(mu):
    fpr = np.linspace(0, 1, 101)
    return RocLimit(tuple(fpr.tolist()), tuple(stats.norm.cdf(stats.norm.ppf(fpr) + mu).tolist()))


REFUTED = ClaimVerdict(
    "epsilon",
    1.0,
    1e-5,
    "refuted",
    "Refuted: with 95% confidence epsilon is at least 1.31 at delta 1e-05, above the claimed 1.",
    lower=1.31,
    upper=2.75,
    upper_from="DP-SGD, noise 1.1, 2,000 steps; PRV accountant",
    gap=1.44,
    reachable=5.4,
    limit=limit(1.0, 1e-5),
)


def audited(design, gap=0.9, **options):
    rng = np.random.default_rng(1)
    n = 4000
    member = np.arange(n) % 2 == 0
    group = GROUPS[np.arange(n) // 2 % 3] if options.pop("grouped", False) else None
    names = options.pop("names", ("loss",))
    score = rng.normal(size=n) + gap * member
    scores = {name: score + i * rng.normal(size=n) for i, name in enumerate(names)}
    evidence = ma.Evidence(score=scores, member=member, design=design, group=group, source="scores.npz")
    plan = ma.Plan(fpr_targets=(0.01, 0.1), **options)
    return ma.audit(evidence, plan=plan, rng=np.random.default_rng(0), repeat={"seed": 0})


@cache
def one_run():
    """One-run evidence with bounds; the claim is refuted."""
    names = ("loss", "a margin of the two largest logits, averaged over 16 augmentations")
    return replace(audited("one-run", names=names, grouped=True), bounds=(EPSILON, MU), claim=REFUTED)


@cache
def challenged():
    """Zero-run evidence: another model refutes the propensity."""
    claim = ClaimVerdict(
        "mu", 0.5, 0.0, "not-testable", "Not testable: the propensity is refuted.", limit=gaussian_limit(0.5)
    )
    return replace(
        audited("zero-run", gap=0.4),
        challenge=WON,
        claim=claim,
        no_bound=("Another model refutes the propensity at its margin of 0.1.",),
    )


@cache
def untestable():
    """Zero-run evidence whose covariates are too many for a bound; nothing was claimed."""
    return replace(
        audited("zero-run", gap=0.0),
        challenge=LOST,
        no_bound=("There are 12 records for each covariate: at least 40 are needed.", "Nobody declared the margin."),
    )


KINDS = {"one-run": one_run, "challenged": challenged, "not testable": untestable}


def content(kind):
    return copy.deepcopy(KINDS[kind]().to_dict())


# -- the findings -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_findings_come_back_from_a_file(kind, tmp_path):
    path = tmp_path / "findings.json"
    path.write_text(KINDS[kind]().to_json(), encoding="utf-8")
    read = Findings.read(path).to_dict()
    assert read == content(kind)
    found = KINDS[kind]()
    assert [LowerBound(**bound) for bound in tuples(read["bounds"])] == list(found.bounds)
    for name, record in (("claim", ClaimVerdict), ("challenge", Challenge)):
        held = tuples(read[name])
        if held and held.get("limit"):
            held["limit"] = RocLimit(**held["limit"])
        assert (held and record(**held)) == getattr(found, name)
    assert read["no_bound"] == list(found.no_bound)


def tuples(value):
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


@pytest.mark.long
def test_a_bound_holds_the_fields_of_the_contract():
    for bound in content("one-run")["bounds"]:
        assert {"parameter", "value", "confidence", "method", "corrections"} <= set(bound)


@pytest.mark.long
def test_a_margin_without_end_and_an_infinite_theorem_become_null():
    endless = replace(challenged(), challenge=replace(WON, smallest_gamma=math.inf))
    assert Findings.from_dict(endless.to_dict()).challenge.smallest_gamma is None
    loose = replace(one_run(), claim=replace(REFUTED, upper=math.inf, gap=math.inf)).to_dict()
    assert Findings.from_dict(loose).claim.upper is None
    assert "no theorem" not in Page(page_of(loose)).words


VERDICTS = {"flagged": 3, "clear": 0, "inconclusive": 4, "not-testable": 4, "refused": 4}
CLAIMS = {None: 0, "refuted": 3, "not-refuted": 0, "not-testable": 4}


@pytest.mark.parametrize("status", VERDICTS)
@pytest.mark.parametrize("claimed", CLAIMS)
def test_exit_code_of_verdict_and_claim(status, claimed):
    found = one_run()
    claim = None if claimed is None else replace(REFUTED, status=claimed)
    found = replace(found, verdict=replace(found.verdict, status=status), claim=claim)
    both = {VERDICTS[status], CLAIMS[claimed]}
    expected = 3 if 3 in both else 4 if 4 in both else 0
    assert found.exit_code == expected
    plain = found.to_dict()
    assert plain["exit_code"] == expected
    assert plain["verdict"]["exit_code"] == VERDICTS[status]


def put(*path, value):
    def change(plain):
        for key in path[:-1]:
            plain = plain[key]
        plain[path[-1]] = value

    return change


BROKEN = {
    "an unknown parameter": put("bounds", 0, "parameter", value="rho"),
    "a negative bound": put("bounds", 0, "value", value=-0.1),
    "a bound without assumptions": lambda plain: plain["bounds"][0].pop("assumptions"),
    "a delta of one": put("bounds", 0, "delta", value=1.0),
    "a p-value above one": put("bounds", 0, "p_value", value=1.2),
    "an unknown status": put("claim", "status", value="proved"),
    "a claim without a sentence": put("claim", "text", value=""),
    "a limit above one": put("claim", "limit", "tpr", 0, value=1.1),
    "a limit of one point": put("claim", "limit", "fpr", value=[0.0]),
    "one reason instead of a list": put("no_bound", value="too few records"),
    "an unknown exit code": put("exit_code", value=1),
}


@pytest.mark.long
@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_what_does_not_follow_the_schema_is_refused(change):
    plain = content("one-run")
    Findings.from_dict(plain)
    change(plain)
    with pytest.raises(InputError):
        Findings.from_dict(plain)


@pytest.mark.parametrize("name", ["challenge", "claim", "bounds"])
def test_every_field_is_in_its_section_of_the_documentation(name):
    text = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    told = text[text.index(f"\n## `{name}`") :].split("\n## ")[1]
    record = {"challenge": "Challenge", "claim": "ClaimVerdict", "bounds": "LowerBound"}[name]
    fields = Findings.json_schema()["$defs"][record]["properties"]
    assert [field for field in fields if f"`{field}`" not in told] == []


# -- the charts -------------------------------------------------------------------------------------------------------


# -- the page ---------------------------------------------------------------------------------------------------------


def section(text):
    """The section of privacy bounds: its markup and its words."""
    start = text.index('<section aria-labelledby="h-bounds"')
    markup = text[start : text.index("</section>", start)]
    return markup, Page(markup).words


@pytest.mark.long
def test_a_page_without_bounds_has_no_such_section():
    plain = audited("one-run").to_dict() | {"bounds": [], "no_bound": [], "claim": None, "challenge": None}
    words = Page(page_of(plain)).words
    assert "Privacy bounds" not in words
    assert "limit of the claim" not in words


@pytest.mark.long
def test_claim_bounds_and_assumptions_stand_in_order():
    markup, words = section(page_of(content("one-run")))
    order = ("Claim refuted", REFUTED.text, "Largest reachable", "Parameter", "What the bounds assume")
    places = [words.index(text) for text in order]
    assert places == sorted(places)
    for text in ("≥ 1.31", "≤ 2.75", "1.44", "5.4", REFUTED.upper_from):
        assert text in words
    assert [row for _, row in cells(markup, "h-bounds")] == [
        [
            "ε at δ = 1e-5",
            "≥ 1.31 at most 5.4 could show",
            "95%",
            "Steinke et al. 812 of 1,200 guesses right; 4,000 canaries; p = 2.2e-08 of no effect at all",
            "none",
        ],
        [
            "μ",
            "≥ 0.62 at most 2.9 could show",
            "95%",
            "Mahloujifar et al. 812 of 1,200 guesses right; 4,000 canaries; p = 3.1e-09 of no effect at all",
            "Bonferroni over 10 numbers of guesses.",
        ],
    ]
    assert words.count("independent fair coins") == 1
    assert 'class="finding flagged"' in markup
    assert "No privacy bound" not in words
    assert Page(page_of(content("one-run"))).words.index("Claim refuted") < words.index("Privacy bounds") + 2000


@pytest.mark.long
def test_a_refuted_propensity_voids_the_bounds():
    plain = content("challenged")
    _, words = section(page_of(plain))
    order = ("Propensity refuted: the bounds are void", WON.text, "Claim not testable", "No privacy bound")
    places = [words.index(text) for text in order]
    assert places == sorted(places)
    assert "1,161 of 2,000 guesses" in words
    assert "HistGradientBoostingClassifier, GaussianNB" in words
    # Bounds that stand there all the same are marked, and not drawn.
    plain["bounds"] = content("one-run")["bounds"]
    text = page_of(plain)
    assert all(row[0].endswith("void") for _, row in cells(text, "h-bounds"))
    assert 'data-chart="bounds"' not in text
    assert typed(plain).is_void
    plain["challenge"]["rejected"] = False
    assert 'data-chart="bounds"' in page_of(plain)


@pytest.mark.long
def test_reasons_stand_under_no_privacy_bound():
    plain = content("not testable")
    markup, words = section(page_of(plain))
    listed = markup[markup.index("No privacy bound") :]
    assert re.findall(r"<li>(.*?)</li>", listed) == plain["no_bound"]
    assert "<table" not in markup
    assert "void" not in words
    assert "The propensity stands." in words


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_never_no_leakage(kind):
    assert "no leakage" not in Page(page_of(content(kind))).words.lower()


@pytest.mark.long
def test_the_verdict_points_to_the_claim():
    page = page_of(content("one-run"))
    tags = re.search(r'<ul class="tags">(.*?)</ul>', page, re.S).group(1)
    assert '<a href="#h-bounds">Claim refuted</a>' in tags


@pytest.mark.long
def test_text_from_data_is_escaped():
    plain = content("one-run")
    plain["challenge"] = content("challenged")["challenge"]
    for key in ("text", "competitor"):
        plain["challenge"][key] = EVIL
    plain["challenge"]["competitors"] = plain["no_bound"] = [EVIL]
    plain["claim"]["text"] = plain["claim"]["upper_from"] = EVIL
    for bound in plain["bounds"]:
        bound["method"], bound["corrections"], bound["assumptions"] = EVIL, [EVIL], [EVIL]
    for rejected in (True, False):
        plain["challenge"]["rejected"] = rejected
        text = page_of(plain)
        assert "<script>alert" not in text
        assert len(Page(text).scripts) == 5
        words = section(text)[1]
        assert words.count(" ".join(EVIL.split())) >= 8


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_charts(kind):
    plain = content(kind)
    page = Page(page_of(plain))
    assert page.attributes("data-chart") == list(charts_of(plain))
    assert list(json.loads(page.scripts[0])) == list(charts_of(plain))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert set(page.attributes("aria-labelledby")) <= set(ids)
    assert {href[1:] for href in page.attributes("href") if href.startswith("#")} <= set(ids)


MEASURE = """
  window.addEventListener("load", function () { setTimeout(function () {
    var seen = document.documentElement, names = document.querySelectorAll(":not(.dense)>*>tbody th:not(.name)");
    var widths = Array.prototype.map.call(names, function (name) { return name.clientWidth; });
    parent.postMessage([seen.scrollWidth, seen.clientWidth, Math.min.apply(null, widths)], "*");
  }, 1500); });
"""
AROUND = """<!doctype html><title></title><iframe src="inner.html" width="WIDTH" height="800"></iframe><script>
  window.addEventListener("message", function (event) { document.title = JSON.stringify(event.data); });
</script>"""


@pytest.mark.thorough
@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize("width", [360, 390, 900])
def test_the_page_fits_its_window(tmp_path, width):
    text = page_of(content("one-run")).replace("script-src ", f"script-src {page_frame.digest(MEASURE)} ")
    before, end, after = text.rpartition("</body>")
    # A window has a least width, a frame has none
    (tmp_path / "inner.html").write_text(f"{before}<script>{MEASURE}</script>{end}{after}", encoding="utf-8")
    document, console = in_browser(tmp_path, AROUND.replace("WIDTH", str(width)))
    assert console == []
    whole, seen, narrowest = json.loads(re.search(r"<title>(.*?)</title>", document, re.S).group(1))
    assert seen <= width
    assert whole <= seen
    assert narrowest >= 160


@pytest.mark.long
def test_a_refuted_claim_leads_where_the_metric_alone_would_be_clear():
    found = replace(one_run(), verdict=replace(one_run().verdict, status="clear"))
    top = page_of(found).split('<section id="verdict"')[1].split("</section>")[0]
    assert top.startswith(' class="verdict flagged"')
    assert "Claim refuted" in top
    assert "Within the limits" not in top.split("</h2>")[0]


@pytest.mark.long
def test_a_claim_that_is_not_refuted_is_not_shown_in_green():
    plain = replace(one_run(), claim=replace(REFUTED, status="not-refuted", upper=None)).to_dict()
    markup, words = section(page_of(plain))
    assert "Claim not refuted" in words
    assert 'class="finding inconclusive"' in markup
    assert 'class="finding clear"' not in markup


def test_a_page_with_bounds_does_not_say_that_there_are_none():
    found = from_dict(json.loads(sample("zero-run-stack")))
    assert found.overlap is not None
    assert found.bounds
    text = kinds.page(found)
    assert "There is no privacy bound" not in text
    refused = from_dict(json.loads(sample("refused")))
    assert "There is no privacy bound, for the reasons above" in kinds.page(refused)
