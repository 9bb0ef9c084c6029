"""``miaudit usage``: how many records were used in a training, and whether their deletion worked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from miaudit.command import options
from miaudit.command.options import Json, Out, Overwrite, share_option
from miaudit.command.results import check_free, deliver, repeat
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.auditing.usage import UsagePlan
    from miaudit.findings.usage import DeletionFindings, UsageFindings

_File = Annotated[
    Path,
    typer.Argument(
        help="Scores by the model that is asked about. Scored probes of miaudit decoys (.jsonl); or a table or .npz "
        "file with a member column, whose members are the records; or, with --nonmembers, scores alone (.npy).",
        show_default=False,
    ),
]
_Nonmembers = Annotated[
    Path | None,
    typer.Option(help="Scores of records of the same source that no training has used (.npy).", show_default=False),
]
_Deleted = Annotated[
    Path | None,
    typer.Option(
        help="Test a deletion: FILE has the scores after it, and this one those of the same records before it.",
        metavar="BEFORE",
        show_default=False,
    ),
]
_Score = Annotated[str | None, typer.Option(help="Column of the score.", show_default=False)]
_Member = Annotated[str | None, typer.Option(help="Column that says which records are meant.", show_default=False)]
_Key = Annotated[Path | None, typer.Option(help="Key of the probes. Default: the one beside them.", show_default=False)]
_Signal = Annotated[
    Literal["score", "loss"], typer.Option(help="What the column holds: a loss is turned, since it is lower if used.")
]
_Limit = Annotated[
    list[str] | None,
    typer.Option(
        help="Share of the records that may have been used, as used=0.1: the bound becomes a verdict.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
_Margin = Annotated[float, share_option(help="Of a deletion: how far from chance counts as nothing. State it first.")]
_Confidence = Annotated[float, share_option(help="One-sided, of each limit.")]
_Seed = Annotated[int, typer.Option(min=0, help="Decides between equal scores of a deletion.")]
_OF_DELETION = {"--margin": "margin", "--seed": "seed"}


def usage(
    context: typer.Context,
    file: _File,
    nonmembers: _Nonmembers = None,
    deleted: _Deleted = None,
    score: _Score = None,
    member: _Member = None,
    key: _Key = None,
    signal: _Signal = "score",
    limit: _Limit = None,
    margin: _Margin = 0.03,
    confidence: _Confidence = 0.95,
    seed: _Seed = 0,
    *,
    out: Out = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """State how many of some records a model was trained on, at least; or test whether a deletion worked.

    The bound is exact: a record that was not used scores as records that were not used do, whatever the model. Nothing
    shows that a record was not used. With --deleted, the deletion passes only if the scores of the deleted records are
    shown to be within the margin of chance, and if the same scores found them before.
    """
    from miaudit.auditing.usage import UsagePlan
    from miaudit.report import usage_page

    if deleted is None:
        typed = {option: options.given(context).get(name) for option, name in _OF_DELETION.items()}
        _refuse_beside(
            typed, "without --deleted", dict.fromkeys(_OF_DELETION, "it belongs to a deletion: leave it out")
        )
    check_free(out, overwrite=overwrite)
    plan = UsagePlan(limits=limit or None, margin=margin, confidence=confidence)
    columns = {"score": score, "member": member, "key": key, "signal": signal}
    if deleted is None:
        findings: UsageFindings | DeletionFindings = _used(file, nonmembers, plan, columns)
    else:
        beside = {"--nonmembers": nonmembers, "--limit": limit[0] if limit else None}
        findings = _deleted(file, deleted, plan, columns, beside, seed)
    deliver(findings, lambda: usage_page.text(findings), out, overwrite=overwrite, json=json)


def _used(file: Path, nonmembers: Path | None, plan: UsagePlan, columns: Mapping[str, Any]) -> UsageFindings:
    """Bound how many records were used."""
    from miaudit.auditing.usage import audit_usage
    from miaudit.collect import usage_scores

    name, scores = usage_scores.read(file, nonmembers, **columns)
    return audit_usage(scores, plan, name=name, source=file.name, repeat=repeat())


def _deleted(
    after: Path,
    before: Path,
    plan: UsagePlan,
    columns: Mapping[str, Any],
    beside: Mapping[str, Any],
    seed: int,
) -> DeletionFindings:
    """Test a deletion; refuse options of the other question."""
    from miaudit.auditing.usage import audit_deletion
    from miaudit.collect import usage_scores

    hints = {
        "--nonmembers": "put both kinds into each file, with a member column",
        "--limit": "state --margin instead",
    }
    _refuse_beside(beside, "beside --deleted", hints)
    name, last, first = usage_scores.read_both(after, before, **columns)
    about: dict[str, Any] = {"name": name, "source": after.name, "repeat": repeat(seed=seed)}
    return audit_deletion(last, first, plan, **about, rng=np.random.default_rng(seed))


def _refuse_beside(values: Mapping[str, Any], where: str, hints: Mapping[str, str]) -> None:
    """Refuse options that the question does not read."""
    for option, value in values.items():
        if value is not None:
            raise InputError(option, f"none {where}", str(value), hints[option])
