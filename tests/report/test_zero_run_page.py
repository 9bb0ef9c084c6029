"""Zero-run audits on the page: memorisation and shift apart, corrected before raw, and a refusal that is of use."""

import copy
import json
import re
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.findings.audit import Findings
from miaudit.findings.metric import Metric, foremost, named
from miaudit.findings.sensitivity import CovariateStrength, LimitSensitivity, Sensitivity
from miaudit.findings.verdict import CONDITIONS
from miaudit.metrics import definition as wording
from miaudit.report import audit_page, kinds, overlap_charts
from report.test_audit_charts import charts_of, typed
from report.test_audit_page import EVIL, Page, in_browser, needs_chromium, page_of

COVARIATES = ("age", "income", "education", "hours worked", "region north", "region south", "married", "children")


def audited(gap, design, *, n=4000, names=("loss",), group=None, **plan):
    rng = np.random.default_rng(1)
    member = np.arange(n) % 2 == 0
    score = rng.normal(size=n) + gap * member
    scores = {name: score + i * rng.normal(size=n) for i, name in enumerate(names)}
    evidence = ma.Evidence(score=scores, member=member, design=design, group=group, source="acs-2018-2021.parquet")
    return ma.audit(evidence, plan=ma.Plan(**plan), rng=np.random.default_rng(0), repeat={"seed": 0})


def overlap(status, covariates=COVARIATES):
    rng = np.random.default_rng(2)
    refused = status == "refused"
    apart = 1.7 if refused else 0.75
    edges = np.linspace(-4, 4, 33)
    shares = []
    for centre in (apart, -apart):
        drawn = np.clip(rng.normal(centre, 1.1, 4000), -4, 4)
        shares.append((np.histogram(drawn, edges)[0] / 4000).round(6).tolist())
    before = rng.normal(0, 0.45, 2 * len(covariates))
    after = before * rng.uniform(0.0, 0.9 if refused else 0.15, len(before))
    names = [name + square for name in covariates for square in ("", " squared")]
    at = np.linspace(0.05, 0.95, 10)
    seen = np.clip(at + rng.normal(0, 0.02, 10), 0, 1)
    count = rng.integers(150, 700, 10)
    return {
        "status": status,
        "reasons": ["The effective sample size of non-members is 61: at least 100 are needed."] if refused else [],
        "warnings": [] if status == "answered" else ["The largest weight is 8% of the total."],
        "propensity": "Cross-fitted L2 logistic regression with Platt calibration, 5 folds",
        "clipped": 0.0042,
        "blind_auc": 0.861 if refused else 0.689,
        "blind_low": 0.849 if refused else 0.672,
        "blind_high": 0.872 if refused else 0.705,
        "effective_sample_size": 61.3 if refused else 913.4,
        "largest_weight": 0.081 if refused else 0.0113,
        "without_match": 0.22 if refused else 0.0145,
        "features": [
            {"name": name, "before": float(b), "after": float(a)}
            for name, b, a in zip(names, before, after, strict=True)
        ],
        "feature_limit": 0.2,
        "calibration": [
            {"predicted": float(p), "observed": float(o), "count": int(c)}
            for p, o, c in zip(at, seen, count, strict=True)
        ],
        "log_odds": {"edges": edges.tolist(), "members": shares[0], "nonmembers": shares[1]},
        "duplicates": {
            "exact_pairs": 1,
            "near_pairs": 2,
            "members_affected": 3,
            "nonmembers_affected": 3,
            "members_alike": 5,
            "beyond_chance": False,
        },
        "learning": {"half": 0.684, "full": 0.689, "rising": False},
        "fit": {
            "z": 0.8,
            "limit": 3.3,
            "product_z": 1.9,
            "product_limit": 4.0,
            "product": ["age", "hours"],
            "missed": [],
            "rejected": False,
            "sum_z": None,
        },
        "gaps": [],
    }


def memorisation(raw, causal):
    memorised, shift = causal - 0.5, raw - causal
    return {
        "raw": raw,
        "causal": causal,
        "memorisation": memorised,
        "shift": shift,
        "mislabelling": [{"members": 0.05, "nonmembers": 0.0, "auc": 0.64, "low": 0.61, "high": 0.67}],
        "sentence": (
            f"Of the raw AUC of {raw:.3f}, {100 * memorised:.1f} points above chance are memorisation and "
            f"{100 * shift:.1f} are the difference between the two populations."
        ),
    }


