"""``miaudit report`` and ``miaudit export``: finished findings as a page again, as a model card or in MLflow."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from miaudit.command.options import Overwrite
from miaudit.command.terminal import progress, say
from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic

Finished = Annotated[
    Path, typer.Argument(help="Results folder, or a findings.json that miaudit wrote.", show_default=False)
]


def report(
    findings: Finished,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the page and figures; default: beside it.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw the page and the figures again from finished findings; nothing is computed."""
    from miaudit.findings.kinds import read
    from miaudit.report import kinds

    findings = findings / kinds.FINDINGS if findings.is_dir() else findings
    record = read(findings)
    target = out if out is not None else findings.parent
    try:
        with progress("", meanwhile="page and figures"):
            kinds.rerender(record, target, overwrite=overwrite)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"{findings.name}, whose parts contradict each other ({type(error).__name__}: {error})"
        raise InputError("findings", "findings as miaudit wrote them", problem, "run the audit again") from error
    say(f"{target / 'report.html'}")


class Target(StrEnum):
    """Where findings go."""

    MODEL_CARD = "model-card"
    DOSSIER = "dossier"
    MLFLOW = "mlflow"


def export(
    results: Finished,
    to: Annotated[Target, typer.Option("--to", help="Where the findings go.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File for the model card (default: standard output), or for the page of the dossier, with its .json "
            "beside it (default: dossier.html in the folder).",
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Name of the model in the card's metadata.")] = "model",
    data: Annotated[
        str, typer.Option("--data", help="Name of the audited data in the card's metadata.")
    ] = "audited records",
    url: Annotated[str, typer.Option("--url", help="Where the report or bundle is published; the card names it.")] = "",
    tracking_uri: Annotated[
        str | None, typer.Option("--tracking-uri", help="Of MLflow: a server or a store, e.g. http://127.0.0.1:5000.")
    ] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="Of a new run in MLflow.")] = "miaudit",
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="Add to this run of MLflow; without it, a new one is made.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out.")] = False,
) -> None:
    """Hand finished findings to a model card, a dossier or MLflow; nothing is computed.

    The dossier is a page for a data protection file, with all findings of a folder and of the folders in it. It lists
    the questions of WP216, EDPB opinion 28/2024 and NIST SP 800-226, each with what was measured or "not tested".

    The card is YAML metadata in the form of the Hugging Face Hub (model-index) and a Markdown section. MLflow gets
    numbers as metrics, words as tags, findings, page and figures as artefacts, and needs mlflow or mlflow-skinny.
    """
    from miaudit.findings.kinds import read
    from miaudit.report import exports

    file = results / "findings.json" if results.is_dir() else results
    if to is not Target.MLFLOW and (tracking_uri is not None or run_id is not None):
        raise typer.BadParameter("--tracking-uri and --run-id go with --to mlflow")
    if to is Target.DOSSIER:
        _write_dossier(results, out, overwrite=overwrite)
        return
    if to is Target.MODEL_CARD:
        card = exports.model_card(read(file), model=model, data=data, url=url)
        _deliver(card, out, overwrite=overwrite)
        return
    if out is not None:
        raise typer.BadParameter("--out goes with --to model-card or dossier")
    if tracking_uri is None:
        raise InputError("--tracking-uri", "the address of MLflow", "none", "add --tracking-uri http://127.0.0.1:5000")
    run = exports.to_mlflow(file.parent, read(file), tracking_uri=tracking_uri, experiment=experiment, run_id=run_id)
    say(f"MLflow run {run}")


def _write_dossier(results: Path, out: Path | None, *, overwrite: bool) -> None:
    """Write the page of a dossier, and its plain values beside it."""
    from miaudit.command.results import repeat
    from miaudit.report import dossier

    folder = results if results.is_dir() else results.parent
    target = out if out is not None else folder / "dossier.html"
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError("--out", "a file named .html", target.name, "write --out dossier.html")
    values = target.with_suffix(".json")
    for file in (target, values):
        _check_new(file, overwrite=overwrite)
    content = dossier.collected(results, repeat())
    for file, text in ((values, content.to_json()), (target, content.page())):
        _deliver(text, file, overwrite=overwrite)


def _check_new(out: Path, *, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{out}, which exists", "name another, or add --overwrite")


def _deliver(card: str, out: Path | None, *, overwrite: bool) -> None:
    if out is None:
        say(card, nl=False)
        return
    _check_new(out, overwrite=overwrite)
    try:
        atomic.write_text(out, card)
    except OSError as error:
        raise OutputError(
            one_line(f"--out {out}: cannot be written ({error.strerror}); choose another --out")
        ) from error
    say(f"{out}")
