"""The record of limits: what may be stated, and what every door makes of it."""

import pytest
from typer.testing import CliRunner

import miaudit as ma
from miaudit.command.program import app
from miaudit.config import audit as audit_config
from miaudit.errors import InputError
from miaudit.findings.policy import DEFAULT_LIMITS, OF_COMMANDS, Policy, checked


def test_the_default_limits_are_those_of_the_documents():
    policy = Policy.of(None)
    assert policy.thresholds == {"tpr_at_fpr_0.001": 0.02, "tpr_at_fpr_0.01": 0.05, "tpr_at_fpr_0.1": 0.25}
    assert (policy.sure, policy.stated) == (0.9, False)
    assert ma.Plan().policy == policy
    assert OF_COMMANDS == {"extraction": 0.05, "copies": 0.0}


def test_stated_limits_replace_all_and_switch_the_alarm_off():
    policy = Policy.of({"auc": 0.6})
    assert (policy.thresholds, policy.sure, policy.stated) == ({"auc": 0.6}, None, True)
    assert Policy.of({"auc": 0.6, "surest_members": 0.8}).sure == 0.8


def test_limits_equal_to_the_default_ones_are_called_so():
    assert not Policy.of({**DEFAULT_LIMITS, "surest_members": 0.9}).stated
    assert Policy.of(DEFAULT_LIMITS).stated  # without the alarm they are others


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        ({}, "a limit or more"),
        ({"auc": 1.5}, r"\[0, 1\) for auc"),
        ({"auc": 1}, r"\[0, 1\) for auc"),  # nothing lies above it
        ({"auc": "0.6"}, "a number for auc"),
        ({"auc": True}, "a number for auc"),
        ({"auc": float("nan")}, "a number for auc"),
        ({"aux": 0.6}, "did you mean auc"),
        ({"surest_members": 0.4}, r"\(0.5, 1\)"),
        ({"epsilon": -1}, "0 or more for epsilon"),
        ({"tpr_at_fpr_1.5": 0.5}, r"an FPR in \(0, 1\)"),
        ({"tpr_at_fpr_0.01": 0.1, "tpr_at_fpr_0.010": 0.2}, "each name once"),
        (["auc"], "NAME=NUMBER.*write auc=0.6"),
        (["ate=x"], "NAME=NUMBER.*write ate=0.6"),
        (["used=ten"], "NAME=NUMBER.*write used=0.05"),
        ({"used": 2}, "for used, received 2; write 0.02 for 2%"),
        ("auc=0.6", "names with numbers"),
        (5, "names with numbers"),
        ([("auc",)], "names with numbers"),
    ],
)
def test_what_is_no_limit_is_refused_in_one_line(limits, match):
    with pytest.raises(InputError, match=match):
        checked(limits)


def test_limits_go_beside_no_primary_metric():
    for other in ({"primary_metric": "auc"}, {"threshold_for_concern": 0.1}):
        with pytest.raises(InputError, match="beside limits") as error:
            ma.Plan(limits={"auc": 0.6}, **other)
        assert next(iter(other)) in str(error.value)
        assert "limits" in str(error.value)


def test_a_primary_metric_means_that_one_limit():
    paper = ma.Plan(primary_metric="tpr_at_fpr_0.001", threshold_for_concern=0.05)
    assert paper.policy.thresholds == {"tpr_at_fpr_0.001": 0.05}
    assert paper.policy.sure is None
    assert ma.Plan(primary_metric="auc").policy.thresholds == {"auc": 0.55}


def test_a_threshold_alone_is_of_every_target_below_it():
    """More records change which targets are resolved, never which ones count."""
    assert ma.Plan(threshold_for_concern=0.05).policy.thresholds == {"tpr_at_fpr_0.001": 0.05, "tpr_at_fpr_0.01": 0.05}
    assert ma.Plan(threshold_for_concern=0.0).policy.thresholds == {"tpr_at_fpr_0.001": 0.0}


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        ({"copies": 0.1}, "copies"),
        ({"extraction": 0.1}, "extraction"),
        ({"surest_members": 0.9}, "a limit beside surest_members"),
    ],
)
def test_a_plan_refuses_limits_that_an_audit_of_scores_does_not_measure(limits, match):
    with pytest.raises(InputError, match=match):
        ma.Plan(limits=limits)
    with pytest.raises(InputError, match="without bounds"):
        ma.Plan(limits={"mu": 1.0}, bounds=None)


