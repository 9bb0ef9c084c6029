"""Records that two audits share: how they are matched, and what is done where nothing identifies them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Split
from miaudit.auditing.paired_records import Audited, correlations
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError
from miaudit.findings.comparison import compare

N = 1200
QUICK = Plan(bounds=None, fpr_targets=(0.01, 0.1), primary_metric="auc")
HARD = np.random.default_rng(0).normal(size=N)
HALF = np.random.default_rng(1).permutation(N) < N // 2
NAMES = np.array([f"p{i}" for i in range(N)])


def audited(name, member, rows=None, *, seed=0, id=None, plan=QUICK, more=None, **fields):
    """An audit of some of the same records, in an order of its own; ``fields`` and ids are given for all of them."""
    rng = np.random.default_rng([seed, 9])
    rows = rng.permutation(N) if rows is None else rows
    score = (HARD + 0.4 * rng.normal(size=N) + 0.6 * member)[rows]
    scores = score if more is None else {"score": score, "other": more[rows]}
    held = {key: np.asarray(value)[rows] for key, value in fields.items()}
    evidence = ma.Evidence(score=scores, member=member[rows], design="one-run", **held)
    findings = ma.audit(evidence, plan=plan, rng=rng)
    return Audited(name, findings, evidence, None if id is None else np.asarray(id)[rows])


def both(other=~HALF, **fields):
    return audited("a", HALF, seed=1, **fields), audited("b", other, seed=2, **fields)


def texts():
    return np.array([f"text {i}" for i in range(N)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ({"unit": NAMES}, "unit"),
        ({"id": NAMES}, "id"),
        ({"id": np.arange(N)}, "id"),
        ({"text": texts()}, "text"),
        ({"covariates": HARD[:, None], "covariate_names": None}, "covariates"),
    ],
)
def test_records_are_matched_in_any_order(fields, by):
    """Opposite halves: what makes a record easy to find raises one estimate and lowers the other."""
    fields = {key: value for key, value in fields.items() if value is not None}
    opposite, same = correlations(*both(**fields)), correlations(*both(HALF, **fields))
    assert opposite.correlation["auc"] < -0.6 and same.correlation["auc"] > 0.6
    assert f"{N:,} records in common" in opposite.text and f"matched by {by})" in opposite.text
    assert set(opposite.correlation) == {"auc", "ate", "tpr_at_fpr_0.01", "tpr_at_fpr_0.1"}


def test_the_interval_uses_the_correlation():
    a, b = both(unit=NAMES)
    found = {c.name: c for c in compare(a.findings, b.findings, shared=correlations(a, b)).changes}
    alone = {c.name: c for c in compare(a.findings, b.findings).changes}
    for name, change in found.items():
        if change.value is None:
            continue
        assert alone[name].low <= change.low <= change.high <= alone[name].high
    assert found["auc"].high - found["auc"].low < 0.99 * (alone["auc"].high - alone["auc"].low)


@pytest.mark.long
def test_part_of_the_records_is_shared():
    a = audited("a", HALF, np.arange(800), seed=1, unit=NAMES)
    b = audited("b", HALF, np.arange(400, N), seed=2, unit=NAMES)
    shared = correlations(a, b)
    assert "400 records in common (800 in a and 800 in b; matched by unit)" in shared.text
    whole = correlations(*both(HALF, unit=NAMES)).correlation["auc"]
    assert shared.correlation["auc"] == pytest.approx(whole / 2, abs=0.1)
    apart = correlations(
        audited("a", HALF, np.arange(600), seed=1, unit=NAMES),
        audited("b", HALF, np.arange(600, N), seed=2, unit=NAMES),
    )
    assert set(apart.correlation.values()) == {0.0}


def test_a_position_identifies_nothing():
    """Scores alone in the same order: the same records perhaps, and nothing says so."""
    rows = np.arange(N)
    shared = correlations(audited("a", HALF, rows, seed=1), audited("b", ~HALF, rows, seed=2))
    assert shared.correlation == {} and "nothing identifies the records" in shared.text
    groups = correlations(
        audited("a", HALF, rows, seed=1, group=rows % 3), audited("b", ~HALF, rows, seed=2, group=rows % 3)
    )
    assert groups.correlation == {}


def test_rows_that_repeat_count_as_opposed():
    """Two records of each row: nobody knows which is which, and the correlation may not be taken for 0."""
    pairs = (np.arange(N) // 2).astype(float)[:, None]
    shared = correlations(*both(HALF, covariates=pairs))
    assert shared.correlation["auc"] < -0.5 and "cannot be told apart" in shared.text
    some = np.arange(N).astype(float)
    some[:100] = 0.0
    few = correlations(*both(HALF, covariates=some[:, None]))
    assert few.correlation["auc"] > 0.5 and "100 more records of a cannot be told apart (1 different rows)" in few.text


def test_rows_of_another_coding_are_not_taken_for_other_records():
    """Nothing tells the two apart: without a common row the limits stay wide. Names are taken at their word."""
    rows = np.arange(N).astype(float)[:, None]
    a = audited("a", HALF, seed=1, covariates=rows)
    recoded = correlations(a, audited("b", ~HALF, seed=2, covariates=rows + 0.25))
    assert recoded.correlation == {} and "coded in another way" in recoded.text
    some = rows + 0.25 * (rows > 100)
    assert correlations(a, audited("b", ~HALF, seed=2, covariates=some)).correlation["auc"] != 0


def test_values_that_were_filled_do_not_hide_a_record():
    """The median that stands in for a missing value is that of its file."""
    gap = np.arange(N) % 5 == 0
    sides = []
    for name, member, median in (("a", HALF, 31.0), ("b", ~HALF, 32.0)):
        x = np.column_stack([np.where(gap, median, 40.0), gap.astype(float), np.arange(N)])
        one = audited(name, member, seed=int(median), covariates=x)
        named = one.evidence.replace(covariate_names=("age", "age missing", "number"))
        sides.append(
            replace(
                one,
                evidence=named,
                findings=replace(one.findings, evidence={**one.findings.evidence, "digest": named.digest}),
            )
        )
    assert f"{N:,} records in common" in correlations(*sides).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"unit": NAMES[np.arange(N) // 2]}, "only one of the audits has units"),
        ({"id": NAMES}, "nothing identifies"),
        ({"covariates": HARD[:, None]}, "nothing identifies"),
    ],
)
def test_what_only_one_audit_has_identifies_nothing(fields, said):
    shared = correlations(audited("a", HALF, seed=1, **fields), audited("b", ~HALF, seed=2))
    assert shared.correlation == {} and said in shared.text and "adds the half-widths" in shared.text


@pytest.mark.long
def test_units_of_several_records_are_matched_as_units():
    unit = NAMES[np.arange(N) // 3]
    member = HALF[np.arange(N) // 3]
    shared = correlations(audited("a", member, seed=1, unit=unit), audited("b", ~member, seed=2, unit=unit))
    assert f"{N // 3:,} units in common" in shared.text


def test_other_evidence_than_that_of_the_findings_is_refused():
    a, b = both(unit=NAMES)
    with pytest.raises(InputError, match="the evidence that a was audited on"):
        Audited("a", a.findings, b.evidence)
    with pytest.raises(InputError, match="one for each record"):
        Audited("a", a.findings, a.evidence, np.arange(3))
    assert correlations(Audited("a", a.findings), b) is None


def test_findings_about_a_part_of_the_records_have_no_correlation():
    """A split measures the score on records that findings do not name."""
    plan = Plan(bounds=None, headline=Split(), primary_metric="auc")
    noise = np.random.default_rng(8).normal(size=N)
    a, b = (
        audited(name, m, seed=s, plan=plan, more=noise, unit=NAMES) for name, m, s in (("a", HALF, 1), ("b", ~HALF, 2))
    )
    shared = correlations(a, b)
    assert shared.correlation == {} and "not about all records" in shared.text


def test_several_runs_and_zero_run_audits_add_the_half_widths():
    a, b = both(unit=NAMES)
    zero = replace(a, findings=replace(a.findings, design="zero-run"))
    assert "corrected estimates" in correlations(zero, b).text
    runs = ma.Evidence.of_runs([a.evidence, b.evidence])
    several = Audited("c", replace(a.findings, evidence={**a.findings.evidence, "digest": runs.digest}), runs)
    assert "several runs" in correlations(several, b).text
