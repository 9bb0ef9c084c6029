"""What a refuted propensity misses, where, and what to do about it, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.auditing.plan import Plan
from miaudit.causal import gaps, lack_of_fit
from miaudit.causal.lack_of_fit import LackOfFit
from miaudit.causal.propensity import Propensity
from miaudit.dp.zero_run.independent_guesses import LEAST_ROWS_PER_COVARIATE
from miaudit.evidence import Evidence

__all__ = ["in_words", "way_to_a_bound"]

_MOST_CODES = 100


def in_words(fit: LackOfFit | None, seen: Evidence, learned: Propensity, plan: Plan) -> str:
    """Return in words that the propensity is refuted, what it misses and where; empty if it is not."""
    if fit is None or not fit.rejected:
        return ""
    missed, level = _missed(fit, seen) if learned.stacked else (fit.missed, None)
    codes = _undeclared(missed, seen, plan)
    step = _declare(codes) if codes else ""
    if learned.stacked:
        columns = [i for name in missed[:2] for i, own in enumerate(_names(seen)) if own == name]
        gaps_text = gaps.where(seen, learned.odds, columns, level) if columns else ""
        place = f" {gaps_text[0].upper()}{gaps_text[1:]}." if gaps_text else ""
        more = f" Next: {step}." if step else ""
        return f"{fit.sentence} Weights that miss a part of the shift show that part as memorisation.{place}{more}"
    return (
        f"{fit.sentence} Weights that miss a part of the shift show that part as memorisation. "
        f"Next: {step + ', or ' if step else ''}{_by_default(learned)}, or leave out the records that differ in this."
    )


def way_to_a_bound(fit: LackOfFit | None, seen: Evidence, line: Propensity, plan: Plan) -> str:
    """Return what gives a bound where the line that bounds rest on is refuted; empty where nothing is known to.

    A margin on the log-odds is no way: at the smallest one that a challenge does not refute, bounds are false in most
    audits of shifts that a screen does not learn (docs/bounds.md).

    Parameters
    ----------
    fit : lack of fit of the line
    seen : evidence with the covariates of the line
    line : the propensity
    plan : what it declares already
    """
    if fit is None or not fit.rejected:
        return ""
    codes = _undeclared(fit.missed, seen, plan)
    if codes and seen.n >= LEAST_ROWS_PER_COVARIATE * _columns_with(codes, seen, line):
        return f"Next: {_declare(codes)}."
    if plan.bounds_model == "line":
        return (
            "Next: leave out bounds_model: line. By default bounds then rest on a line with the splines and products "
            "that its training rows call for."
        )
    return ""


def _by_default(learned: Propensity) -> str:
    """Say which model of the caller to leave out for the stack, which learns such shifts."""
    if learned.rows_per_covariate is None:
        return "leave out the propensities that were given, and the stack learns them from the covariates"
    chosen = "propensity_model: line" if learned.logistic else "the classifier"
    return f"leave out {chosen}, and the stack learns products, jumps and codes too"


def _declare(codes: Sequence[str]) -> str:
    return f"declare {lack_of_fit.listed(codes)} as categories (--categories)"


def _undeclared(missed: Sequence[str], seen: Evidence, plan: Plan) -> list[str]:
    """Covariates that are missed, look like codes, and are no categories of the plan."""
    coded = _codes(seen).difference(plan.categories)
    return [name for name in missed if name in coded]


def _columns_with(codes: Sequence[str], seen: Evidence, line: Propensity) -> int:
    """Columns that a line has once the codes are categories, one for each level."""
    x, names = np.asarray(seen.covariates), _names(seen)
    levels = sum(len(np.unique(x[:, names.index(name)])) for name in codes)
    return int((x if line.features is None else line.features).shape[1]) - len(codes) + levels


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
