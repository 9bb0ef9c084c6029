"""The kinds of findings: the record that each file is read into, and what draws it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from miaudit.errors import InputError, Offered
from miaudit.findings.kind import Drawing, FindingsRecord, drawn_by, parse

if TYPE_CHECKING:
    from pathlib import Path

    import altair as alt

AUDIT = "audit"


@dataclass(frozen=True)
class Kind:
    """One kind of findings: where its record stands, and what draws it, each imported where it is asked for.

    Attributes
    ----------
    record : of the findings, as ``module.name`` in :mod:`miaudit.findings`, or with the package of another module
    drawing : module of the report (or ``package.module``) with its ``page``, with ``NAMES``, of every chart that it may
        have, and ``charts``
    charting : module of the report with the latter two, where it is another one
    """

    record: str
    drawing: str
    charting: str = ""

    @property
    def findings(self) -> type[FindingsRecord]:
        """The record that its files are read into."""
        module, _, name = self.record.rpartition(".")
        found: type[FindingsRecord] = _of(module, name, "findings")
        return found

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of every chart that it may have, in the order of its page."""
        return tuple(_of(self.charting or self.drawing, "NAMES"))

    def charts(self, findings: FindingsRecord) -> dict[str, alt.LayerChart]:
        """Draw the charts whose data are there, by name."""
        found: dict[str, alt.LayerChart] = _of(self.charting or self.drawing, "charts")(findings.as_written())
        return found

    def page(self, findings: FindingsRecord) -> str:
        """Write the findings as one self-contained page."""
        return str(_of(self.drawing, "page")(findings.as_written()))


BUILT_IN = {
    AUDIT: Kind("audit.Findings", "audit_page", "audit_charts"),
    "disclosure": Kind("disclosure.DisclosureFindings", "disclosure_page"),
    "table": Kind("table.TableFindings", "table_page"),
    "synthesis": Kind("release.SynthesisFindings", "synthesis_page"),
    "verification": Kind("verification.VerificationFindings", "bundle_page"),
    "challenge": Kind("verification.ChallengeFindings", "bundle_page"),
    "comparison": Kind("comparison.Comparison", "comparison_page"),
    "history": Kind("comparison.History", "comparison_page"),
}
KINDS = Offered("miaudit.findings", Kind, BUILT_IN)


def from_dict(content: Mapping[str, Any]) -> FindingsRecord:
    """Make the findings that plain values of a findings.json of any kind describe.

    Raises
    ------
    InputError
        If their ``kind`` is none that this version knows, or they do not follow its schema.
    """
    name = content.get("kind", AUDIT)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        hint = "use the version of miaudit that wrote these findings"
        raise InputError("kind", ", ".join(KINDS), repr(name)[:40], hint)
    return kind.findings.from_dict(content)


def read(path: str | Path) -> FindingsRecord:
    """Read and check a findings.json of any kind, as :meth:`miaudit.findings.kind.FindingsRecord.read`."""
    return from_dict(parse(path))


def _of(module: str, name: str, room: str = "report") -> Any:
    return getattr(import_module(module if "." in module else f"miaudit.{room}.{module}"), name)


def _page(findings: FindingsRecord) -> str:
    return KINDS[findings.KIND].page(findings)


def _cell(findings: FindingsRecord) -> str:
    from miaudit.report import audit_page

    if findings.KIND != AUDIT:
        return f'<iframe srcdoc="{escape(_page(findings))}" style="width:100%;height:720px;border:0"></iframe>'
    return audit_page.cell(findings.as_written())  # type: ignore[arg-type]


drawn_by(Drawing(_page, _cell))
