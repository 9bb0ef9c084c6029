"""Propensities of zero-run evidence that do not come from the audited records: given, or learned from separate ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.auditing.plan import Plan
from miaudit.auditing.zero_run import encoding_of
from miaudit.causal import propensity
from miaudit.causal.classifiers import CLASSIFIERS
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence


def given(name: str, values: NDArray[np.generic], evidence: Evidence) -> FloatArray:
    """Return given propensities (n,), one for each record of the evidence.

    Parameters
    ----------
    name : of the column or file that they came from
    values : P(member | covariates) of each record in the sample that is audited, in (0, 1), in the order of the scores

    Raises
    ------
    InputError
        For text, for what is missing or not strictly between 0 and 1, and for another number of records.
    """
    if values.dtype.kind not in "biuf":
        received = f"values of type {values.dtype}"
        raise InputError(name, "probabilities strictly between 0 and 1", received, "convert the column to numbers")
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1 or len(values) != evidence.n:
        received = f"{len(values):,}" if values.ndim == 1 else f"an array of shape {values.shape}"
        step = "give one for each record, in the order of the scores"
        raise InputError(name, f"{evidence.n:,} propensities, one for each record", received, step)
    missing = np.isnan(values)
    if missing.any():
        received = f"{np.count_nonzero(missing):,} missing, the first in row {int(np.argmax(missing))}"
        raise InputError(name, "a probability for each record", received, "fill them, or leave those records out")
    try:
        return Propensity.given(values).values
    except InputError as error:
        raise InputError(name, error.allowed, error.received, error.next_step) from None


def from_elsewhere(
    evidence: Evidence, plan: Plan, values: FloatArray | None, sample: Evidence | None, *, rng: np.random.Generator
) -> Nuisance | None:
    """Return the propensity that was given, or learned from a separate sample; None where the audit is to learn it.

    Parameters
    ----------
    evidence : the audited records; nothing is corrected, and nothing learned, unless it is zero-run evidence
    values : of :func:`given`, or None
    sample : other records, with the covariates and texts of the evidence and with membership, or None
    rng : of the calibration's folds; nothing is drawn where nothing is learned

    Raises
    ------
    InputError
        If the sample holds audited records, or nothing can be learned from it.
    """
    if evidence.design != "zero-run" or (values is None and sample is None):
        return None
    if values is not None:
        return Nuisance(propensity=Propensity.given(values))
    assert sample is not None  # noqa: S101
    classifier = None if plan.classifier is None else CLASSIFIERS[plan.classifier]()
    encoding = encoding_of(evidence, plan, Nuisance())
    try:
        learned = propensity.fit(evidence, classifier=classifier, encoding=encoding, train=sample, rng=rng)
    except InputError as error:
        name = "propensity sample" if error.argument == "train" else f"propensity sample: {error.argument}"
        step = error.next_step.replace("train", "the sample")
        raise InputError(name, error.allowed, error.received, step) from None
    return Nuisance(propensity=learned)
