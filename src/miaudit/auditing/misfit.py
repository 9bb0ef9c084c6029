"""What a refuted propensity misses, where, and what to do about it, in words."""

from __future__ import annotations

import numpy as np

from miaudit.auditing.plan import Plan
from miaudit.causal import gaps, lack_of_fit
from miaudit.causal.lack_of_fit import LackOfFit
from miaudit.causal.propensity import Propensity
from miaudit.evidence import Evidence

__all__ = ["in_words"]

_MOST_CODES = 100


def in_words(fit: LackOfFit | None, seen: Evidence, learned: Propensity, plan: Plan) -> str:
    """Return in words that the propensity is refuted, what it misses and where; empty if it is not."""
    if fit is None or not fit.rejected:
        return ""
    missed, level = _missed(fit, seen) if learned.stacked else (fit.missed, None)
    coded = _codes(seen).difference(plan.categories)
    codes = [name for name in missed if name in coded]
    step = f"declare {lack_of_fit.listed(codes)} as categories (--categories)" if codes else ""
    if learned.stacked:
        columns = [i for name in missed[:2] for i, own in enumerate(_names(seen)) if own == name]
        gaps_text = gaps.where(seen, learned.odds, columns, level) if columns else ""
        place = f" {gaps_text[0].upper()}{gaps_text[1:]}." if gaps_text else ""
        more = f" Next: {step}." if step else ""
        return f"{fit.sentence} Weights that miss a part of the shift show that part as memorisation.{place}{more}"
    other = "learn the propensity with a classifier that sees it (Nuisance(classifier=...))"
    return (
        f"{fit.sentence} Weights that miss a part of the shift show that part as memorisation. "
        f"Next: {step + ', or ' if step else ''}{other}, or leave out the records that differ in this."
    )


def _names(evidence: Evidence) -> tuple[str, ...]:
    columns = 0 if evidence.covariates is None else evidence.covariates.shape[1]
    return evidence.covariate_names or tuple(f"covariate {i}" for i in range(columns))


def _missed(fit: LackOfFit, seen: Evidence) -> tuple[tuple[str, ...], float | None]:
    """Return the covariates that are missed, and which value of the first alone.

    The basis says "education = 9", "age, curved" or "site: rare levels".
    """
    names = sorted(_names(seen), key=len, reverse=True)
    missed = tuple(next((own for own in names if term.startswith(own)), term) for term in fit.missed)
    value = fit.missed[0].removeprefix(f"{missed[0]} = ") if missed else ""
    if not missed or value == fit.missed[0]:
        return missed, None
    of_names = {text: code for code, text in seen.levels.get(missed[0], {}).items()}
    return missed, of_names[value] if value in of_names else float(value)


def _codes(evidence: Evidence) -> frozenset[str]:
    """Names of covariates that look like codes: whole numbers, three to a hundred different ones."""
    x = evidence.covariates
    if x is None:
        return frozenset()
    names = _names(evidence)
    whole = np.flatnonzero((x == np.rint(x)).all(axis=0))
    return frozenset(names[i] for i in whole if 3 <= len(np.unique(x[:, i])) <= _MOST_CODES)
