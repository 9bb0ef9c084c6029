"""Which kinds of records leak, in an audit: what is measured, in which words, and why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit import bundle
from miaudit.auditing.headline import Exploratory
from miaudit.bundle.verify import verify
from miaudit.findings.by_covariates import ByCovariates
from worlds import leaking_kinds

PLAN = ma.Plan(fpr_targets=(0.1,), by_covariates=True, bounds=None)


def _result(evidence: ma.Evidence, plan: ma.Plan = PLAN, seed: int = 0) -> ByCovariates:
    result = ma.audit(evidence, plan=plan, rng=seed).by_covariates
    assert result is not None
    return result


def _evidence(effect: str, n: int = 6000, **options: float) -> ma.Evidence:
    return leaking_kinds.world(effect, n, np.random.default_rng(1), **options).evidence


def test_two_groups_are_named_where_they_differ() -> None:
    result = _result(_evidence("step"))
    assert result.difference is not None
    assert result.difference.established
    first, second = (one for one in (result.difference.first, result.difference.second))
    assert "age above 6" in first
    assert result.text.startswith(f"Some kinds of records leak more than others. Records with {first}: AUC 0.")
    assert f"Records with {second}: AUC 0." in result.text
    assert "The AUC among alike changes with covariates, the others kept equal: age: from its median" in result.text
    assert (result.learned, result.measured) == (2999, 3001)


def test_no_group_is_named_where_nothing_leaks() -> None:
    result = _result(_evidence("none"))
    assert result.text.startswith("No difference between kinds of records was seen. A difference in AUC of 0.")
    assert "is established in 4 of 5 such audits. No covariate is seen to go with the effect." in result.text
    assert not any(one.group in result.text for one in result.groups)


def test_a_smooth_effect_is_told_by_its_line() -> None:
    """Too weak a difference for two groups, and a slope all the same: the text says which is which."""
    result = _result(_evidence("line", 1500), seed=2)
    assert result.difference is not None
    assert not result.difference.established
    if any(one.established for one in result.slopes):
        assert "No difference between two groups of records was established." in result.text


def test_the_verdict_and_all_other_numbers_stay() -> None:
    evidence = _evidence("step")
    plain = ma.audit(evidence, plan=ma.Plan(fpr_targets=(0.1,), bounds=None), rng=3).to_dict()
    more = ma.audit(evidence, plan=PLAN, rng=3).to_dict()
    assert plain.pop("by_covariates") is None
    assert more.pop("by_covariates")["groups"]
    assert more["plan"].pop("by_covariates") is True
    assert plain == more


def test_zero_run_groups_are_corrected() -> None:
    result = _result(_evidence("step", shift=1.0))
    assert result.difference is not None
    assert result.difference.established
    assert "age above" in result.difference.first


def test_several_scores_are_paid_for() -> None:
    evidence = _evidence("step", 2000)
    two = evidence.replace(score={"one": evidence.score, "two": -evidence.score})
    assert _result(two).confidence == pytest.approx(0.975)
    assert _result(evidence).confidence == 0.95


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"covariates": None, "covariate_names": None}, "there are no covariates to describe them by"),
        ({"design": None}, "it is not declared how membership was decided"),
    ],
    ids=["covariates", "design"],
)
def test_not_measured(change: dict[str, object], reason: str) -> None:
    result = _result(_evidence("step", 2000).replace(**change))
    assert result.text == f"Which kinds of records leak was not measured: {reason}."
    assert (result.groups, result.slopes, result.difference) == ((), (), None)


def test_few_records_are_refused_in_a_sentence() -> None:
    result = _result(_evidence("step", 300))
    assert "was not measured: evidence: expected at least 200 members, received" in result.text
    assert result.groups == ()


def test_a_refused_audit_has_no_groups() -> None:
    """Members and non-members that cannot be compared as a whole cannot be compared by group either."""
    evidence = _evidence("step", 2000)
    columns = np.column_stack([evidence.covariates, evidence.member])
    names = [*leaking_kinds.NAMES, "member"]
    result = _result(evidence.replace(design="zero-run", covariates=columns, covariate_names=names))
    assert result.text == "Which kinds of records leak was not measured: the audit has no answer."


def test_exploratory_scores_are_called_so() -> None:
    evidence = _evidence("step", 2000)
    two = evidence.replace(score={"one": evidence.score, "two": -evidence.score})
    plan = ma.Plan(fpr_targets=(0.1,), by_covariates=True, bounds=None, headline=Exploratory())
    assert _result(two, plan).text.startswith("Exploratory, since the score was chosen on the same records.")


def test_equal_seeds_give_equal_groups_and_others_may_not() -> None:
    evidence = _evidence("step", 2000)
    assert _result(evidence, seed=4) == _result(evidence, seed=4)


@pytest.mark.parametrize("share", ["all", "scores", "hashes"])
def test_a_bundle_verifies_and_keeps_covariates_to_itself(share: str, tmp_path: Path) -> None:
    evidence = _evidence("step", 1000)
    shared = bundle.record(evidence, plan=PLAN, share=share, rng=np.random.default_rng(0))[1]
    assert (shared.findings.by_covariates is not None) == (share == "all")
    shared.write(tmp_path / "audit.zip")
    assert verify(tmp_path / "audit.zip").exit_code == (4 if share == "hashes" else 0)
