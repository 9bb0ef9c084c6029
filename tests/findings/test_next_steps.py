"""What to do next: every command that is named exists, with options that exist, and keeps the words of the first."""

import shlex
from dataclasses import replace

import pytest

from findings.test_plain_words import PRIMARY, found, judged
from miaudit.command import program
from miaudit.command.command_line import Made
from miaudit.errors.entry_points import Offered
from miaudit.findings import next_steps
from miaudit.findings.next_steps import Intent

COMMANDS = {name: program.loaded(name) for name in program.COMMANDS}
MADE = (
    "",
    "miaudit audit scores.npz --score loss --member m --out results/one",
    "miaudit audit 'my scores.csv' --covariates=age,year --member m --design zero-run --text note --json",
    "miaudit audit --members a.npy --nonmembers b.npy --member-covariates c.npy --nonmember-covariates d.npy",
    "miaudit run conf/audit.yaml --overwrite",
    "miaudit demo",
    "rm -rf /; miaudit audit x.npz",
    "miaudit audit 'unbalanced",
)


def parsed(command):
    program, name, *arguments = shlex.split(command)
    assert program == "miaudit"
    if arguments == ["--help"]:
        return {}
    return COMMANDS[name].make_context(name, arguments).params


@pytest.mark.long
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("status", ["flagged", "clear", "inconclusive", "not-testable", "refused"])
def test_every_command_is_one_that_exists(made, status):
    seen = 0
    for metric in PRIMARY:
        for design in ("one-run", "zero-run", None):
            for value in (None, 0.1, 0.5):
                one = replace(judged(status, 0.05, 0.7, metric, value), design=design, repeat={"command": made})
                for step in one.in_words.steps:
                    assert step.text.endswith(".")
                    if step.command:
                        seen += 1
                        parsed(step.command)
    assert seen or not made.startswith("miaudit audit")


def test_a_control_that_does_not_exist_is_refused():
    with pytest.raises(Exception, match=r"(?i)no such option"):
        parsed("miaudit plan --no-such-option 3")
    with pytest.raises(KeyError):
        parsed("miaudit no-such-command")


def steps(status, command="", design="one-run", **more):
    return replace(judged(status, 0.05, 0.7, **more), design=design, repeat={"command": command}).in_words.steps


def test_a_concern_of_a_configuration_leads_to_the_measures():
    first, second, third = steps("flagged", MADE[4])
    assert "reporting" in first.text and third.command == ""
    handed = steps("flagged", MADE[1])[2].command
    assert handed == "miaudit audit scores.npz --score loss --member m --bundle audit.zip"
    assert steps("flagged", handed)[2].command == "miaudit verify audit.zip"
    assert first.command == "miaudit disclosure conf/measures.yaml"
    assert "audit.yaml" in first.text
    assert second.command == "miaudit compare BEFORE AFTER"
    assert steps("flagged", MADE[1])[1].command == "miaudit compare results/one AFTER"


def test_more_records_are_counted():
    (unresolved,) = found(n=30).in_words.steps
    assert "needs at least 37 records, and there are 15" in unresolved.text
    assert parsed(unresolved.command)["nonmembers"] == 37
    (above,) = steps("inconclusive", value=0.3)
    assert (parsed(above.command)["tpr"], parsed(above.command)["threshold_for_concern"]) == (0.3, 0.15)
    (below,) = steps("inconclusive", value=0.1)
    assert parsed(below.command)["members"] == 4 * 300


def test_few_members_are_named_where_nonmembers_alone_do_not_suffice():
    few, more = replace(found(n=20), design="zero-run").in_words.steps
    assert few.text.startswith("Audit more members: with 10 (records), even an attack that identifies none of them ")
    assert few.text.endswith("leaves up to 21.8% possible, above the limit of 15%.")
    assert more.text.startswith("Collect more non-members")
    (only,) = steps("inconclusive", design="zero-run", value=0.1)
    assert only.text == more.text


def test_each_answer_about_the_design_has_its_command():
    one, many, none, nobody = steps("not-testable", MADE[1], None)
    for step, design in ((one, "one-run"), (many, "multi-run"), (none, "zero-run")):
        assert step.command.startswith(f"miaudit audit scores.npz --score loss --member m --design {design}")
    assert parsed(none.command)["covariates"] == ["COLUMNS"]
    assert nobody.command == ""
    texts = [step.text for step in steps("not-testable", MADE[4], None)]
    assert "design: one-run, under evaluation: in audit.yaml" in texts[0]


def test_what_a_refused_audit_was_given_goes_to_the_plan():
    plan, draw = steps("refused", MADE[2], "zero-run")
    expected = ["miaudit", "plan", "my scores.csv", "--member", "m", "--covariates", "age,year", "--text", "note"]
    assert shlex.split(plan.command) == expected
    assert draw.command == "miaudit draw --help"
    sides = steps("refused", MADE[3], "zero-run")[0].command
    assert sides == "miaudit plan --member-covariates c.npy --nonmember-covariates d.npy"
    assert steps("refused", "", "zero-run")[0].command == "miaudit plan FILE --member MEMBER --covariates COLUMNS"


def test_another_design_has_no_chances_of_inclusion():
    made = Made.read({"command": "miaudit audit a.csv --design one-run --inclusion 0.8"})
    assert made.command(Intent("audit again", {"design": "zero-run"})) == "miaudit audit a.csv --design zero-run"
    again = made.command(Intent("audit again", {"inclusion": "CHANCE"}))
    assert again == "miaudit audit a.csv --design one-run --inclusion CHANCE"


def test_losses_are_turned_once():
    assert "--signal loss" in replace(found(gap=-1.5), repeat={"command": MADE[1]}).in_words.steps[0].command
    already = replace(found(gap=-1.5), repeat={"command": f"{MADE[1]} --signal loss"}).in_words.steps[0]
    assert already.command == ""


def test_without_a_command_line_there_are_steps_without_commands(monkeypatch):
    monkeypatch.setattr(next_steps, "_COMMAND_LINES", Offered("miaudit.none", next_steps.CommandLine, {}))
    for status in ("flagged", "clear", "inconclusive", "not-testable", "refused"):
        told = steps(status, MADE[1])
        assert told
        assert not any(step.command for step in told)


def test_an_audit_by_scores_alone_asks_for_no_training_code():
    """Of another's fixed model there are scores: the first steps need no more."""
    flagged = steps("flagged", MADE[2], design="zero-run")
    assert flagged[0].text.startswith("Send this page and a bundle") and "--bundle" in flagged[0].command
    assert not any("training code" in step.text for step in flagged)
    (first, *_) = steps("clear", MADE[2], design="zero-run")
    assert "another signal" in first.text and "repeat the training" not in first.text
    assert "training code" in steps("flagged", MADE[1])[0].text  # the controls: members that you assigned
    assert "repeat the training" in steps("clear", MADE[1])[0].text
