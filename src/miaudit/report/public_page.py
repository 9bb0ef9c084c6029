"""The page that goes with a released table: only what may be published without further cost to privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from miaudit.findings.release import SynthesisFindings, rounded_up
from miaudit.metrics.rounding import percent
from miaudit.report import fidelity_charts, graph_charts, page_frame, synthesis_page

if TYPE_CHECKING:
    from miaudit.report.page_frame import Built

_FREE = (*graph_charts.NAMES, "limit")  # charts of what the publisher stated, and of the guarantee


def publishable(findings: SynthesisFindings) -> SynthesisFindings:
    """Return findings without anything that was computed from private records and not paid for.

    What stays is the guarantee, the ledger's total, the columns and the graph as the publisher stated them, public
    facts of the generator, and, only where public records judged the table, how useful it is. What goes: every
    judgement by private records, the notes on it, the name of the private file, and the command.
    """
    public = findings.fidelity_of == "public"
    return replace(
        findings,
        fidelity=findings.fidelity if public else None,
        fidelity_of=findings.fidelity_of if public else None,
        useful=findings.useful if public else None,
        notes=(),
        source="",
        repeat={name: value for name, value in findings.repeat.items() if name == "miaudit"},
    )


def page(findings: SynthesisFindings, *, built: Built | None = None) -> str:
    """Write the public page of a release as one self-contained HTML page; empty without a guarantee or a table.

    Parameters
    ----------
    findings : of a release
    built : the charts of the publisher's own page, of which those of private records are left out
    """
    shown, guarantee = publishable(findings), findings.guarantee
    if guarantee is None or findings.stopped:
        return ""
    charts = built or page_frame.built(synthesis_page.charts(shown))
    judged = () if shown.fidelity_of is None else ("kept", *fidelity_charts.NAMES)
    specs = {name: spec for name, spec in charts.specs.items() if name in (*_FREE, *judged)}
    return page_frame.render(
        "public_page.html",
        shown,
        replace(charts, specs=specs),
        cards=_cards(shown),
        limits=[(percent(fpr), f"{rounded_up(100 * tpr)}%") for fpr, tpr in guarantee.tpr_limits],
        guarantee=synthesis_page.guarantee_facts(guarantee, shown.neighbours),
        useful=synthesis_page.usefulness_table(shown.useful),
        fidelity=fidelity_charts.cards(shown.fidelity),
    )


def _cards(findings: SynthesisFindings) -> list[tuple[str, str, str]]:
    guarantee = findings.guarantee
    assert guarantee is not None  # noqa: S101 - page() is empty for others
    fpr, tpr = guarantee.tpr_limits[1]
    return [
        ("Epsilon", rounded_up(guarantee.epsilon, 6), "smaller is more private"),
        ("Delta", rounded_up(guarantee.delta), "added to each limit on an attack"),
        (f"Members found at {percent(fpr)} FPR", f"{rounded_up(100 * tpr)}%", "at most, by any attack"),
        ("Synthetic records", f"{findings.release.records:,}", findings.release.file),
    ]
