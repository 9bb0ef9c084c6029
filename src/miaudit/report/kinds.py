"""The kinds of findings, and what draws each: an audit's, a comparison of disclosures', a release's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from miaudit.errors import InputError
from miaudit.findings.kind import Drawing, drawn_by, parse

if TYPE_CHECKING:
    from pathlib import Path

    import altair as alt

AUDIT = "audit"
KINDS = (AUDIT, "disclosure", "table", "synthesis", "verification", "challenge", "comparison", "history")


class Writable(Protocol):
    """Finished findings of any kind: plain values, and the same as text of findings.json."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``kind`` names the kind, and an audit's may leave it out."""
        ...

    def to_json(self) -> str:
        """Return the same as text."""
        ...


@dataclass(frozen=True)
class Kind:
    """What draws one kind of findings.

    ``figures`` are the names of every chart that it may have, in the order of its page; ``charts`` draws those whose
    data are there, ``page`` writes the page, and ``check`` refuses values that do not follow the kind's schema.
    """

    figures: tuple[str, ...]
    charts: Callable[[Mapping[str, Any]], dict[str, alt.LayerChart]]
    page: Callable[[Mapping[str, Any]], str]
    check: Callable[[Any], dict[str, Any]]


def of(content: Mapping[str, Any]) -> Kind:
    """Return what draws these findings.

    Parameters
    ----------
    content : mapping
        Plain values as in findings.json.

    Raises
    ------
    InputError
        If their ``kind`` is none that this version knows.

    Examples
    --------
    >>> of({"format": 1}).figures[0]
    'verdict'
    """
    kind = content.get("kind", AUDIT)
    match kind:
        case "audit":
            from miaudit.findings import audit as audit_findings
            from miaudit.report import audit_charts, audit_page

            return Kind(audit_charts.NAMES, audit_charts.charts, audit_page.page, audit_findings.check)
        case "table":
            from miaudit.report import table_page

            return Kind(table_page.NAMES, table_page.charts, table_page.page, table_page.check)
        case "synthesis":
            from miaudit.report import synthesis_page

            return Kind(synthesis_page.NAMES, synthesis_page.charts, synthesis_page.page, synthesis_page.check)
        case "disclosure":
            from miaudit.report import disclosure_page

            return Kind(disclosure_page.NAMES, disclosure_page.charts, disclosure_page.page, disclosure_page.check)
        case "verification" | "challenge":
            from miaudit.report import bundle_page

            return Kind(bundle_page.NAMES, bundle_page.charts, bundle_page.page, bundle_page.check)
        case "comparison" | "history":
            from miaudit.report import comparison_page

            return Kind(comparison_page.NAMES, comparison_page.charts, comparison_page.page, comparison_page.check)
    raise InputError("kind", ", ".join(KINDS), repr(kind)[:40], "use the version of miaudit that wrote these findings")


def read(path: str | Path) -> dict[str, Any]:
    """Read and check a findings.json of any kind; return its plain values.

    Raises
    ------
    InputError
        If it is missing, no JSON, of another format version or kind, or does not follow its schema.
    """
    content = parse(path)
    return of(content).check(content)


def _page(content: Mapping[str, Any]) -> str:
    return of(content).page(content)


def _cell(content: Mapping[str, Any]) -> str:
    from miaudit.report import notebook

    return notebook.cell(content)


drawn_by(Drawing(_page, _cell))
