"""A reference by shadow models: each record scored by one that did not learn it, as a test of zero-run corrections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from miaudit import Plan, Reference, audit
from miaudit.auditing.reference import SHADOW_MODELS
from miaudit.collect import run_campaign
from miaudit.collect.campaign import Campaign, Draws, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import Answers
from miaudit.errors import InputError
from miaudit.findings.audit import ScoreFindings
from miaudit.models.targets import SklearnTarget

LINE = SklearnTarget(LogisticRegression())
TREE = SklearnTarget(DecisionTreeClassifier())


def campaign(
    target: SklearnTarget = LINE, *, trait: float = 0.0, n: int = 1000, seed: int = 0, **options: Any
) -> Campaign:
    """Members differ by two covariates, and by a trait that nobody recorded and that makes labels noisy."""
    rng = np.random.default_rng([5, seed])
    known, hidden, x = rng.normal(size=(n, 2)), rng.normal(size=n), rng.normal(size=(n, 4))
    noise = np.exp(-1.5 * (hidden if trait else known[:, 0]))
    y = (x[:, 0] + x[:, 1] + 0.4 * noise * rng.normal(size=n) > 0).astype(int)
    member = rng.random(n) < 1 / (1 + np.exp(-0.7 * known[:, 0] - 0.3 * known[:, 1] - trait * hidden))
    records = Records(x.astype(np.float32), y, member, {"covariates": known, **options.pop("fields", {})}, "labels")
    given = {"design": "zero-run", "attacks": ("loss",), "shadows": Shadows(models=8), "reference": True, **options}
    return Campaign(target, records, **given)


def audited(made: Campaign, seed: int = 0) -> ScoreFindings:
    found = run_campaign.collect(made, rng=np.random.default_rng(seed))
    plan = Plan(primary_metric="auc", bounds=None, propensity_model="line", reference=Reference(test=SHADOW_MODELS))
    return audit(found.evidence, plan=plan, notes=found.notes, rng=np.random.default_rng(seed))


def test_each_record_is_asked_of_a_model_that_did_not_learn_it_and_compared_with_the_others() -> None:
    made = campaign(TREE, n=60)
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(1)), None)
    found, shadows = answers.of_shadow_models(), answers.shadows
    assert shadows is not None and found.shadows is not None and found.shadows.models == shadows.models - 1
    chosen = set()
    for i in range(60):  # the slow twin
        rows = [shadows.model(m)[i].tolist() for m in range(8)]
        others = [found.shadows.model(m)[i].tolist() for m in range(7)]
        candidates = [
            m
            for m in range(8)
            if not shadows.included[m, i]
            and rows[m] == found.outputs[i].tolist()
            and rows[:m] + rows[m + 1 :] == others
            and np.delete(shadows.included[:, i], m).tolist() == found.shadows.included[:, i].tolist()
        ]
        assert candidates, i
        chosen.add(candidates[0])
    assert len(chosen) > 4


def test_other_scores_are_what_they_are_without_a_reference() -> None:
    made = campaign(TREE, n=80, attacks=("lira_online", "loss", "gaussian_lira"))
    one, other = (
        run_campaign.collect(replace(made, reference=wanted), rng=np.random.default_rng(2)).evidence
        for wanted in (True, False)
    )
    assert set(one.scores) - set(other.scores) == {SHADOW_MODELS}
    assert all(np.array_equal(one.scores[name], other.scores[name]) for name in other.scores)


def test_a_unit_is_asked_of_models_that_learned_none_of_its_records() -> None:
    made = campaign(TREE, n=80, fields={"unit": np.arange(80) // 4})
    answers = Answers.of(made, Draws.of(made, np.random.default_rng(1)), None)
    right = np.asarray(answers.of_shadow_models().outputs).argmax(axis=1) == made.records.y
    assert right.mean() < 0.95
    learned = np.asarray(answers.outputs).argmax(axis=1) == made.records.y
    assert learned[made.records.member].all()  # the control: a tree knows what it learned


@pytest.mark.long
def test_what_covariates_leave_out_is_refuted_and_a_leak_is_not() -> None:
    missed = audited(campaign(trait=1.5))
    assert missed.verdict.status == "refused" and missed.exit_code == 4
    assert missed.reference is not None and missed.reference.refuted
    assert "A model that did not learn the record would have shown an AUC of" in missed.reference.text
    assert "did not learn it" in missed.reference.conditions
    leak = audited(campaign(TREE))
    assert leak.verdict.status == "flagged"
    assert leak.reference is not None and not leak.reference.refuted
    assert any(note.startswith(f"{SHADOW_MODELS}: loss as it would be") for note in leak.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"design": "one-run"}, "none, unless the design is zero-run"),
        ({"shadows": Shadows()}, "shadow.models: expected 2 or more"),
        ({"shadows": Shadows(models=2), "attacks": ("lira_online",)}, "shadow.models: expected"),
    ],
)
def test_what_gives_no_reference_is_refused_before_anything_is_trained(changes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_campaign.collect(replace(campaign(n=40), **changes), rng=np.random.default_rng(0))


def test_it_is_no_covariate() -> None:
    with pytest.raises(InputError, match="use it as test"):
        Reference(covariate=SHADOW_MODELS, trained_on_neither=True)