def test_a_command_refuses_stated_limits_that_it_does_not_measure():
    known = ["auc", "surest_members", "mu"]  # auc stands for every metric
    for limits in ({"auc": 0.6}, {"tpr_at_fpr_0.01": 0.1, "mu": 1.0}, {"ate": 0.2, "surest_members": 0.9}):
        policy = Policy.of(limits)
        assert policy.only(known, "compare") is policy
    with pytest.raises(InputError, match="any metric, surest_members, mu, which compare measures, received epsilon"):
        Policy.of({"auc": 0.6, "epsilon": 1.0}).only(known, "compare")
    with pytest.raises(InputError, match="mu, which compare measures, received advantage"):
        Policy.of({"advantage": 0.6}).only(["mu"], "compare")
    alarm = Policy.of({"auc": 0.6, "surest_members": 0.9})
    with pytest.raises(InputError, match="received surest_members"):
        alarm.only(["auc"], "compare")
    for default in (Policy.of(None), Policy.of({**DEFAULT_LIMITS, "surest_members": 0.9})):
        assert default.only(["mu"], "compare") is default  # nobody stated them


def test_names_of_limits_by_what_they_are():
    policy = Policy.of({"auc": 0.6, "mu": 1.0, "tpr_at_fpr_0.01": 0.1, "epsilon": 2.0, "copies": 0.0, "ate": 1.5})
    assert policy.metrics == ("auc", "tpr_at_fpr_0.01", "ate")
    assert policy.parameters == ("mu", "epsilon")
    assert policy.fpr_targets == (0.01,)
    assert policy.thresholds["ate"] == 1.5  # in units of the score


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("auc", [0, 0.999], [1, -0.001]),
        ("surest_members", [0.5001, 0.9999], [0.5, 1]),
        ("epsilon", [0, 50], [-1e-9]),
        ("mu", [0, 50], [-1e-9]),
        ("copies", [0, 0.5], [1, -0.1]),
        ("extraction", [0, 0.5], [1, -0.1]),
        ("ate", [-3, 0, 7], [1e300, -1e300]),
        ("tpr_at_fpr_1e-12", [0.1], []),
    ],
)
def test_the_ends_of_what_a_limit_may_be(name, allowed, refused):
    for value in allowed:
        assert checked({name: value}) == ((name, float(value)),)
    for value in refused:
        with pytest.raises(InputError, match="limits"):
            checked({name: value})
    for rate in ("tpr_at_fpr_9e-13", "tpr_at_fpr_1"):
        with pytest.raises(InputError, match="an FPR"):
            checked({rate: 0.1})


def test_every_rate_of_a_limit_is_measured():
    plan = ma.Plan(fpr_targets=(0.2,), limits={"tpr_at_fpr_0.05": 0.1})
    assert plan.rates == (0.05, 0.2)
    assert plan.metric_names[:2] == ("tpr_at_fpr_0.05", "tpr_at_fpr_0.2")


def test_a_configuration_file_and_the_command_line_say_the_same():
    content = {"evaluation": {"table_path": "t.npz"}, "reporting": {"limits": {"auc": 0.6, "tpr_at_fpr_0.01": 0.05}}}
    config = audit_config.AuditConfig.model_validate(content)
    assert config.plan().policy == Policy.of({"auc": 0.6, "tpr_at_fpr_0.01": 0.05})


def test_the_command_line_takes_several_limits_and_refuses_nonsense(tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    member = np.arange(400) % 2 == 0
    np.savez("t.npz", score=np.random.default_rng(0).normal(size=400) + 2 * member, member=member)
    words = ["audit", "t.npz", "--score", "score", "--member", "member", "--design", "one-run", "--no-bounds"]
    found = CliRunner().invoke(app, [*words, "--limit", "auc=0.6", "--limit", "tpr_at_fpr_0.1=0.2", "--json"])
    assert found.exit_code == 3, found.output
    assert ma.Findings.from_dict(__import__("json").loads(found.stdout)).plan["limits"] == {
        "auc": 0.6,
        "tpr_at_fpr_0.1": 0.2,
    }
    for text in ("auc", "auc=2", "nothing=1"):
        refused = CliRunner().invoke(app, [*words, "--limit", text])
        assert refused.exit_code != 0
        assert refused.exit_code != 3
