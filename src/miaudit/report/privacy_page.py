"""The section of an audit's page on privacy bounds: claim, bounds, several runs, and the challenge they survived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miaudit.findings.plain_words import privacy_parameter
from miaudit.metrics.definition import amount
from miaudit.metrics.rounding import percent, upper_text
from miaudit.report.bound_charts import parameter_name, size

if TYPE_CHECKING:
    from miaudit.findings.audit import Challenge, ClaimVerdict, Findings, LowerBound, SeveralRuns

_CLAIM = {
    "refuted": ("flagged", "Claim refuted"),
    "not-refuted": ("inconclusive", "Claim not refuted"),
    "not-testable": ("refused", "Claim not testable"),
}


def explained(findings: Findings) -> dict[str, str]:
    """What each parameter is that bounds or the claim are about, in a sentence, and what its value comes to."""
    texts: dict[str, str] = {}
    for bound in findings.bounds:
        holds = not (findings.is_void or bound.exploratory)
        texts.setdefault(bound.parameter, privacy_parameter(bound.parameter, bound.value, bound.delta, lower=holds))
    claim = findings.claim
    if claim is not None:
        texts.setdefault(claim.parameter, privacy_parameter(claim.parameter, claim.value, claim.delta, lower=False))
    return texts


def section(findings: Findings, known: str = "") -> dict[str, Any] | None:
    """What the page says of privacy parameters: the challenge, the claim, the bounds, or why there are none.

    ``known`` is a parameter that the page explained before.
    """
    challenge, claim, bounds = findings.challenge, findings.claim, findings.bounds
    if not (challenge or claim or bounds or findings.no_bound):
        return None
    stacked = findings.overlap is not None and "a stack (" in findings.overlap.propensity
    tested = "Line beside the stack" if stacked else "Propensity"
    return {
        "void": tested if findings.is_void else "",
        "challenge": _challenge(challenge) if challenge else None,
        "claim": _claim(claim) if claim else None,
        "explained": [text for name, text in explained(findings).items() if name != known],
        "rows": [_bound_row(bound) for bound in bounds],
        "none": findings.no_bound,
        "assumptions": list(dict.fromkeys(text for bound in bounds for text in bound.assumptions)),
        "runs": None if findings.several_runs is None else _runs(findings.several_runs),
    }


def _runs(several: SeveralRuns) -> dict[str, Any]:
    """What several runs show, and a row for each: its AUC, its bound by itself, and of all runs so far."""
    empty = [None] * several.runs
    pairs = zip(several.auc, several.alone or empty, several.by_number or empty, strict=True)
    rows = [(f"{k}", amount("auc", auc), size(one), size(all_)) for k, (auc, one, all_) in enumerate(pairs, start=1)]
    return {"text": several.text, "rows": rows}


def _challenge(challenge: Challenge) -> dict[str, str]:
    correct, guesses = challenge.correct, challenge.guesses
    smallest = challenge.smallest_gamma
    margin = (
        "it refutes every margin" if smallest is None else f"it refutes no margin of {upper_text(smallest)} or more"
    )
    tried = ", ".join(challenge.competitors)
    return {
        "text": challenge.text,
        "numbers": (
            f"{challenge.competitor} was right in {correct:,} of {guesses:,} guesses on held-out records: p = "
            f"{_p_value(challenge.p_value)} at a margin of {challenge.gamma:.3g} on the log-odds, tested at "
            f"{percent(challenge.level)}; {margin}. Tried: {tried}."
        ),
    }


def _claim(claim: ClaimVerdict) -> dict[str, Any]:
    """The verdict on a claim, and its numbers on the claim's own scale."""
    tone, word = _CLAIM[claim.status]
    name = parameter_name(claim.parameter, claim.delta)
    lower, upper, gap, reachable = claim.lower, claim.upper, claim.gap, claim.reachable
    most = "largest lower bound that an attack without error could show with so much evidence"
    facts = (
        ("Claim", f"≤ {upper_text(claim.value)}", name),
        (
            "Lower bound",
            f"≥ {size(lower)}" if lower else size(lower),
            "none was given" if lower is None else "shown by the runs",
        ),
        ("Upper bound", "–" if upper is None else f"≤ {upper_text(upper)}", claim.upper_from or "no theorem was given"),
        ("Gap", "–" if gap is None else upper_text(gap), "upper less lower bound: settled by neither"),
        ("Largest reachable", "–" if reachable is None else upper_text(reachable), most),
    )
    return {"tone": tone, "word": word, "text": claim.text, "facts": facts}


def _bound_row(bound: LowerBound) -> dict[str, Any]:
    corrections, value, reachable = bound.corrections, bound.value, bound.reachable
    counts = [
        f"{bound.correct:,} of {bound.guesses:,} guesses right"
        if bound.correct is not None and bound.guesses is not None
        else "",
        f"{bound.canaries:,.0f} canaries" if bound.canaries is not None else "",
        f"p = {_p_value(bound.p_value)} of no effect at all" if bound.p_value is not None else "",
    ]
    return {
        "parameter": parameter_name(bound.parameter, bound.delta),
        "changes": bound.changes,
        "value": f"≥ {size(value)}" if value else size(value),
        "reachable": "" if reachable is None else f"at most {upper_text(reachable)} could show",
        "confidence": percent(bound.confidence),
        "method": bound.method,
        "counts": "; ".join(text for text in counts if text),
        "corrections": "; ".join(corrections) if corrections else "none",
        "exploratory": bound.exploratory,
    }


def _p_value(p: float) -> str:
    return upper_text(p, 2) if p >= 1e-12 else "0" if p == 0 else "below 1e-12"
