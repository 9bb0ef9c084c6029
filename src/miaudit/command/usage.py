"""``miaudit usage``: how many records were used in a training, and whether their deletion worked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

from miaudit.command.options import Json, Out, Overwrite
from miaudit.command.results import check_free, deliver, repeat
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.auditing.usage import Scores
    from miaudit.evidence import Evidence

_File = Annotated[
    Path,
    typer.Argument(
        help="Scores of the records, by the model that is asked about: a table or .npz file with a member column, of "
        "which members are the records and non-members were never used. With --nonmembers scores alone (.npy).",
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
_Margin = Annotated[float, typer.Option(help="Of a deletion: how far from chance counts as nothing. State it first.")]
_Confidence = Annotated[float, typer.Option(help="One-sided, of each limit.")]
_Seed = Annotated[int, typer.Option(min=0, help="Decides between equal scores of a deletion.")]


def usage(
    file: _File,
    nonmembers: _Nonmembers = None,
    deleted: _Deleted = None,
    score: _Score = None,
    member: _Member = None,
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
    from miaudit.auditing.usage import UsagePlan, audit_deletion, audit_usage
    from miaudit.report import usage_page

    check_free(out, overwrite=overwrite)
    plan = UsagePlan(limits=limit or None, margin=margin, confidence=confidence)
    columns = {"score": score, "member": member, "signal": signal}
    name, scores = _read(file, nonmembers, columns)
    about = {"name": name, "source": file.name, "repeat": repeat(seed=seed)}
    if deleted is None:
        findings = audit_usage(scores, plan, **about)
    else:
        if nonmembers is not None:
            hint = "put both kinds into each file, with a member column"
            raise InputError("--nonmembers", "none beside --deleted", str(nonmembers), hint)
        if limit:
            raise InputError("--limit", "none beside --deleted", limit[0], "state --margin instead")
        _, before = _read(deleted, None, columns)
        findings = audit_deletion(scores, before, plan, **about, rng=np.random.default_rng(seed))
    deliver(findings, lambda: usage_page.text(findings), out, overwrite=overwrite, json=json)


def _read(file: Path, nonmembers: Path | None, columns: dict[str, str | None]) -> tuple[str, Scores]:
    """Read the name of the score, the scores of the records, and those of what they are compared with."""
    from miaudit.auditing.usage import Scores
    from miaudit.evidence import Evidence

    if nonmembers is not None:
        evidence = Evidence.load_pair(file, nonmembers)
        if columns["signal"] == "loss":
            return "loss", Scores.of(-evidence.score[evidence.member], -evidence.score[~evidence.member])
    else:
        evidence = Evidence.load(file, **{name: value for name, value in columns.items() if value is not None})
    return _name(evidence), Scores.of(evidence.score[evidence.member], evidence.score[~evidence.member])


def _name(evidence: Evidence) -> str:
    """The name of the one score."""
    names = list(evidence.scores)
    if len(names) > 1:
        received = f"{len(names)}: {', '.join(names[:5])}"
        raise InputError("--score", "one score: the best of several would need a correction", received, "name one")
    return names[0]
