"""``miaudit export``."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import miaudit as ma
from miaudit.command.report import export
from miaudit.errors import InputError
from miaudit.report import exports, kinds
from report import test_exports
from report.test_exports import findings

content = test_exports.content


@pytest.mark.thorough
@pytest.mark.long
def test_the_command_writes_a_card_and_never_over_one(content: ma.Findings, tmp_path: Path) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(export)
    kinds.write(findings(), tmp_path / "results")
    options = [str(tmp_path / "results"), "--to", "model-card", "--model", "m"]
    printed = CliRunner().invoke(app, options)
    assert printed.exit_code == 0
    card = tmp_path / "card.md"
    assert CliRunner().invoke(app, [*options, "--out", str(card)]).exit_code == 0
    assert card.read_text() == printed.stdout == exports.model_card(content, model="m")
    again = CliRunner().invoke(app, [*options, "--out", str(card)])
    assert isinstance(again.exception, InputError)
    assert CliRunner().invoke(app, [*options, "--out", str(card), "--overwrite"]).exit_code == 0
    wrong = CliRunner().invoke(app, [*options, "--run-id", "1"])
    assert wrong.exit_code == 2
    nowhere = CliRunner().invoke(app, [str(tmp_path / "results"), "--to", "mlflow"])
    assert isinstance(nowhere.exception, InputError)
