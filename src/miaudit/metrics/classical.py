"""Classical metrics of an attack, with intervals: causal where membership was randomised, "raw" where it was not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.evidence import Evidence
from miaudit.metrics import intervals
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units

_BAND_NODES = 80  # a drawn band needs fewer digits than a reported limit


@dataclass(frozen=True)
class Estimate:
    """A number, its confidence interval, and what a reader must know about them.

    Attributes
    ----------
    value : the estimate, or None where the data cannot resolve one
    low, high : two-sided confidence limits
    confidence : of the interval, in (0, 1)
    note : what must be said with the number; empty if nothing
    step_value : for a TPR, the value without a randomised threshold inside tie blocks
    """

    value: float | None
    low: float
    high: float
    confidence: float
    note: str = ""
    step_value: float | None = None

    @property
    def resolved(self) -> bool:
        """Whether there is an estimate and not only an upper limit."""
        return self.value is not None


def tpr_name(fpr: float) -> str:
    """Name the metric TPR at an FPR.

    Examples
    --------
    >>> tpr_name(0.001)
    'tpr_at_fpr_0.001'
    """
    return f"tpr_at_fpr_{fpr:g}"


@dataclass(frozen=True, eq=False)
class Sample:
    """Evidence of one score, sorted once: what every classical metric is computed from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(2000) < 0.5
    >>> sample = Sample.of(Evidence(score=rng.normal(size=2000) + member, member=member))
    >>> estimate = sample.auc(0.95)
    >>> print(f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]")  # the truth is 0.760
    0.770 [0.749, 0.790]
    """

    score: FloatArray
    member: BoolArray
    roc: Roc
    units: Units | None

    @classmethod
    def of(cls, evidence: Evidence) -> Sample:
        """Sort the score of evidence that has one."""
        code = evidence.unit_codes
        units = None if code is None else Units.of(code, evidence.member)
        return cls(evidence.score, evidence.member, Roc.of(evidence.score, evidence.member), units)

    @property
    def independent_members(self) -> int:
        """Members, counted as units."""
        return round(self.roc.n_members) if self.units is None else self.units.members

    @property
    def independent_nonmembers(self) -> int:
        """Non-members, counted as units."""
        return round(self.roc.n_nonmembers) if self.units is None else self.units.nonmembers

    @property
    def effective_nonmembers(self) -> float:
        """Non-members that count: fewer than their units where some hold many records (Kish)."""
        return self.roc.n_nonmembers if self.units is None else self.units.effective_nonmembers

    @property
    def _freedom(self) -> float | None:
        """Degrees of freedom of a variance between units; None where records are independent."""
        return None if self.units is None else self.units.freedom

    @property
    def independence(self) -> str:
        """Describe the assumption on dependence between records."""
        if self.units is None:
            return (
                "Records are independent: no person or account stands behind several of them (give unit ids if one "
                "does)."
            )
        share = self.units.largest_share
        giant = (
            f" One unit holds {share:.0%} of the records of a class, which costs much of them." if share > 0.1 else ""
        )
        both = self.units.spanning
        giant += f" {both:,} units hold both: what their records share, or oppose, is in the intervals." if both else ""
        return (
            f"Records of one unit may depend on each other, units do not: intervals and counts are of "
            f"{self.independent_members:,} units of members and {self.independent_nonmembers:,} of non-members.{giant}"
        )

    def auc(self, confidence: float) -> Estimate:
        """Area under the ROC curve (DeLong on the logit scale), 0.5 at chance; ties count one half."""
        value = self.roc.auc
        variance = (
            intervals.delong_variance(self.roc) if self.units is None else self._clustered_auc_variance(self.units)
        )
        members = self.roc.n_members if self.units is None else self.units.effective_members
        low, high = intervals.auc_limits(value, variance, members, self.effective_nonmembers, confidence, self._freedom)
        return Estimate(value, low, high, confidence)

    def tpr_at_fpr(self, fpr: float, confidence: float) -> Estimate:
        """TPR at an FPR; below the resolution an upper limit only, never a value (errata C3)."""
        resolved = intervals.resolvable(fpr, self.effective_nonmembers, confidence)
        if self.units is None:
            lows, highs = intervals.tpr_limits(self.roc, fpr, confidence)
            low, high = float(lows[0]), float(highs[0])
        else:
            low, high = self._clustered_tpr_limits(self.units, fpr, confidence)
        if not resolved:
            kind = "non-members" if self.units is None else "equally large units of non-members"
            note = (
                f"upper limit only: an FPR of {fpr:g} needs {intervals.nonmembers_needed(fpr, confidence):,} {kind}, "
                f"there are {self.effective_nonmembers:,.0f}"
            )
            return Estimate(None, 0.0, high, confidence, note)
        value, step = float(self.roc.tpr_at(fpr)), self.roc.step_tpr_at(fpr)
        note = "interpolated inside ties (a randomised threshold)" if not math.isclose(value, step) else ""
        return Estimate(value, min(low, value), max(high, value), confidence, note, step)

    def tpr_band(self, fpr: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Pointwise limits (k,) of the TPR at each FPR (k,)."""
        if self.units is None:
            return intervals.tpr_limits(self.roc, fpr, confidence, most_nodes=_BAND_NODES)
        pairs = [self._clustered_tpr_limits(self.units, float(alpha), confidence) for alpha in fpr]
        return np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])

    def advantage(self, confidence: float) -> Estimate:
        """sup(TPR - FPR), 0 at chance; the lower limit pays for having looked for the best threshold."""
        if self.units is None:
            low, high = intervals.advantage_limits(self.roc, confidence)
        else:
            low, high = self._clustered_advantage_limits(self.units, confidence)
        return Estimate(max(self.roc.advantage, 0.0), low, high, confidence)

    def balanced_accuracy(self, confidence: float) -> Estimate:
        """(TPR + TNR) / 2 at the best threshold, 0.5 at chance: (1 + advantage) / 2."""
        best = self.advantage(confidence)
        return replace(best, value=(1 + (best.value or 0.0)) / 2, low=(1 + best.low) / 2, high=(1 + best.high) / 2)

    def difference(self, confidence: float) -> Estimate:
        """Mean score of members less that of non-members, in units of the score: the average effect of membership."""
        inside, outside = self.score[self.member], self.score[~self.member]
        n1, n0 = len(inside), len(outside)
        m1, m0 = float(inside.mean()), float(outside.mean())
        if self.units is not None:
            influence = np.where(self.member, (self.score - m1) / n1, -(self.score - m0) / n0)
            variance = self.units.variance(influence)
            freedom = self.units.freedom
            enough = min(self.units.members, self.units.nonmembers) >= 2
        else:
            enough = min(n1, n0) >= 2
            v1, v0 = (float(x.var(ddof=1)) / len(x) if len(x) > 1 else 0.0 for x in (inside, outside))
            variance = v1 + v0
            share = v1 / variance if variance > 0 else 0.5
            freedom = 1 / (share**2 / max(n1 - 1, 1) + (1 - share) ** 2 / max(n0 - 1, 1))  # Welch and Satterthwaite
        if not enough:
            return Estimate(m1 - m0, -math.inf, math.inf, confidence, "no interval: fewer than two units in a class")
        low, high = intervals.student_limits(m1 - m0, math.sqrt(variance), freedom, confidence)
        return Estimate(m1 - m0, low, high, confidence)

    def _clustered_auc_variance(self, units: Units) -> float:
        """Variance of the AUC with dependent records (Obuchowski 1997), units with records of both classes included."""
        vertex = self.roc.blocks_of(self.score)
        fpr, tpr = self.roc.fpr, self.roc.tpr
        below = 1 - (fpr[vertex] + fpr[vertex - 1]) / 2
        above = (tpr[vertex] + tpr[vertex - 1]) / 2
        n1, n0, auc = self.roc.n_members, self.roc.n_nonmembers, self.roc.auc
        return units.variance(np.where(self.member, (below - auc) / n1, (above - auc) / n0))

    def _clustered_advantage_limits(self, units: Units, confidence: float) -> tuple[float, float]:
        """Limits that hold for units, and for units of both classes however their records oppose each other."""
        accused = self.score >= self.roc.threshold[int(np.argmax(self.roc.tpr - self.roc.fpr))]
        return intervals.advantage_limits(
            self.roc,
            confidence,
            units.effective_members,
            units.effective_nonmembers,
            variance=units.worst_variance,
            opposition=units.opposition(accused),
        )

    def _clustered_tpr_limits(self, units: Units, fpr: float, confidence: float) -> tuple[float, float]:
        """The mixture with the variances of units, widened for what few accused units can say about their own."""
        n1, n0 = self.roc.n_members, self.roc.n_nonmembers
        alarms = max(1.0, math.ceil(fpr * n0 * (1 - 1e-12)))
        threshold = self.roc.threshold[np.searchsorted(self.roc.false_positive, alarms, side="left")]
        accused = self.score >= threshold
        independent, dependent = fpr * (1 - fpr) / n0, fpr * (1 - fpr) / units.effective_nonmembers
        measured, exceeding = units.rate_variance(accused, members=False)
        widened = max(independent, measured * (1 + 2 / math.sqrt(max(exceeding, 1))))
        if not intervals.resolvable(fpr, units.effective_nonmembers, confidence):
            widened = dependent
        tpr = float(accused[self.member].mean())
        spread, _ = units.rate_variance(accused, members=True)
        effective = tpr * (1 - tpr) / spread if spread > 0 else 0.0  # no unit differs: nothing is known of the spread
        effective = min(n1, max(units.effective_members, effective))
        return intervals.tpr_limits_uncertain_level(self.roc, fpr, confidence, min(dependent, widened), effective)


def precision(tpr: Estimate, fpr: float, prior: float) -> Estimate:
    """Precision of an accusation (positive predictive value) at an FPR, when a share ``prior`` of people are members.

    It rises with the TPR, so the limits are those of the TPR.

    Examples
    --------
    >>> precision(Estimate(0.09, 0.05, 0.2, 0.95), fpr=0.01, prior=0.5).value
    0.9
    """

    def of(rate: float) -> float:
        accused = prior * rate + (1 - prior) * fpr
        return prior * rate / accused if accused > 0 else 0.0

    value = None if tpr.value is None else of(tpr.value)
    return Estimate(value, of(tpr.low), of(tpr.high), tpr.confidence, tpr.note)
