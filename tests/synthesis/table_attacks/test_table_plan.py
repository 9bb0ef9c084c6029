"""Options of a table audit: columns that no attack sees, and the plan of the record-wise part."""

from __future__ import annotations

import pytest

from miaudit.auditing.headline import Declared, Split
from miaudit.auditing.plan import Plan
from miaudit.errors import InputError
from miaudit.findings.policy import DEFAULT_LIMITS
from miaudit.synthesis.table_attacks.table_plan import TablePlan, of_scores


@pytest.mark.parametrize("option", ["secrets", "known", "keep"])
def test_a_column_that_no_attack_sees_is_one_line_with_the_reason(option: str) -> None:
    plan = TablePlan(**{option: ("pid",)})
    with pytest.raises(InputError, match=rf"{option}: .*age, job.*'pid', which was left out because all differ; name"):
        plan.check_names(("age", "job"), {"pid": "all differ"})
    with pytest.raises(InputError, match=rf"{option}: .* received 'pid'; name a column of the table"):
        plan.check_names(("age", "job"))
    plan.check_names(("age", "pid"))  # the control


def test_parts_name_columns_too_and_a_slip_is_corrected() -> None:
    with pytest.raises(InputError, match=r"parts: .* received 'agee'; did you mean age"):
        TablePlan(parts=(("agee",), ("job",))).check_names(("age", "job"))


def test_the_fixed_score_decides_without_an_alarm_unless_the_plan_states_otherwise() -> None:
    plan = of_scores(None, 0.9)
    assert plan.headline == Declared("adoption_and_closeness")
    assert (plan.confidence, plan.policy.thresholds, plan.policy.sure) == (0.9, DEFAULT_LIMITS, None)
    stated = of_scores(Plan(headline=Split(), limits={"auc": 0.6}), 0.9)
    assert (stated.headline, stated.policy.thresholds, stated.confidence) == (Split(), {"auc": 0.6}, 0.95)
    one = of_scores(Plan(primary_metric="auc"), 0.95)
    assert one.policy.metrics == ("auc",)
    kept = of_scores(Plan(limits={**DEFAULT_LIMITS, "surest_members": 0.8}), 0.95)
    assert kept.policy.sure == 0.8
