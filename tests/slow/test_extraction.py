"""Audits of extraction where nothing was learned: a real model that saw no passage, and log-probabilities by chance.

With ``-s`` it prints what ``docs/text.md`` says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("transformers", reason="the extra `text`")

from extraction import run

from miaudit.collect.extraction import ExtractionPlan, audit_extraction
from miaudit.io.token_records import TokenRecords
from miaudit.metrics.classical import clopper_pearson

pytestmark = pytest.mark.slow

AUDITS, MOST = 200, 11  # at nominal 2.5% more than 11 of 200 have a probability below 1%


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    forms: dict[str, dict[str, object]] = yaml.safe_load((Path(run.__file__).parent / "config.yaml").read_text())
    return forms["tiny"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_that_saw_no_passage_shows_none(seed: int, settings: dict[str, object], tmp_path: Path) -> None:
    """Members are drawn by coins over passages, a part of them a licence that the model knows from elsewhere."""
    first, second, coins = np.random.default_rng(seed).spawn(3)
    world = run.World.of(settings, first)
    held, answers = run.asked(world, np.zeros(len(world.passages), dtype=np.int64), settings, tmp_path, second)
    plan = run.plan_of(settings)
    found = run.redrawn(held, answers, plan, AUDITS, coins)
    print(f"\nreal model, seed {seed}: {found}")
    assert found["flagged"] <= MOST
    assert found["naively"] >= 0.9 * AUDITS  # the control that fails: without controls a licence is memory
    alone = ExtractionPlan(plan.prefix, plan.suffix, confidence=0.95)
    flagged = 0  # by log-probabilities alone, one way and so the largest error
    for _ in range(AUDITS):
        member = coins.random(len(held.ids)) < 0.5
        drawn = replace(held, member=member, times=None, text=None, top1=None)
        flagged += audit_extraction(drawn, alone, design="one-run").verdict.status == "flagged"
    print(f"log-probabilities alone: {flagged} of {AUDITS}")
    assert flagged <= MOST
    assert run.boilerplate_in_members(held, world, answers, plan) == "flagged"  # controls must be like members


@pytest.mark.parametrize("boilerplate", [0.02, 0.2, 0.5])
def test_synthetic_log_probabilities_show_none(boilerplate: float) -> None:
    rng = np.random.default_rng(round(1000 * boilerplate))
    n, tokens = 300, 24
    flagged = naive = held = 0
    for _ in range(AUDITS * 5):
        known = rng.random(n) < boilerplate
        log_p = -rng.exponential(np.where(known, 0.02, 3.0)[:, None], (n, tokens)).ravel()
        records = TokenRecords(
            tuple(map(str, range(n))), rng.random(n) < 0.5, log_p, tokens * np.arange(n + 1), top1=log_p > -0.1
        )
        found = audit_extraction(records, ExtractionPlan(prefix=8, suffix=16), design="one-run")
        flagged += found.verdict.status == "flagged"
        out = round((found.members.value or 0.0) * found.counts["members"])
        naive += clopper_pearson(out, found.counts["members"], 0.95)[0] > 0
        held += all(way.difference.low <= 0 <= way.difference.high for way in found.ways)
    print(f"\nsynthetic, boilerplate {boilerplate}: {flagged} of {AUDITS * 5} flagged, {naive} naively, {held} hold 0")
    assert flagged <= 0.025 * AUDITS * 5 + 3 * np.sqrt(0.025 * AUDITS * 5)
    assert held >= 0.95 * AUDITS * 5
    assert naive >= 0.9 * AUDITS * 5
