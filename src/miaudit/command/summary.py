"""The findings of an audit as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miaudit.errors import one_line
from miaudit.metrics import definition
from miaudit.metrics.rounding import at_least, at_most, written

if TYPE_CHECKING:
    from miaudit.dp.bounds import LowerBound
    from miaudit.findings.audit import Findings


def text(findings: Findings) -> str:
    """The verdict and the metrics of the headline score as lines of text."""
    counts, challenge, claim = findings.counts, findings.challenge, findings.claim
    lines = [
        *([one_line(challenge.text)] if challenge is not None and challenge.rejected else []),
        " ".join(text for text in (findings.verdict.text, findings.verdict.besides) if text),
        *([one_line(claim.text)] if claim is not None else []),
        "",
        f"{counts.members:,} members and {counts.nonmembers:,} non-members ({counts.of}); "
        f"design: {findings.design or 'not declared'}; score: {findings.scores[0].score}",
    ]
    for m in findings.metrics:
        form = ".4f" if definition.of(m.name).bounded else ".4g"  # in units of the score, which may be tiny or huge
        top = "-" if m.high is None else written(m.high, form, "up")
        value = f"{m.value:{form}}" if m.value is not None else f"<= {top}" if m.high is not None else "-"
        limits = f"[{written(m.low, form, 'down')}, {top}]" if m.value is not None and m.low is not None else ""
        raw = "raw, not causal" if findings.design == "zero-run" and m.estimator == "raw" else m.estimator
        raw = "" if raw == "raw" else raw
        lines.append(f"  {m.name:<20} {value:>9}  {limits:<18} {'; '.join(t for t in (raw, m.note) if t)}".rstrip())
    if findings.covariates_alone is not None:
        lines.append(f"  AUC of the covariates alone: {findings.covariates_alone.reading}")
    if findings.overlap is not None:
        lines += [f"  {one_line(reason)}" for reason in findings.overlap.reasons]
    if findings.memorisation is not None:
        lines += ["", findings.memorisation.sentence]
    lines += _privacy_lines(findings, said=" ".join(lines))
    lines += [] if findings.vulnerability is None else [one_line(findings.vulnerability.text)]
    lines += [f"Note: {one_line(note)}" for note in (*findings.corrections, *findings.notes)]
    return "\n".join(lines)


def _privacy_lines(findings: Findings, said: str) -> list[str]:
    """Bounds on privacy parameters, the challenge that they survived, or why there is none and was not said before."""
    lines = [f"  {_bound_line(bound)}" for bound in findings.bounds]
    challenge = findings.challenge
    if lines and challenge is not None and not challenge.rejected:
        lines.append(f"  {one_line(challenge.text)}")
    if lines:
        return ["Lower bounds on privacy parameters:", *lines]
    if not findings.no_bound:
        return []
    new = [reason for reason in map(one_line, findings.no_bound) if reason.rstrip(".") not in said]
    return [f"No lower bound on privacy parameters: {' '.join(new) or 'for the same reason.'}"]


def _bound_line(bound: LowerBound) -> str:
    where = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    name = bound.parameter
    shown = f"{name} >= {at_least(bound.value)}{where}" if bound.value > 0 else f"{name}{where}: nothing shown"
    sure = "exploratory, at no confidence" if bound.exploratory else f"{100 * bound.confidence:.6g}%"
    details = [sure]
    if bound.correct is not None and bound.guesses is not None:
        details.append(f"{bound.correct:,} of {bound.guesses:,} guesses right")
    if bound.reachable is not None:
        details.append(f"at most {at_most(bound.reachable)} could have been shown")
    return f"{shown} ({'; '.join(details)})"