def answered(status="answered", gap=0.35, raw_gap=0.75, **options):
    """Findings of a zero-run audit that was answered: the corrected numbers are those of a weaker attack."""
    raw = audited(raw_gap, "zero-run", **options).to_dict()
    weaker = audited(gap, "one-run", **options)
    corrected = replace(weaker, design="zero-run").to_dict()
    for where in (corrected["scores"], corrected["groups"]):
        for found in where:
            for metric in found["metrics"]:
                metric["estimator"] = "hajek"
    for kind in ("scores", "groups"):
        for found, beside in zip(corrected[kind], raw[kind], strict=True):
            found["metrics"] += beside["metrics"]
    corrected["scores"][0]["distribution"] = raw["scores"][0]["distribution"]
    corrected["metrics"] = copy.deepcopy(corrected["scores"][0]["metrics"])
    corrected["overlap"] = overlap(status)
    aucs = {m["estimator"]: m["value"] for m in corrected["metrics"] if m["name"] == "auc"}
    corrected["memorisation"] = memorisation(aucs["raw"], aucs["hajek"])
    limits = (LimitSensitivity("auc", "loss", "low", 0.5, 1.41), LimitSensitivity("mu", "loss", "low", 0.0, 2.2))
    covariates = (CovariateStrength("age", 1.2, 0.001), CovariateStrength("hours", 1.9, -0.04))
    corrected["sensitivity"] = json.loads(json.dumps(asdict(Sensitivity.of(limits, covariates))))
    return Findings.from_dict(corrected).to_dict()


def refused(*, raw_only=False, **options):
    """Findings of a zero-run audit that was refused."""
    found = audited(0.75, "zero-run", **options).to_dict()
    reason = "members and non-members are not comparable (effective sample size 61, at least 100 are needed)."
    word = "Not answered (refused)"
    found["verdict"] |= {"status": "refused", "word": word, "text": f"{word}: {reason}", "low": None, "high": None}
    found["overlap"] = overlap("refused")
    if not raw_only:
        found["metrics"] = []
        for group in found["groups"]:
            group["metrics"], group["note"] = [], ""
        for score in found["scores"]:
            score["metrics"], score["curve"] = [], None
    return Findings.from_dict(found).to_dict()


def cells(text, heading):
    """The rows of the table under a heading: class, name, and the text of the cells."""
    section = text[text.index(f'<h2 id="{heading}"') :]
    body = re.search(r"<tbody>(.*?)</tbody>", section, re.S).group(1)
    rows = []
    for kind, row in re.findall(r'<tr(?: class="(\w+)")?>(.*?)</tr>', body, re.S):
        rows.append((kind, [Page(cell).words for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)]))
    return rows


THREE = np.arange(4000) // 2 % 3


# -- looking a metric up ----------------------------------------------------------------------------------------------


def test_a_corrected_metric_comes_before_a_raw_one():
    pairs = (("auc", "raw"), ("auc", "hajek"), ("ate", "raw"))
    raw, corrected, alone = (Metric(*pair, 0.6, 0.5, 0.7, 0.95) for pair in pairs)
    for metrics in ([raw, corrected], [corrected, raw]):
        assert named(metrics, "auc") is corrected
    assert named([raw], "auc") is raw
    assert named([raw, corrected, alone], "ate") is None
    assert foremost([raw, alone]) == [raw, alone]
    assert foremost([]) == []


@pytest.mark.long
def test_whatever_the_order_the_page_leads_with_the_corrected_numbers():
    found = made("answered")
    turned = copy.deepcopy(found)
    for metrics in (turned["metrics"], *(entry["metrics"] for entry in (*turned["scores"], *turned["groups"]))):
        metrics.reverse()
    corrected = {m["name"]: m for m in found["metrics"] if m["estimator"] == "hajek"}
    for given in (found, turned):
        assert vars(named(typed(given).metrics, "auc")) == corrected["auc"]
        cards = {card[0]: card for card in audit_page._cards(typed(given))}
        assert cards["AUC"][1] == wording.amount("auc", corrected["auc"]["value"])
        assert cards["AUC"][2].startswith("corrected; ")
        control = {point[0]: point[1:] for point in audit_page._control(typed(given))["points"]}
        best = corrected["tpr_at_fpr_0.1"]
        assert control[0.1] == [best["value"], best["low"], best["high"]]
        drawn = {name: chart.to_dict() for name, chart in charts_of(given).items()}
        assert Metric(**corrected["auc"]).reading in " ".join(drawn["roc-linear"]["title"]["text"])
        raw = next(m for m in given["metrics"] if m["name"] == "auc" and m["estimator"] == "raw")
        for name in ("verdict", "roc-log", "roc-linear", "groups"):
            said = json.dumps([drawn[name]["title"], drawn[name]["description"]])
            assert wording.amount("auc", raw["value"]) not in said


# -- the charts -------------------------------------------------------------------------------------------------------


