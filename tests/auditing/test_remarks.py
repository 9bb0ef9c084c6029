"""What evidence and scores call for saying, and that sound ones call for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from miaudit import Evidence, Plan, audit
from miaudit.auditing import remarks
from miaudit.auditing.headline import Declared
from miaudit.metrics.classical import Sample

RNG = np.random.default_rng(0)
MEMBER = np.arange(400) % 2 == 0
FAIR = RNG.normal(size=400) + 0.3 * MEMBER


def said(score: dict[str, np.ndarray], plan: Plan) -> str:
    evidence = Evidence(score=score, member=MEMBER, design="one-run")
    return " ".join(audit(evidence, plan=plan, rng=np.random.default_rng(0)).notes)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (FAIR, ""),
        (FAIR - 2.0 * MEMBER, "The AUC of loss is clearly below one half: members have lower values"),
        (np.zeros(400), "Every record has the same loss: this attack says nothing of anybody."),
        (np.where(MEMBER, 1, -1) * np.repeat(RNG.normal(size=200), 2), "scores of members and non-members oppose"),
    ],
)
def test_scores_that_look_wrong_are_named(score: np.ndarray, words: str) -> None:
    found = said({"loss": score}, Plan(primary_metric="auc", bounds=None))
    assert words in found
    assert any(mark in found for mark in ("below one half", "this attack says", "oppose each other")) == bool(words)


@pytest.mark.parametrize("digits", [8, 0])
def test_ranks_come_from_the_one_sort(digits: int) -> None:
    sample = Sample.of(Evidence(score=FAIR.round(digits), member=MEMBER))
    for kept in (MEMBER, ~MEMBER):
        assert remarks._ranks(sample, kept).tolist() == (rankdata(FAIR.round(digits)[kept])).tolist()


def test_a_louder_score_than_the_declared_one_is_mentioned() -> None:
    plan = Plan(primary_metric="auc", bounds=None, headline=Declared("quiet"))
    louder = "The score loud exceeds a limit, though quiet was declared"
    assert louder in said({"quiet": RNG.normal(size=400), "loud": FAIR + MEMBER}, plan)
    assert louder not in said({"quiet": RNG.normal(size=400), "loud": RNG.normal(size=400)}, plan)


def test_equal_rows_on_one_side_are_remarked_where_no_unit_says_so() -> None:
    x = RNG.normal(size=(400, 2))
    x[MEMBER] = np.repeat(x[MEMBER][:100], 2, axis=0)
    evidence = Evidence(score=FAIR, member=MEMBER, covariates=x, design="zero-run")
    assert len(remarks.beforehand(evidence, None)) == 1
    unit = np.arange(400)
    unit[MEMBER] = np.repeat(np.arange(100), 2)
    assert remarks.beforehand(evidence.replace(unit=unit), None) == ()
    assert remarks.beforehand(evidence.replace(covariates=RNG.normal(size=(400, 2))), None) == ()


@pytest.mark.long
def test_where_populations_differ_a_low_raw_auc_may_be_their_difference() -> None:
    x = RNG.normal(size=400) + MEMBER
    evidence = Evidence(score=RNG.normal(size=400) - 2 * x, member=MEMBER, covariates=x, design="zero-run")
    found = " ".join(audit(evidence, plan=Plan(primary_metric="auc", bounds=None), rng=np.random.default_rng(0)).notes)
    assert "The raw AUC of score is clearly below one half" in found
    assert "by the difference between the two populations, or as losses do" in found


@pytest.mark.parametrize("design", ["one-run", "multi-run", None])
def test_a_constant_score_has_no_verdict(design):
    member = np.arange(400) % 2 == 0
    found = audit(Evidence(score=np.ones(400), member=member, design=design), plan=Plan(bounds=None), rng=0)
    assert (found.verdict.status, found.exit_code) == ("not-testable", 4)
    assert "Every record has the same score" in found.verdict.text
    assert "Every record has the same" in "".join(found.notes)
    assert "every record has the same" in found.in_words.said
    varied = np.random.default_rng(0).normal(size=400)
    beside = Evidence(score={"same": np.ones(400), "varied": varied}, member=member, design="one-run")
    assert audit(beside, plan=Plan(bounds=None), rng=0).verdict.status != "not-testable"  # the control
