"""Findings in a notebook: what is shown is what was found, and text from data stays text."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.plan import Plan
from miaudit.report import notebook
from report.test_audit_charts import typed
from report.test_audit_page import EVIL, Page


@cache
def audited(design="one-run"):
    rng = np.random.default_rng(0)
    member = rng.random(1500) < 0.5
    held = ma.Evidence(score=rng.normal(size=1500) + member, member=member, design=design)
    return ma.audit(held, plan=Plan(bounds=None), rng=rng)


@pytest.mark.long
def test_a_cell_shows_verdict_metrics_and_curve():
    text = audited()._repr_html_()
    page = Page(text)
    assert audited().verdict.text.split(".")[0].removeprefix("Concern: w") in text
    assert text.count("Concern") == 1
    assert f"{audited().metric('auc').value:.3f}" in text
    assert "data:image/svg+xml" in text
    assert not page.scripts


@pytest.mark.long
def test_a_refuted_claim_is_not_hidden_behind_a_verdict_without_concern():
    rng = np.random.default_rng(0)
    member = rng.random(3000) < 0.5
    held = ma.Evidence(score=rng.normal(size=3000) + member, member=member, design="one-run")
    claim = ma.Claim.epsilon_delta(0.1, 1e-5)
    found = ma.audit(held, plan=Plan(threshold_for_concern=0.9, bounds=ma.Bounds(claim=claim)), rng=rng)
    assert (found.verdict.status, found.claim.status) == ("clear", "refuted")
    text = notebook.cell(typed(found.to_dict()))
    assert "Claim refuted" in text
    assert text.index("epsilon is at least") < text.index("Within the limits")


@pytest.mark.long
@pytest.mark.parametrize("place", ["verdict", "source"])
def test_text_from_data_is_escaped(place):
    content = audited().to_dict()
    if place == "verdict":
        content["verdict"]["text"] = EVIL
    else:
        content["scores"][0]["score"] = content["evidence"]["source"] = EVIL
    text = notebook.cell(typed(content))
    assert EVIL not in text
    assert not Page(text).scripts


@pytest.mark.long
def test_zero_run_numbers_are_called_raw():
    content = ma.audit(
        ma.Evidence(score=np.arange(60.0), member=np.arange(60) % 2 == 0, design="zero-run"),
        plan=Plan(bounds=None, raw_only=True),
        rng=np.random.default_rng(0),
    ).to_dict()
    text = notebook.cell(typed(content))
    assert ("raw, not causal" in text) == bool(content["metrics"])


@pytest.mark.long
@pytest.mark.parametrize(("condition", "green"), [("", True), ("if the covariates account for it", False)])
def test_a_verdict_that_holds_on_a_condition_is_not_green(condition, green):
    rng = np.random.default_rng(0)
    member = rng.random(1500) < 0.5
    held = ma.Evidence(score=rng.normal(size=1500), member=member, design="one-run")
    found = ma.audit(held, plan=Plan(limits={"auc": 0.6}, bounds=None), rng=rng)
    assert found.verdict.status == "clear"
    text = notebook.cell(replace(found, verdict=replace(found.verdict, condition=condition, proven="")))
    assert ("#0f5f4a" in text) == green
    assert ("#744a00" in text) != green