KINDS = {
    "answered": lambda: answered(group=THREE, names=("loss", "margin")),
    "warned": lambda: answered("warned", gap=-0.1, raw_gap=0.3),
    "refused": lambda: refused(group=THREE),
    "raw only": lambda: refused(raw_only=True, group=THREE),
    "one score": answered,
}


@cache
def _made(kind):
    return KINDS[kind]()


def made(kind):
    return copy.deepcopy(_made(kind))


# -- the page ---------------------------------------------------------------------------------------------------------


def test_only_a_refused_audit_says_that_there_is_no_bound():
    sentence = "There is no privacy bound, for the reasons above"
    found = made("one score")
    assert found["bounds"]
    found["overlap"]["reasons"] = found["no_bound"] = []
    assert sentence not in page_of(found)
    found["overlap"]["reasons"] = found["no_bound"] = ["no member has a match"]
    found["bounds"] = []
    assert sentence in page_of(found)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_in_the_page(kind):
    found = made(kind)
    page = Page(page_of(found))
    assert page.attributes("data-chart") == list(charts_of(found))
    assert list(json.loads(page.scripts[0])) == list(charts_of(found))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert set(page.attributes("aria-labelledby")) <= set(ids)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_among_the_figures(kind, tmp_path):
    found = made(kind)
    kinds.rerender(typed(found), tmp_path)
    written = {path.name for path in (tmp_path / "figures").iterdir()}
    assert written == {f"{name}.{suffix}" for name in charts_of(found) for suffix in ("svg", "png")}


@pytest.mark.long
def test_sections_stand_in_order():
    words = Page(page_of(answered(group=THREE))).words
    places = [
        words.index(text)
        for text in (
            "Within the limits",
            "Is the difference memorisation or shift?",
            "Are members and non-members comparable?",
            "How many members an attacker finds, and at what price",
            "All metrics",
            "By group",
            "Memorisation and shift.",
        )
    ]
    assert places == sorted(places)


@pytest.mark.long
def test_memorisation_and_shift_are_two_numbers_with_a_sentence():
    found = made("one score")
    page = Page(page_of(found))
    given = found["memorisation"]
    for key in ("memorisation", "shift"):
        assert f"{key.capitalize()} {overlap_charts.points(given[key])} AUC points" in page.words
    assert given["sentence"] in page.words


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "word"), [("answered", "Answered"), ("warned", "Answered, with a warning"), ("refused", "Refused")]
)
def test_overlap_has_its_badge_and_its_numbers(status, word):
    found = refused() if status == "refused" else answered(status)
    text = page_of(found)
    words = Page(text).words
    assert f'<p class="badge small">{word}</p>' in text
    for said in (*found["overlap"]["reasons"], *found["overlap"]["warnings"]):
        assert said in words
    assert f"Blind AUC {found['overlap']['blind_auc']:.3f}" in words
    assert f"Effective sample size {found['overlap']['effective_sample_size']:.0f}" in words
    assert "Learning curve: from half of the records the covariates reach a blind AUC of 0.684" in words
    found["overlap"]["learning"]["rising"] = True
    assert "not to be trusted yet" in Page(page_of(found)).words
    found["overlap"]["learning"] = None
    assert "Learning curve" not in Page(page_of(found)).words


@pytest.mark.long
def test_raw_rows_are_muted_and_labelled():
    found = made("one score")
    rows = cells(page_of(found), "h-metrics")
    half = len(rows) // 2
    assert [row[-1] for _, row in rows] == ["Hajek weights"] * half + ["raw, not causal"] * half
    assert [kind == "raw" for kind, _ in rows] == [False] * half + [True] * half
    assert all("raw, not causal" in row[0] for _, row in rows[half:])
    limits = [name for name in found["plan"]["limits"] if name != "surest_members"]
    assert [kind for kind, _ in rows].count("primary") == len(limits) == 3  # all of them corrected
    words = Page(page_of(found)).words
    assert "Corrected for shift: Hajek weights" in words
    assert "All numbers: raw, not causal" not in words


@pytest.mark.long
def test_groups_show_the_corrected_number_with_the_raw_one_beside_it():
    found = answered(group=THREE)
    (_, first), *_ = cells(page_of(found), "h-groups")
    metric = named(typed(found).groups[0].metrics, "auc")
    raw = next(m for m in found["groups"][0]["metrics"] if m["name"] == "auc" and m["estimator"] == "raw")
    assert (
        f"{metric.reading.replace('(', '').replace(')', '')} raw, not causal: {wording.amount('auc', raw['value'])}"
        in first
    )
    heads = re.findall(
        r'<th scope="col">(.*?)</th>', page_of(found).partition('<h2 id="h-groups"')[2].partition("</thead>")[0]
    )
    assert len(heads) == len(set(heads)) == 3 + len(foremost(typed(found).metrics))


