"""Findings of an audit as a cell of a notebook."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from miaudit.metrics.definition import amount, label
from miaudit.report import audit_charts, drawing

if TYPE_CHECKING:
    from miaudit.findings.audit import Findings
    from miaudit.findings.metric import Metric

_TONES = {"flagged": "#a4211a", "clear": "#0f5f4a", "warned": "#744a00", "inconclusive": "#744a00"}


def cell(findings: Findings) -> str:
    """Write findings as a piece of HTML; all text is escaped, and nothing in it runs or is loaded.

    Parameters
    ----------
    findings : Findings
    """
    shown, word, text = _cell_verdict(findings)
    tone = _TONES.get(shown, "#3d4752")
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(label(m.name))}</th>"
        f"<td style='text-align:right'>{escape(amount(m.name, m.value))}</td>"
        f"<td>{escape(m.interval)}</td><td>{escape(_kind(findings, m))}</td></tr>"
        for m in findings.metrics
    )
    table = f"<table><tr><th></th><th>value</th><th>interval</th><th></th></tr>{rows}</table>" if rows else ""
    return (
        f"<div style='max-width:720px'><p style='border-left:6px solid {tone};padding:8px 14px;margin:0 0 8px'>"
        f"<strong style='color:{tone}'>{escape(word)}.</strong> {escape(text)}</p>"
        f'{table}{_picture(findings)}<p>The whole page: <code>findings.to_html("report.html")</code></p></div>'
    )


def _cell_verdict(findings: Findings) -> tuple[str, str, str]:
    """Tone, word and text of the box: as on the page, a refuted claim leads where the metric raised no concern."""
    verdict, claim = findings.verdict, findings.claim
    status, word, tone = str(verdict.status), verdict.word, verdict.tone
    sentences = [str(verdict.text), verdict.proven, verdict.not_excluded]
    if claim is not None and claim.status == "refuted" and status != "flagged":
        tone, word, sentences = "flagged", "Claim refuted", [str(claim.text).removeprefix("Refuted: "), *sentences]
    elif claim is not None:
        sentences.append(str(claim.text))
    text = " ".join(filter(None, sentences)).removeprefix(f"{word}: ")
    return tone, word, text[:1].upper() + text[1:]


def _kind(findings: Findings, metric: Metric) -> str:
    if metric.estimator == "raw":
        return "raw, not causal" if findings.is_raw(metric) else ""
    return str(metric.estimator)


def _picture(findings: Findings) -> str:
    by_name = audit_charts.charts(findings)
    for name in ("roc-log", "distribution"):
        if name in by_name:
            spec = by_name[name].to_dict(validate=False)
            try:
                picture = base64.b64encode(drawing.svg(spec).encode()).decode()
            except drawing.DrawingError as error:
                return f"<p>{escape(str(error))}</p>"
            alternative = escape(str(spec["description"]), quote=True)
            return f'<img alt="{alternative}" style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'
    return ""
