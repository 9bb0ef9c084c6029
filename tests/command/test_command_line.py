"""Commands for what to do next keep the words of the first, and touch nothing that it wrote."""

import shlex

import pytest

from miaudit.command.command_line import Made
from miaudit.findings.next_steps import Intent


def again(line, **changes):
    return Made.read({"command": line}).command(Intent("audit again", changes))


@pytest.mark.parametrize("line", ["rm -rf /; miaudit audit x.npz", "miaudit audit 'unbalanced", None, 3, "", "miaudit"])
def test_only_our_own_commands_are_repeated(line):
    command_line = Made.read({"command": line})
    assert command_line == Made.read({}) == Made()
    assert command_line.command(Intent("repeat")) == command_line.command(Intent("audit again")) == ""
    assert not command_line.from_command


def test_a_file_name_stays_one_word():
    assert again("miaudit audit 'a; rm -rf /.npz' --member m") == "miaudit audit 'a; rm -rf /.npz' --member m"


def test_a_repeated_command_touches_no_earlier_results():
    line = "miaudit audit b.csv --out=x --overwrite --bundle b.zip --seal --member m --out y --share hashes"
    assert again(line) == "miaudit audit b.csv --member m"
    assert again("miaudit audit b.csv --signal score", signal="loss") == "miaudit audit b.csv --signal loss"


def test_any_other_command_is_repeated_as_it_was_and_not_read():
    line = "miaudit extraction t.jsonl --out x --prefix 20"
    command_line = Made.read({"command": line})
    assert command_line.command(Intent("repeat")) == line
    assert command_line.option("out") == command_line.config == again(line) == ""
    assert command_line.command(Intent("compare")) == "miaudit compare BEFORE AFTER"
    assert command_line.command(Intent("foresee")) == "miaudit plan FILE --member MEMBER --covariates COLUMNS"


def test_names_of_python_become_options():
    plan = Made().command(Intent("plan", {"members": 1200, "fpr_targets": 0.001, "tpr": float("0.300000")}))
    assert shlex.split(plan) == ["miaudit", "plan", "--members", "1200", "--fpr-targets", "0.001", "--tpr", "0.3"]
