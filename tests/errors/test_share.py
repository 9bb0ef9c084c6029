"""A share may be written as 0.05 or as 5% at every door, and a message names the share that was meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import miaudit as ma
from miaudit.config import disclosure
from miaudit.config.audit import AuditConfig
from miaudit.errors import InputError, share
from miaudit.findings import policy

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    member = np.arange(600) % 2 == 0
    np.savez("t.npz", score=rng.normal(size=600) + member, member=member)
    return tmp_path


@pytest.mark.parametrize("text", ["7%", " 7 %", "+7.0%", "0.7e1%"])
def test_a_percent_is_its_hundredth_exactly(text: str) -> None:
    assert share.read(text) == 0.07


@pytest.mark.parametrize("value", ["7", "seven%", "%", "7%%", "7% of them", 7, 0.07, None, True])
def test_nothing_else_changes(value: object) -> None:
    assert share.read(value) is value


def test_percents_on_the_command_line_are_the_same_audit(place: Path, run: Run) -> None:
    numbers = ("--fpr-targets", "0.01,0.1", "--confidence", "0.9", "--prior", "0.2", "--levels", "0.01,0.02,0.03")
    percents = ("--fpr", "1%,10 %", "--confidence", "90%", "--prior", "20%", "--levels", "1%,2%,3%")
    limits = ("--limit", "tpr_at_fpr_0.01=0.07"), ("--limit", "tpr_at_fpr_1%=7%")
    plans = []
    for words, limit in zip((numbers, percents), limits, strict=True):
        code, out, err = run("audit", "t.npz", "--design", "one-run", "--json", *words, *limit)
        assert code in (0, 3, 4), err
        plans.append(json.loads(out)["plan"])
    assert plans[0] == plans[1]
    assert plans[0]["confidence"] == 0.9


def test_percents_in_a_configuration_are_numbers() -> None:
    base = {"evaluation": {"table_path": "t.npz", "confidence": "90%"}}
    written = {
        "attack": {"fpr_targets": "1%"},
        "reporting": {"limits": {"auc": "60%", "tpr_at_fpr_0.01": "5%"}, "prior": "20%"},
    }
    plan = AuditConfig.model_validate({**base, **written}).plan()
    assert (plan.fpr_targets, plan.confidence, plan.prior) == ((0.01,), 0.9, 0.2)
    assert dict(plan.limits or ()) == {"auc": 0.6, "tpr_at_fpr_0.01": 0.05}
    one = {
        "reporting": {"primary_metric": "tpr_at_fpr_0.01", "threshold_for_concern": "5%", "levels": ["1%", 0.02, "3%"]}
    }
    plan = AuditConfig.model_validate({**base, **one}).plan()
    assert (plan.threshold_for_concern, plan.levels) == (0.05, (0.01, 0.02, 0.03))


def test_a_percent_where_no_share_belongs_is_refused(place: Path, run: Run) -> None:
    for limits in ({"epsilon": "150%"}, ["epsilon=150%"]):
        with pytest.raises(InputError, match="a number for epsilon"):
            policy.checked(limits)
    with pytest.raises(ValueError, match="epsilon"):
        AuditConfig.model_validate({"evaluation": {"table_path": "t.npz"}, "privacy": {"claim": {"epsilon": "5%"}}})
    code, _, err = run("audit", "t.npz", "--claim-epsilon", "5%")
    assert (code, "--claim-epsilon" in err) == (2, True)


MEANT = {  # what was typed, and what the message proposes
    ("--confidence", "95"): "write 0.95 for 95%",
    ("--confidence", "90"): "write 0.9 for 90%",
    ("--prior", "20"): "write 0.2 for 20%",
    ("--fpr-targets", "0.01,2"): "write 0.02 for 2%",
    ("--limit", "tpr_at_fpr_0.01=7"): "write 0.07 for 7%",
    ("--limit", "auc=60"): "write 0.6 for 60%",
    ("--limit", "surest_members=95"): "write 0.95 for 95%",
}


@pytest.mark.parametrize("number", range(len(MEANT)))
def test_a_message_names_the_share_that_was_meant(number: int, place: Path, run: Run) -> None:
    words, proposal = list(MEANT.items())[number]
    code, _, err = run("audit", "t.npz", "--design", "one-run", *words)
    assert code == 1
    assert proposal in err
    assert err.count("\n") == 1


def test_a_threshold_of_a_metric_too(place: Path, run: Run) -> None:
    words = ("--primary-metric", "tpr_at_fpr_0.01", "--threshold-for-concern", "7")
    code, _, err = run("audit", "t.npz", "--design", "one-run", *words)
    assert (code, "write 0.07 for 7%" in err) == (1, True)


def test_a_word_is_refused_as_neither(place: Path, run: Run) -> None:
    code, _, err = run("audit", "t.npz", "--confidence", "high")
    assert code == 2
    assert "a percent" in err
    with pytest.raises(InputError, match=r"auc=0\.6"):
        policy.checked(["auc=high"])


def test_a_hint_is_no_value_that_is_refused_again() -> None:
    with pytest.raises(InputError, match=r"write 0\.95 for 95%") as caught:
        ma.Plan(confidence=20)  # 0.2 is refused too
    assert "0.2" not in str(caught.value)


def test_the_file_of_disclosure_reads_percents_too() -> None:
    assert disclosure.EvaluationSection.model_validate({"confidence": "90%"}).confidence == 0.9
    assert disclosure.AttackSection.model_validate({"fpr_targets": ["1%", 0.1]}).fpr_targets == (0.01, 0.1)
    assert disclosure.AttackSection.model_validate({"fpr_targets": "5%"}).fpr_targets == (0.05,)
