"""Audits of extraction where nothing was learned: a real model that saw no passage, and log-probabilities by chance.

With ``-s --replicates 1000`` it prints what ``docs/text.md`` says.
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
from validity.claims import Claims

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings() -> dict[str, object]:
    forms: dict[str, dict[str, object]] = yaml.safe_load((Path(run.__file__).parent / "config.yaml").read_text())
    return forms["tiny"]


@pytest.mark.validity
@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_that_saw_no_passage_shows_none(
    claim: Claims, seed: int, settings: dict[str, object], tmp_path: Path
) -> None:
    """Members are drawn by coins over passages, a part of them a licence that the model knows from elsewhere."""
    first, second = np.random.default_rng(seed).spawn(2)
    world = run.World.of(settings, first)
    held, answers = run.asked(world, np.zeros(len(world.passages), dtype=np.int64), settings, tmp_path, second)
    plan = run.plan_of(settings)
    alone = ExtractionPlan(plan.prefix, plan.suffix, confidence=0.95)

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        found = run.redrawn(held, answers, plan, 1, rng)
        drawn = replace(held, member=rng.random(len(held.ids)) < 0.5, times=None, text=None, top1=None)
        status = audit_extraction(drawn, alone, design="one-run").verdict.status
        # By log-probabilities alone: one way, and so the largest error. Naively: without controls a licence is memory.
        return {"flagged": found["flagged"], "by log-probabilities": status == "flagged", "naively": found["naively"]}

    claim(replicate, holds={"flagged": 0.025, "by log-probabilities": 0.025}, fails={"naively": 0.025})
    assert run.boilerplate_in_members(held, world, answers, plan) == "flagged"  # controls must be like members


@pytest.mark.validity
@pytest.mark.parametrize("boilerplate", [0.02, 0.2, 0.5])
def test_synthetic_log_probabilities_show_none(claim: Claims, boilerplate: float) -> None:
    n, tokens = 300, 24

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        known = rng.random(n) < boilerplate
        log_p = -rng.exponential(np.where(known, 0.02, 3.0)[:, None], (n, tokens)).ravel()
        records = TokenRecords(
            tuple(map(str, range(n))), rng.random(n) < 0.5, log_p, tokens * np.arange(n + 1), top1=log_p > -0.1
        )
        found = audit_extraction(records, ExtractionPlan(prefix=8, suffix=16), design="one-run")
        out = round((found.members.value or 0.0) * found.counts["members"])
        return {
            "flagged": found.verdict.status == "flagged",
            "0 missed": not all(way.difference.low <= 0 <= way.difference.high for way in found.ways),
            "naively": clopper_pearson(out, found.counts["members"], 0.95)[0] > 0,
        }

    claim(replicate, holds={"flagged": 0.025, "0 missed": 0.05}, fails={"naively": 0.025})
