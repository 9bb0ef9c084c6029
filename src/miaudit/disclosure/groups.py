"""Calibration and uncertainty of groups of records, from one model or more (Figures 5, 11, 14).

A group's records are taken for draws from one law of the confidence vector with, and one without, membership. That is
what the paper fits. It asks for no shadow models, but differences between records then count as epistemic uncertainty.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray
from miaudit.attacks import dirichlet_fit
from miaudit.disclosure import dirichlet, uncertainty
from miaudit.disclosure.intervals import Interval, check_options, plain_values
from miaudit.errors import InputError

__all__ = ["Group", "pooled"]

FEWEST_RECORDS = 10  # of a group on each side


@dataclass(frozen=True, eq=False)
class Side:
    """Outputs on a group by models that learned the record, or by those that did not.

    Attributes
    ----------
    records, outputs : how many records there are, and how many outputs of models on them
    confidence : Interval, mean probability of the label
    epistemic : Interval, one over the sum of the Dirichlet parameters (Eq. 28)
    alpha : array (K,), the parameters; the label's is the first
    converged : whether the fit did
    distance : Kolmogorov's distance of the label's confidences from the Beta marginal of the fitted law, 0 to 1
    alpha_alone : array (2,), the Beta law fitted to the label's confidences alone
    distance_alone : their distance from that, 0 to 1: small where only the joint law of all classes fails
    """

    records: int
    outputs: int
    confidence: Interval
    epistemic: Interval
    alpha: FloatArray
    converged: bool
    distance: float
    alpha_alone: FloatArray
    distance_alone: float


@dataclass(frozen=True, eq=False)
class Group:
    """Calibration and uncertainty of a group of records.

    Attributes
    ----------
    name : of the group
    members, nonmembers : Side, outputs of models that did and did not learn the record
    calibration_error : Interval
        Delta = (mean confidence of members - p_0*) / p_0* (Eq. 24): a ratio of means over the group.
    aleatoric : Interval
        epsilon_a = 1 - p_0* (Eq. 23); without width where p_0* was given.
    smoothed : share of the probabilities that were raised to the smallest one allowed
    assumption : what stands in for p_0*, in words
    """

    name: str
    members: Side
    nonmembers: Side
    calibration_error: Interval
    aleatoric: Interval
    smoothed: float
    assumption: str

    @property
    def epistemic(self) -> float:
        """Mean of both sides' epistemic uncertainty, which Eq. 28 assumes equal."""
        return (self.members.epistemic.value + self.nonmembers.epistemic.value) / 2

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for findings and charts."""
        return {**asdict(self, dict_factory=plain_values), "epistemic": self.epistemic}


def pooled(
    probabilities: ArrayLike,
    included: ArrayLike,
    labels: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    truth: float | None = None,
    confidence: float = 0.95,
    replicates: int = 1000,
    smoothing: float = dirichlet_fit.SMOOTHING,
    rng: np.random.Generator,
) -> tuple[Group, ...]:
    """Estimate calibration error, aleatoric and epistemic uncertainty of each group of records.

    Parameters
    ----------
    probabilities, included, labels : as in :func:`miaudit.disclosure.uncertainty.estimate`; one model (M = 1) is enough
    groups : array (n,), optional
        Which group each record is in; by default one of all. A class is a group if you pass the labels.
    truth : in (0, 1], optional
        Known ground-truth probability of the label, as in :func:`miaudit.disclosure.uncertainty.estimate`.
    confidence : two-sided, in (0, 1)
    replicates : of the bootstrap over records, in which the models of a record stay together; 100 or more
    smoothing : as in :func:`miaudit.disclosure.uncertainty.estimate`
    rng : generator of the bootstrap

    Returns
    -------
    tuple of Group, in the order of their names

    Raises
    ------
    InputError
        As :func:`miaudit.disclosure.uncertainty.estimate`, and for a group with fewer than ten records on a side.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = np.concatenate([rng.dirichlet([8, 1, 1], 300), rng.dirichlet([5, 2.5, 2.5], 300)])[:, None]
    >>> one, = pooled(p, (np.arange(600) < 300)[:, None], np.zeros(600, dtype=int), truth=0.5, rng=rng)
    >>> round(one.calibration_error.value, 1), round(one.epistemic, 2), one.nonmembers.distance < 0.05
    (0.6, 0.1, True)
    """
    check_options(confidence, replicates)
    p, inside, y = uncertainty.checked(probabilities, included, labels)
    known_truth = None if truth is None else float(uncertainty.checked_truth(truth, 1)[0])
    names = np.zeros(len(p), dtype=np.int64) if groups is None else np.asarray(groups)
    if names.shape != (len(p),):
        raise InputError("groups", f"one for each of {len(p)} records", f"shape {names.shape}", "pass (n,)")
    p = uncertainty.label_first(p, y)
    fit = _Fit(known_truth, confidence, replicates, smoothing, rng)
    return tuple(
        fit.group("all records" if groups is None else str(name), p[names == name], inside[names == name])
        for name in np.unique(names)
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    """Options of the estimates for groups."""

    truth: float | None
    confidence: float
    replicates: int
    smoothing: float
    rng: np.random.Generator

    def group(self, name: str, p: FloatArray, inside: BoolArray) -> Group:
        for who, side in (("members", inside), ("non-members", ~inside)):
            records = int(side.any(axis=1).sum())
            if records < FEWEST_RECORDS:
                received = f"{records} in group {name!r}"
                raise InputError("groups", f"{FEWEST_RECORDS} or more {who} in each", received, "join small groups")
        weights = self.rng.multinomial(len(p), np.full(len(p), 1 / len(p)), self.replicates).astype(np.float64)
        # The first row is the data, the others are replicates: memberships differ, so some may lack a side.
        weights = np.vstack([np.ones(len(p)), weights])
        weights = weights[((weights @ inside.any(axis=1) > 0) & (weights @ (~inside).any(axis=1) > 0))]
        member, mean_in, smoothed_in = self._side(p, inside, weights)
        other, mean_out, smoothed_out = self._side(p, ~inside, weights)
        target = mean_out if self.truth is None else np.full(len(weights), self.truth)
        return Group(
            name=name,
            members=member,
            nonmembers=other,
            calibration_error=self._interval((mean_in - target) / target),
            aleatoric=self._interval(1 - target),
            smoothed=(smoothed_in * member.outputs + smoothed_out * other.outputs) / inside.size,
            assumption=uncertainty.assumption(self.truth is not None),
        )

    def _side(self, p: FloatArray, side: BoolArray, weights: FloatArray) -> tuple[Side, FloatArray, float]:
        """Return one side's estimates, its mean confidence with replicates, and the share of raised probabilities."""
        outputs = p[side]
        fit = dirichlet_fit.fit(outputs[None], smoothing=self.smoothing)
        alpha = fit.alpha[0]
        two = np.stack([outputs[:, 0], outputs[:, 1:].sum(axis=1)], axis=1)
        alone = dirichlet_fit.fit(two[None], smoothing=self.smoothing).alpha[0]
        # The likelihood reads the outputs through sums of log p alone, so replicates need one row for each record.
        logs = np.where(side[..., None], np.log(dirichlet_fit.smooth(p, self.smoothing)), 0.0).sum(axis=1)
        count = weights @ side.sum(axis=1)
        means = (weights @ np.where(side, p[..., 0], 0.0).sum(axis=1)) / count
        start = np.repeat(alpha[None], len(weights), axis=0)
        fits, _ = dirichlet_fit.maximise(weights @ logs / count[:, None], start)
        estimates = Side(
            records=int(side.any(axis=1).sum()),
            outputs=len(outputs),
            confidence=self._interval(means),
            epistemic=self._interval(1 / fits.sum(axis=1)),
            alpha=alpha,
            converged=bool(fit.converged[0]),
            distance=self._distance(outputs, alpha),
            alpha_alone=alone,
            distance_alone=self._distance(two, alone),
        )
        return estimates, means, fit.smoothed

    def _distance(self, outputs: FloatArray, alpha: FloatArray) -> float:
        return float(dirichlet.goodness(outputs[None], alpha[None], smoothing=self.smoothing).distance[0])

    def _interval(self, values: FloatArray) -> Interval:
        return Interval.of(values[0], values[1:], self.confidence)
