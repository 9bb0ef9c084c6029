"""Findings as a cell of a notebook: the verdict, the metrics and the curve, without a script."""

from __future__ import annotations

import base64
from html import escape

from miaudit.findings.audit import Findings, Metric
from miaudit.metrics.definition import amount, label
from miaudit.report import audit_charts, drawing, page_frame

_TONES = {"flagged": "#a4211a", "clear": "#0f5f4a", "inconclusive": "#744a00"}
_CURVES = ("roc-log", "distribution")


def cell(findings: Findings) -> str:
    """Write findings as a piece of HTML; all text is escaped, and nothing in it runs or is loaded.

    Parameters
    ----------
    findings : Findings
    """
    status, word, text = _verdict(findings)
    tone = _TONES.get(status, "#3d4752")
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


def _verdict(findings: Findings) -> tuple[str, str, str]:
    """Tone, word and text of the box: as on the page, a refuted claim leads where the metric raised no concern."""
    verdict, claim = findings.verdict, findings.claim
    status, word = str(verdict.status), page_frame.WORDS[verdict.status]
    said = [str(verdict.text), verdict.besides]
    if claim is not None and claim.status == "refuted" and status != "flagged":
        status, word, said = "flagged", "Claim refuted", [str(claim.text).removeprefix("Refuted: "), *said]
    elif claim is not None:
        said.append(str(claim.text))
    text = " ".join(filter(None, said)).removeprefix(f"{word}: ").removeprefix("No answer: ")
    return status, word, text[:1].upper() + text[1:]


def _kind(findings: Findings, metric: Metric) -> str:
    if metric.estimator == "raw":
        return "raw, not causal" if findings.is_raw(metric) else ""
    return str(metric.estimator)


def _picture(findings: Findings) -> str:
    drawn = audit_charts.charts(findings)
    for name in _CURVES:
        if name in drawn:
            spec = drawn[name].to_dict(validate=False)
            try:
                picture = base64.b64encode(drawing.svg(spec).encode()).decode()
            except drawing.DrawingError as error:
                return f"<p>{escape(str(error))}</p>"
            alternative = escape(str(spec["description"]), quote=True)
            return f'<img alt="{alternative}" style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'
    return ""
