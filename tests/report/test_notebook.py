"""Findings in a notebook: what is shown is what was found, and text from data stays text."""

from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.plan import Plan
from miaudit.report import notebook
from report.test_html import EVIL, Page


@cache
def audited(design="one-run"):
    rng = np.random.default_rng(0)
    member = rng.random(1500) < 0.5
    held = ma.Evidence(score=rng.normal(size=1500) + member, member=member, design=design)
    return ma.audit(held, plan=Plan(bounds=None), rng=rng)


def test_a_cell_shows_verdict_metrics_and_curve():
    text = audited()._repr_html_()
    page = Page(text)
    assert audited().verdict.text.split(".")[0] in text
    assert f"{audited().metric('auc').value:.3f}" in text
    assert "data:image/svg+xml" in text
    assert not page.scripts


@pytest.mark.parametrize("place", ["verdict", "source"])
def test_text_from_data_is_escaped(place):
    content = audited().to_dict()
    if place == "verdict":
        content["verdict"]["text"] = EVIL
    else:
        content["scores"][0]["score"] = content["evidence"]["source"] = EVIL
    text = notebook.cell(content)
    assert EVIL not in text
    assert not Page(text).scripts


def test_zero_run_numbers_are_called_raw():
    content = ma.audit(
        ma.Evidence(score=np.arange(60.0), member=np.arange(60) % 2 == 0, design="zero-run"),
        plan=Plan(bounds=None, raw_only=True),
        rng=np.random.default_rng(0),
    ).to_dict()
    text = notebook.cell(content)
    assert ("raw, not causal" in text) == bool(content["metrics"])