@pytest.mark.long
def test_a_refusal_says_why_first_and_what_could_be_done():
    found = refused(group=THREE, row_level=2)
    words = Page(page_of(found)).words
    texts = ("Not answered (refused)", "Why this is not answered", found["overlap"]["reasons"][0], "What could be done")
    hints = ("Other non-members", "Other covariates", "A one-run design", "Blind AUC")
    places = [words.index(text) for text in (*texts, *hints)]
    assert places == sorted(places)
    assert "No metric is shown" in words
    assert "Is the difference memorisation or shift?" not in words


@pytest.mark.long
def test_a_refusal_shows_no_raw_number():
    shown = audited(0.75, "zero-run", group=THREE, names=("loss", "margin")).to_dict()
    found = refused(group=THREE, names=("loss", "margin"))
    # Even where the findings would still hold them for a group or another score.
    found["groups"], found["scores"][1] = shown["groups"], shown["scores"][1]
    found["scores"][0]["curve"] = shown["scores"][0]["curve"]
    page = Page(page_of(found))
    everywhere = page.words + " ".join(page.scripts[:2]) + " ".join(page.attributes("aria-label"))
    numbers = set()
    for entry in (*shown["scores"], *shown["groups"]):
        for metric in entry["metrics"]:
            if metric["value"] is not None and metric["low"] is not None:
                exact = {json.dumps(metric[key]) for key in ("value", "low", "high")}
                numbers |= {Metric(**metric).reading, Metric(**metric).interval, *(n for n in exact if len(n) > 6)}
    assert len(numbers) > 50
    assert {number for number in numbers if number in everywhere} == set()
    assert not {"verdict", "roc-log", "roc-linear", "groups"} & set(page.attributes("data-chart"))
    assert json.loads(page.scripts[1]) is None
    assert "All metrics" not in page.words


@pytest.mark.long
def test_a_refusal_shows_raw_numbers_where_they_were_asked_for():
    found = made("raw only")
    text = page_of(found)
    words = Page(text).words
    assert "All numbers: raw, not causal" in words
    assert "No metric is shown" not in words
    assert {row[-1] for _, row in cells(text, "h-metrics")} == {"raw, not causal"}


@pytest.mark.long
def test_a_metric_that_nothing_resolves_is_a_dash():
    found = answered(fpr_targets=(0.001, 0.1))
    for metric in (*found["metrics"], *found["scores"][0]["metrics"]):
        if metric["name"] == "tpr_at_fpr_0.001" and metric["estimator"] == "hajek":
            metric |= {"value": None, "low": None, "high": None, "step_value": None, "precision": None}
    found["verdict"]["metric"] = "tpr_at_fpr_0.001"
    text = page_of(Findings.from_dict(found).to_dict())
    assert "At 0.1% FPR nothing is resolved" in Page(text).words
    assert audit_page._cards(typed(found))[2][1] == "–"


@pytest.mark.long
def test_the_resolution_names_the_effective_sample():
    found = made("one score")
    assert "an effective 913 of 2,000 non-member records" in Page(page_of(found)).words
    said = "an effective 913 of 2,000 non-member records (fewer above a high threshold)"
    assert audit_page._control(typed(found))["nonmembers"] == said
    assert audit_page._control(typed(refused(raw_only=True)))["nonmembers"] == "2,000 non-member records"


@pytest.mark.long
def test_text_of_zero_run_findings_is_escaped():
    found = refused()
    found["overlap"] |= {"reasons": [EVIL], "warnings": [EVIL], "propensity": EVIL}
    found["overlap"]["features"][0]["name"] = EVIL
    text = page_of(found)
    assert "<script>alert" not in text
    assert len(Page(text).scripts) == 5
    found = made("one score")
    found["memorisation"]["sentence"] = EVIL
    text = page_of(found)
    assert "<script>alert" not in text
    assert len(Page(text).scripts) == 5


@pytest.mark.thorough
@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_drawn_without_a_word_on_the_console(kind, tmp_path):
    found = made(kind)
    found["overlap"]["features"][0]["name"] = EVIL
    document, console = in_browser(tmp_path, page_of(found))
    assert console == []
    assert re.findall(r'<figure class="chart drawn" data-chart="([\w-]+)"', document) == list(charts_of(found))


@pytest.mark.long
@pytest.mark.parametrize(("condition", "tone"), [("", "clear"), (CONDITIONS["zero-run"], "warned")])
def test_a_box_is_green_only_where_the_verdict_rests_on_no_condition(condition, tone):
    content = answered(gap=0.0, raw_gap=0.3, primary_metric="auc", bounds=None)
    assert content["verdict"]["status"] == "clear"
    content["verdict"] |= {"condition": condition, "proven": ""}
    text = audit_page.page(typed(content))
    assert f'class="verdict {tone}"' in text
