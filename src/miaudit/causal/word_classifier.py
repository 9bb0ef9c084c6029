"""Membership classified from all words of texts: a check on propensities with few components."""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.causal import covariates, crossfit
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, Sample

_MOST_WORDS = 50_000
_TOO_TELLING = 0.95  # as for covariates (statistics.md, section 4)
_LEFT_OVER = 0.02  # AUC that words may have above the propensity's before it is said to miss a shift


@dataclass(frozen=True)
class Words:
    """Cross-fitted result of a linear classifier of membership on all words.

    Attributes
    ----------
    auc : of the words alone, 0.5 where they say nothing
    reason : why texts with such words cannot be compared under the propensity; empty if they can
    """

    auc: Estimate
    reason: str


def measure(evidence: Evidence, blind: Estimate, *, confidence: float = 0.95, rng: np.random.Generator) -> Words:
    """Compare a classifier on all words with the propensity.

    A propensity of texts sees a few components of their words. Where the words themselves separate the classes, or
    tell clearly more than the propensity does, weights cannot make the classes comparable.

    Parameters
    ----------
    evidence : with text (n,)
    blind : AUC of the propensity's log-odds (:func:`miaudit.causal.balance.measure`)
    confidence : of the interval
    rng : draws folds

    Raises
    ------
    InputError
        If the evidence has no text, or texts without words.

    Examples
    --------
    >>> text = ["old news today", "new story now"] * 50
    >>> ev = Evidence(score=np.arange(100.0), member=[True, False] * 50, text=text, design="zero-run")
    >>> found = measure(ev, Estimate(0.6, 0.5, 0.7, 0.95), rng=np.random.default_rng(0))
    >>> round(found.auc.value, 2), found.reason[:47]
    (1.0, 'The words of the texts alone tell members from ')
    """
    if evidence.text is None:
        raise InputError("evidence", "evidence with text", "none", "pass text= to Evidence")
    log_odds = _cross_fitted(evidence, rng)
    auc = Sample.of(Evidence(score=log_odds, member=evidence.member, unit=evidence.unit)).auc(confidence)
    known = blind.high if np.isfinite(blind.high) else blind.value or 0.5
    limit = min(_TOO_TELLING, known + _LEFT_OVER)
    reason = ""
    if auc.low > limit:
        value = 0.0 if auc.value is None else auc.value
        reason = (
            f"The words of the texts alone tell members from non-members with an AUC of {value:.3f}, the propensity "
            f"with {0.5 if blind.value is None else blind.value:.3f}: it misses a shift that is there."
        )
        if auc.low > _TOO_TELLING:
            reason = (
                f"The words of the texts alone tell members from non-members with an AUC of {value:.3f}: "
                "hardly any member has a comparable non-member."
            )
    return Words(auc, reason)


def _cross_fitted(evidence: Evidence, rng: np.random.Generator) -> FloatArray:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    code = covariates.codes(evidence)
    folds = covariates.folds_of(crossfit.FOLDS, evidence.member, code, rng)
    text = np.asarray(evidence.text)
    found = np.zeros(evidence.n)
    for fold in np.unique(folds):
        out = folds == fold
        terms = TfidfVectorizer(sublinear_tf=True, max_features=_MOST_WORDS)
        try:
            x = terms.fit_transform(text[~out])
        except ValueError as error:  # scikit-learn: an empty vocabulary
            raise InputError("text", "texts with words in them", str(error), "check what the texts hold") from None
        model = LogisticRegression(C=10.0, max_iter=300).fit(x, evidence.member[~out])
        # Each fold's scores about their own middle, so that folds can be pooled.
        score = model.decision_function(terms.transform(text[out]))
        found[out] = score - np.median(score)
    return found
