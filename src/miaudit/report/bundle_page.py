"""The page of a bundle that was verified or challenged."""

from __future__ import annotations

from miaudit.findings.metric import Metric
from miaudit.findings.verification import ChallengeFindings, VerificationFindings
from miaudit.metrics.definition import label
from miaudit.metrics.rounding import written
from miaudit.report import page_frame
from miaudit.report.vega_lite import Chart

NAMES: tuple[str, ...] = ()
_VERIFIED = {
    "verified": ("clear", "Verified"),
    "failed": ("flagged", "Verification failed"),
    "in-part": ("inconclusive", "Verified in part"),
    "not-testable": ("refused", "Nothing could be recomputed"),
}
_RECEIVED = {"same": "clear", "words": "inconclusive", "other": "flagged", "undecided": "inconclusive"}
_CHALLENGED = {
    "won": ("flagged", "Challenge won"),
    "stands": ("clear", "The bundle stands"),
    "undecided": ("inconclusive", "Undecided"),
}
_CHALLENGE = [
    "A challenge is decided by the difference between the two on the same records, with an interval for paired "
    "scores that is widened for every challenge made before.",
    "Where the labels were visible, a win proves little: the submission could have been made from them. A "
    "submission that the owner signed before opening sealed labels was not, unless the owner gave them away "
    "before; of any other the order is unknown, and it wins nothing.",
    "A bundle that stands was not beaten by this challenger: a stronger one may come.",
]
_VERIFICATION = [
    "Verified means that the findings follow from the evidence in the bundle, under its plan and random numbers. "
    "It does not say that the evidence is what the model gave, nor that the design is what was declared.",
    "The SHA-256 above is that of the whole file: compare it with the one that the author published.",
]


def charts(findings: VerificationFindings | ChallengeFindings) -> dict[str, Chart]:  # noqa: ARG001 - as of every kind
    """Draw nothing: two columns of numbers say it."""
    return {}


def page(findings: VerificationFindings | ChallengeFindings) -> str:
    """Write a verification or a challenge as one self-contained HTML page; text from the bundle is escaped."""
    cards: list[tuple[str, str, str]] = []
    if isinstance(findings, ChallengeFindings):
        (status, word), what = _CHALLENGED[findings.status], "Challenge to an audit"
        tags, rows, reading = _tags(findings), _rows(findings), _CHALLENGE
    else:
        (status, word), what = _VERIFIED[findings.status], "Verification of an audit"
        tags, rows, reading = [], [], _VERIFICATION
        cards = [
            ("Recomputed", f"{findings.recomputed:,}", "numbers and words of the findings that came out again"),
            ("Different", f"{len(findings.differences):,}", "counts exactly, numbers to 1e-9"),
            ("Tampered with", f"{len(findings.tampered):,}", "places that do not fit the manifest"),
        ]
    return page_frame.render(
        "bundle_page.html",
        findings,
        {},
        verdict={"status": status, "word": word, "what": what, "tags": tags},
        cards=cards,
        tone=_received_tone(findings),
        rows=rows,
        reading=reading,
    )


def _received_tone(findings: VerificationFindings | ChallengeFindings) -> str:
    received = findings.received if isinstance(findings, VerificationFindings) else None
    return "" if received is None else _RECEIVED[received.status]


def _tags(findings: ChallengeFindings) -> list[str]:
    if findings.order is not None:
        return [f"Submission: {findings.order}"]
    return ["Labels visible to the challenger" if findings.labels_visible else "Labels sealed"]


def _rows(findings: ChallengeFindings) -> list[dict[str, str]]:
    challenger = findings.findings
    if not challenger:
        return []
    stated = {(m.name, m.estimator): m for m in findings.bundle}
    raw = ", raw, not causal" if any(m.estimator != "raw" for m in challenger.metrics) else ""
    return [
        {
            "name": f"{label(m.name)}, {m.estimator}" if m.estimator != "raw" else f"{label(m.name)}{raw}",
            "bundle": _interval(stated.get((m.name, m.estimator))),
            "challenger": _interval(m),
        }
        for m in challenger.metrics
    ]


def _interval(metric: Metric | None) -> str:
    if metric is None:
        return "-"
    if metric.value is None:
        return "-" if metric.high is None else f"at most {written(metric.high, '.4f', 'up')}"
    if metric.low is None or metric.high is None:
        return f"{metric.value:.4f}"
    return f"{metric.value:.4f} [{written(metric.low, '.4f', 'down')}, {written(metric.high, '.4f', 'up')}]"
