"""Charts: one specification each, which Vega-Lite accepts, and no value where the evidence resolves none."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit.findings.audit import Findings
from miaudit.report import audit_charts, drawing


def findings(n=1000, **options):
    rng = np.random.default_rng(1)
    member = np.arange(n) % 2 == 0
    score = rng.normal(size=n) + 1.2 * member
    more = {key: options.pop(key) for key in ("group", "unit") if key in options}
    names = options.pop("names", ("loss",))
    scores = {name: score + i * rng.normal(size=n) for i, name in enumerate(names)}
    evidence = ma.Evidence(score=scores, member=member, design=options.pop("design", "one-run"), **more)
    return ma.audit(evidence, plan=ma.Plan(**options), rng=np.random.default_rng(0)).to_dict()


def typed(found):
    """Findings, which tests change as plain values."""
    return Findings.from_dict(found) if isinstance(found, dict) else found


def charts_of(found):
    return audit_charts.charts(typed(found))


def values(spec):
    """Every row of data in a specification."""
    shared = [row for rows in spec.get("datasets", {}).values() for row in rows]
    return shared + [row for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])]


@pytest.mark.long
def test_the_charts_of_a_page_are_built_without_altair():
    code = (
        "import sys, json, gzip; from miaudit.findings.audit import Findings\n"
        "from miaudit.report import kinds, page_frame\n"
        "found = Findings.from_dict(json.loads(gzip.open(sys.argv[1]).read()))\n"
        "assert len(page_frame.built(kinds.charts(found)).specs) > 3\n"
        "assert 'altair' not in sys.modules and 'vl_convert' not in sys.modules\n"
        "found.plot(); sys.exit(0 if 'altair' in sys.modules else 9)"
    )
    frozen = Path(__file__).parents[1] / "frozen" / "files" / "findings" / "one-run.json.gz"
    assert subprocess.run([sys.executable, "-c", code, str(frozen)], check=False).returncode == 0


@pytest.mark.long
def test_which_charts_there_are():
    assert list(charts_of(findings())) == ["verdict", "roc-log", "roc-linear", "distribution", "bounds"]
    assert "groups" in charts_of(findings(group=np.arange(1000) // 2 % 2))
    assert "verdict" not in charts_of(findings(design="zero-run"))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"names": ("loss", "margin", 'a<b>&"c"')},
        {"group": np.arange(1000) // 2 % 4},
        {"design": "zero-run"},
        {"n": 40, "fpr_targets": (0.001,)},
        {"primary_metric": "auc"},
        {"primary_metric": "ate", "threshold_for_concern": 3.0},
    ],
)
def test_charts_follow_the_schema_and_render(options):
    for chart in charts_of(findings(**options)).values():
        spec = chart.to_dict()  # checked against the schema of Vega-Lite
        assert spec["title"]["text"]
        assert len(spec["description"]) > 20
        drawn = drawing.svg(spec)
        assert drawn.startswith("<svg")
        assert "NaN" not in drawn
        assert "Infinity" not in drawn


@pytest.mark.long
def test_equal_findings_give_equal_pictures():
    first, second = (charts_of(findings()) for _ in range(2))
    for name in first:
        assert drawing.svg(first[name].to_dict()) == drawing.svg(second[name].to_dict())


@pytest.mark.long
def test_no_curve_where_it_is_not_resolved():
    found = findings()
    limit = found["counts"]["smallest_fpr"]
    assert limit == pytest.approx(3.69 / 500)
    measured = [row["fpr"] for row in values(charts_of(found)["roc-log"].to_dict()) if "score" in row]
    assert min(measured) == pytest.approx(limit)


@pytest.mark.long
def test_resolution_pays_for_several_scores():
    assert findings(names=("a", "b", "c"))["counts"]["smallest_fpr"] > findings()["counts"]["smallest_fpr"]


@pytest.mark.long
def test_an_unresolved_target_is_told_as_a_limit():
    found = findings(fpr_targets=(0.001,), limits={"tpr_at_fpr_0.001": 0.02})
    chart = charts_of(found)["roc-log"].to_dict()
    assert "only a limit" in " ".join(chart["title"]["text"])
    assert "at most" in chart["description"]


@pytest.mark.long
def test_zero_run_is_labelled():
    for chart in charts_of(findings(design="zero-run", group=np.arange(1000) // 2 % 2)).values():
        assert chart.to_dict()["title"]["text"][0].startswith("Raw, not causal")


@pytest.mark.thorough
@pytest.mark.long
def test_many_scores_and_groups_stay_readable():
    found = findings(names=tuple(f"score {i}" for i in range(12)))
    rows = values(charts_of(found)["roc-linear"].to_dict())
    assert len({row["score"] for row in rows if "score" in row}) == 8
    found = findings(n=3000, group=np.arange(3000) // 2 % 60)
    rows = values(charts_of(found)["groups"].to_dict())
    assert len({row["group"] for row in rows if "group" in row}) == 40


@pytest.mark.long
def test_long_names_stay_distinct():
    found = findings(names=["x" * 60 + "1", "x" * 60 + "2"])
    rows = values(charts_of(found)["roc-linear"].to_dict())
    assert len({row["score"] for row in rows if "score" in row}) == 2


@pytest.mark.long
def test_specifications_fetch_nothing():
    for chart in charts_of(findings(group=np.arange(1000) // 2 % 2)).values():
        text = json.dumps({key: value for key, value in chart.to_dict().items() if key != "$schema"})
        assert "http" not in text
        assert '"url"' not in text


@pytest.mark.long
def test_words_over_lines_have_a_halo():
    layers = charts_of(findings(n=240))["roc-log"].to_dict()["layer"]
    texts = [layer["mark"] for layer in layers if layer["mark"]["type"] == "text"]
    halos = [mark for mark in texts if "stroke" in mark]
    assert len(halos) == len(texts) / 2 == 2  # of the zone, and of the targets
    assert all("stroke" in mark for mark in texts[::2])
