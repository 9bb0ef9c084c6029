"""Levels that are left out: the audit is the one of the other records, and the answer says what it holds for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.auditing import outlook
from miaudit.auditing.case import choose
from miaudit.auditing.excluded_levels import excluded
from miaudit.auditing.headline import Split
from miaudit.bundle import record
from miaudit.bundle.verify import verify
from miaudit.errors import InputError
from miaudit.io.level_names import MISSING

PLAN = Plan(categories=("race",), bounds=None, propensity_model="line", estimator="hajek", primary_metric="auc")
LEFT = replace(PLAN, exclude_levels=("race=r1",))


def sampled(n: int = 1200, seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    member, age = rng.random(n) < 0.5, rng.normal(size=n)
    race = np.where(member & (rng.random(n) < 0.3), 1.0, rng.choice([0.0, 2.0], size=n))
    score = {"a": rng.normal(size=n) + 0.4 * member, "b": rng.normal(size=n)}
    return Evidence(
        score=score,
        member=member,
        covariates=np.c_[age, race],
        covariate_names=["age", "race"],
        levels={"race": {0.0: "r0", 1.0: "r1", 2.0: "r,2"}},
        design="zero-run",
    )


def test_the_audit_is_that_of_the_other_records() -> None:
    evidence = sampled()
    rows = np.asarray(evidence.covariates)[:, 1] != 1
    of_rest = audit(evidence.take(rows), plan=PLAN, rng=0)
    left_out = audit(evidence, plan=LEFT, rng=0)
    assert left_out.metrics == of_rest.metrics
    assert left_out.verdict == of_rest.verdict
    assert left_out.counts == of_rest.counts
    assert left_out.evidence["digest"] == evidence.digest
    assert left_out.excluded is not None
    assert left_out.excluded.levels == ("race = r1",)
    assert left_out.excluded.members == np.count_nonzero(~rows) == evidence.n_members - left_out.counts.members
    assert "The answer holds for the other members only" in left_out.ahead[0]
    assert of_rest.ahead == ()  # the control: nothing was left out, and nothing is said


def test_rows_are_counted_in_all_of_the_evidence() -> None:
    evidence = sampled()
    case = choose(evidence, replace(LEFT, headline=Split(0.3)), rng=np.random.default_rng(0))
    assert case.rows is not None
    assert np.array_equal(evidence.scores["a"][case.rows], case.audited.scores["a"])
    assert not (np.asarray(case.audited.covariates)[:, 1] == 1).any()


def test_several_levels_and_one_with_a_comma() -> None:
    left, what = excluded(sampled(), ["race=r1", "race=r,2"])
    assert what.levels == ("race = r1", "race = r,2")
    assert set(np.asarray(sampled().covariates)[left, 1]) == {0.0}


def test_a_level_of_numbers_is_a_number() -> None:
    evidence = sampled().replace(levels={})
    assert np.array_equal(excluded(evidence, ["race=1"])[0], excluded(evidence, ["race=1.0"])[0])
    unnamed = evidence.replace(covariate_names=())
    assert np.array_equal(excluded(unnamed, ["covariate 1=1"])[0], excluded(evidence, ["race=1"])[0])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("race=r9", r"a level of race \(r0, r1, r,2\), received 'race=r9'"),
        ("rase=r1", r"with a covariate \(age, race\), received 'rase=r1'; did you mean race"),
        ("size=r1", "name it in the covariates too"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(wanted: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        excluded(sampled(), [wanted])


def test_what_is_missing_is_a_level_too() -> None:
    evidence = sampled().replace(levels={"race": {0.0: MISSING, 1.0: "r1", 2.0: "r2"}})
    assert np.array_equal(excluded(evidence, ["race="])[0], excluded(evidence, [f"race={MISSING}"])[0])


def test_a_class_without_records_is_refused() -> None:
    with pytest.raises(InputError, match="levels that leave members and non-members, received no members beside"):
        excluded(sampled(), ["race=r0", "race=r1", "race=r,2"])


@pytest.mark.parametrize("wanted", ["race=r1", ("race",), (3,)])
def test_a_plan_takes_pairs_alone(wanted: object) -> None:
    with pytest.raises(InputError, match="exclude_levels: expected texts like COVARIATE=LEVEL"):
        Plan(exclude_levels=wanted)  # type: ignore[arg-type]


def test_a_plan_without_them_is_written_as_before() -> None:
    assert "exclude_levels" not in PLAN.to_dict()
    assert LEFT.to_dict()["exclude_levels"] == ["race=r1"]


def test_the_outlook_foresees_the_audit_without_them_and_recommends_it() -> None:
    evidence, stack = sampled().only("a"), Plan(categories=("race",), bounds=None)
    now = outlook.of(evidence, stack, rng=np.random.default_rng(0))
    assert not now.answered
    assert "(--exclude-levels race=r1)" in now.reasons[0]
    assert "no comparable non-member" not in " ".join(now.reasons)  # the same members, once
    first = now.remedies[0]
    assert first.text.startswith("Leave out race = r1 (--exclude-levels race=r1): ")
    assert first.answered
    assert set(np.asarray(evidence.covariates)[list(first.rows), 1]) == {1.0}
    rest = outlook.of(evidence, replace(stack, exclude_levels=("race=r1",)), rng=np.random.default_rng(0))
    assert rest.answered
    assert rest.members == evidence.n_members - len(first.rows)


def test_a_bundle_gives_the_same_findings_again(tmp_path: Path) -> None:
    evidence = sampled(800).only("a")
    examined, bundle, _ = record(evidence, plan=LEFT, rng=np.random.default_rng(0))
    bundle.write(tmp_path / "b.zip")
    assert examined.findings.excluded is not None
    assert verify(tmp_path / "b.zip").status == "verified"
