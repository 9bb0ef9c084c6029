"""Classical metrics of an attack, with intervals: causal where membership was randomised, "raw" where it was not.

No interval is from resampling. The methods were chosen by simulation: ``docs/validity.md`` has the coverage that each
reaches, and the validity suite measures it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.evidence import Evidence
from miaudit.metrics import influence, matched_scores
from miaudit.metrics.beta_mixture import BetaMixture
from miaudit.metrics.proportions import clopper_pearson as clopper_pearson  # noqa: PLC0414 - its callers find it here
from miaudit.metrics.proportions import joined as joined  # noqa: PLC0414
from miaudit.metrics.proportions import root as root  # noqa: PLC0414
from miaudit.metrics.proportions import student_limits as student_limits  # noqa: PLC0414
from miaudit.metrics.proportions import wilson_limits as wilson_limits  # noqa: PLC0414
from miaudit.metrics.roc import Histogram, Roc, histogram
from miaudit.metrics.units import Units

_BAND_NODES = 80  # a drawn band needs fewer digits than a reported limit
# Nodes of the mixture beyond which counts are taken in strides, and the mass that is left out at each end.
MOST_NODES = 400
SMALLEST_FPR = 1e-12  # below it, no number of records that anybody has resolves a TPR
_LEFT_OUT = 6.0
# Records of a class below which its variance is taken as uncertain, and below which the limits are those of a rate too.
_FEW, _FEWEST = 30, 10
_ROUNDING = 1e-30  # a variance of a rate that is rounding error: one comparison among 1e7 records gives 1e-28


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
    standard_error : of the value, on the value's own scale, by which audits of different records are pooled; None where
        there is none (a maximum over thresholds) or where the records show no variation (an AUC of 1). The interval
        need not follow from it: limits of an AUC are normal on the logit scale, those of a TPR a mixture of Beta laws.
    """

    value: float | None
    low: float
    high: float
    confidence: float
    note: str = ""
    step_value: float | None = None
    standard_error: float | None = None

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
    ascending: IndexArray  # rows from the lowest score to the highest
    decoys: bool = False  # whether non-members are decoys, of which every unit has equally many

    @classmethod
    def of(cls, evidence: Evidence) -> Sample:
        """Sort the score of evidence that has one; of the design "matched" the standardised scores."""
        decoys = evidence.design == "matched"
        evidence = matched_scores.contrasts(evidence) if decoys else evidence
        code = evidence.unit_codes
        units = None if code is None else Units.of(code, evidence.member)
        roc = Roc.of(evidence.score, evidence.member, ascending=evidence.ascending)
        return cls(evidence.score, evidence.member, roc, units, evidence.ascending, decoys)

    @property
    def independent_members(self) -> int:
        """Members, counted as units."""
        return round(self.roc.n_members) if self.units is None else self.units.members

    @property
    def independent_nonmembers(self) -> int:
        """Non-members, counted as units; every decoy."""
        return round(self.roc.n_nonmembers) if self.units is None or self.decoys else self.units.nonmembers

    @property
    def effective_nonmembers(self) -> float:
        """Non-members that count: fewer than their units where some hold many records (Kish); every decoy."""
        return self.roc.n_nonmembers if self.units is None or self.decoys else self.units.effective_nonmembers

    @property
    def _freedom(self) -> float | None:
        """Degrees of freedom of a variance between units; None where records are independent."""
        return None if self.units is None else self.units.freedom

    @property
    def independence(self) -> str:
        """Describe the assumption on dependence between records."""
        if self.decoys:
            return (
                "Units are independent: chance drew the strings of one without those of another. The candidates of a "
                "unit may depend on each other, which the intervals include."
            )
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
        variance = self._auc_variance
        members = self.roc.n_members if self.units is None else self.units.effective_members
        low, high = auc_limits(value, variance, members, self.effective_nonmembers, confidence, self._freedom)
        return Estimate(value, low, high, confidence, standard_error=root(variance))

    def tpr_at_fpr(self, fpr: float, confidence: float) -> Estimate:
        """TPR at an FPR; below the resolution an upper limit only, never a value (errata C3)."""
        effective = self._nonmembers_at(fpr)
        resolved = resolvable(fpr, effective, confidence)
        if self.units is None:
            lows, highs = tpr_limits(self.roc, fpr, confidence)
            low, high = float(lows[0]), float(highs[0])
        else:
            low, high = self._clustered_tpr_limits(self.units, fpr, confidence)
        if not resolved:
            kind = "non-members" if self.units is None else "equally large units of non-members"
            kind = "decoys" if self.decoys else kind
            note = (
                f"upper limit only: an FPR of {fpr:g} needs {nonmembers_needed(fpr, confidence):,} {kind}, "
                f"there are {effective:,.0f}"
            )
            return Estimate(None, 0.0, high, confidence, note)
        value, step = float(self.roc.tpr_at(fpr)), self.roc.step_tpr_at(fpr)
        note = "interpolated inside ties (a randomised threshold)" if not math.isclose(value, step) else ""
        error = root(self._tpr_variance(fpr))
        return Estimate(value, min(low, value), max(high, value), confidence, note, step, error)

    def _tpr_variance(self, fpr: float) -> float:
        """Variance of the TPR at an FPR, by the influence of each record, or unit."""
        influence = self.influence_on_tpr(fpr)
        return float((influence**2).sum()) if self.units is None else self.units.variance(influence)

    def tpr_band(self, fpr: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Pointwise limits (k,) of the TPR at each FPR (k,)."""
        if self.units is None:
            return tpr_limits(self.roc, fpr, confidence, most_nodes=_BAND_NODES)
        pairs = [self._clustered_tpr_limits(self.units, float(alpha), confidence) for alpha in fpr]
        return np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])

    def advantage(self, confidence: float) -> Estimate:
        """sup(TPR - FPR), 0 at chance; the lower limit pays for having looked for the best threshold."""
        if self.units is None:
            low, high = advantage_limits(self.roc, confidence)
        else:
            low, high = self._clustered_advantage_limits(self.units, confidence)
        return Estimate(max(self.roc.advantage, 0.0), low, high, confidence)

    def balanced_accuracy(self, confidence: float) -> Estimate:
        """(TPR + TNR) / 2 at the best threshold, 0.5 at chance: (1 + advantage) / 2."""
        best = self.advantage(confidence)
        return replace(best, value=(1 + (best.value or 0.0)) / 2, low=(1 + best.low) / 2, high=(1 + best.high) / 2)

    def difference(self, confidence: float) -> Estimate:
        """Mean score of members less that of non-members, in units of the score: the average effect of membership."""
        n1, n0 = round(self.roc.n_members), round(self.roc.n_nonmembers)
        m1, m0, *variances = self._moments()
        if self.units is not None:
            variance = self.units.variance(self.influence_on_difference())
            freedom = self.units.freedom
            enough = min(self.units.members, self.units.nonmembers) >= 2
        else:
            enough = min(n1, n0) >= 2
            v1, v0 = (variance / n for variance, n in zip(variances, (n1, n0), strict=True))
            variance = v1 + v0
            share = v1 / variance if variance > 0 else 0.5
            freedom = 1 / (share**2 / max(n1 - 1, 1) + (1 - share) ** 2 / max(n0 - 1, 1))  # Welch and Satterthwaite
        if not enough:
            return Estimate(m1 - m0, -math.inf, math.inf, confidence, "no interval: fewer than two units in a class")
        low, high = student_limits(m1 - m0, math.sqrt(variance), freedom, confidence)
        return Estimate(m1 - m0, low, high, confidence, standard_error=root(variance, 0.0))

    def _moments(self) -> tuple[float, float, float, float]:
        """Mean score of members and of non-members, and the variance of each; 0 for one record."""
        sides = (self.score[self.member], self.score[~self.member])
        m1, m0 = (float(side.mean()) for side in sides)
        v1, v0 = (float(side.var(ddof=1)) if len(side) > 1 else 0.0 for side in sides)
        return m1, m0, v1, v0

    @property
    def constant(self) -> bool:
        """Whether every record has the same score."""
        return bool(np.ptp(self.score) == 0)

    def histogram(self) -> Histogram:
        """Bin the scores of members and of non-members alike."""
        return histogram(self.score, self.member)

    def influence_on_auc(self) -> FloatArray:
        """Influence (n,) of each record on the AUC."""
        return influence.on_auc(self.roc, self.member, self.ascending)

    def influence_on_tpr(self, fpr: float) -> FloatArray:
        """Influence (n,) of each record on the TPR at an FPR."""
        return influence.on_tpr(self.roc, self.member, self.ascending, fpr)

    def influence_on_difference(self) -> FloatArray:
        """Influence (n,) of each record on the difference of the mean scores."""
        return influence.on_difference(self.score, self.member)

    @cached_property
    def _auc_variance(self) -> float:
        return delong_variance(self.roc) if self.units is None else self._clustered_auc_variance(self.units)

    def _clustered_auc_variance(self, units: Units) -> float:
        """Variance of the AUC with dependent records (Obuchowski 1997), units with records of both classes included."""
        return units.variance(self.influence_on_auc())

    @cached_property
    def _units_falling(self) -> tuple[IntArray, IntArray]:
        """Units of the members, and of the non-members, from the highest score to the lowest."""
        assert self.units is not None  # noqa: S101
        falling = self.ascending[::-1]
        inside, code = self.member[falling], self.units.code[falling]
        return code[inside], code[~inside]

    def _clustered_advantage_limits(self, units: Units, confidence: float) -> tuple[float, float]:
        """Limits that hold for units, and for units of both classes however their records oppose each other."""
        accused = self.score >= self.roc.threshold[int(np.argmax(self.roc.tpr - self.roc.fpr))]
        return advantage_limits(
            self.roc,
            confidence,
            units.effective_members,
            units.effective_nonmembers,
            variance=units.worst_variance,
            opposition=units.opposition(accused),
        )

    def _clustered_tpr_limits(self, units: Units, fpr: float, confidence: float) -> tuple[float, float]:
        """The mixture with the variances of units, widened for what few accused units can say about their own."""
        inside, outside = self._accused(fpr)
        dependent = fpr * (1 - fpr) / units.effective_nonmembers
        level = self._level_variance(units, fpr, outside)
        if not resolvable(fpr, self._nonmembers_at(fpr), confidence):
            level = dependent
        # A true string counts once, though it is compared with K choices of the other decoys.
        effective = units.effective_members if self.decoys else units.trials(inside, members=True)
        return tpr_limits_uncertain_level(self.roc, fpr, confidence, min(dependent, level), effective)

    def _accused(self, fpr: float) -> tuple[IntArray, IntArray]:
        """Units of the members, and of the non-members, whose scores are above the threshold of an FPR."""
        alarms = max(1.0, math.ceil(fpr * self.roc.n_nonmembers * (1 - 1e-12)))
        vertex = np.searchsorted(self.roc.false_positive, alarms, side="left")
        counts = (self.roc.true_positive[vertex], self.roc.false_positive[vertex])
        inside, outside = (code[: int(count)] for code, count in zip(self._units_falling, counts, strict=True))
        return inside, outside

    def _level_variance(self, units: Units, fpr: float, accused: IntArray) -> float:
        """Variance of the FPR of the threshold, from the units of the accused non-members."""
        independent = fpr * (1 - fpr) / self.roc.n_nonmembers
        measured, exceeding = units.share_variance(accused, members=False)
        # Decoys of a unit follow one law, and every unit has as many: what few of them show needs no more widening.
        return max(independent, measured if self.decoys else measured * (1 + 2 / math.sqrt(max(exceeding, 1))))

    def _nonmembers_at(self, fpr: float) -> float:
        """Independent non-members that would give the FPR of the threshold its variance; of decoys it is measured."""
        if not self.decoys or self.units is None:
            return self.effective_nonmembers
        return fpr * (1 - fpr) / self._level_variance(self.units, fpr, self._accused(fpr)[1])


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


# -- confidence limits -------------------------------------------------------------------------------------------------


def resolution(confidence: float) -> float:
    """Return the smallest n0 * alpha at which a distribution-free lower limit exists: 3.69 at 95% (errata C3).

    With fewer expected false alarms, no non-member at all lies above the true threshold with a probability of more
    than (1 - confidence) / 2, and nothing then bounds the TPR from below.

    Parameters
    ----------
    confidence : two-sided, in (0, 1)

    Examples
    --------
    >>> resolution(0.95)
    3.69
    """
    return math.ceil(-100 * math.log((1 - confidence) / 2) - 1e-9) / 100


def resolvable(fpr: float, nonmembers: float, confidence: float) -> bool:
    """Say whether a TPR at this FPR can have a lower limit with so many non-members (errata C3)."""
    return fpr * nonmembers >= resolution(confidence) * (1 - 1e-12)


def smallest_fpr(nonmembers: float, confidence: float) -> float:
    """Return the smallest FPR at which so many non-members give a lower limit (erratum C3), at most 1."""
    return min(1.0, resolution(confidence) / nonmembers)


def nonmembers_needed(fpr: float, confidence: float) -> int:
    """Return the number of non-members from which a TPR at this FPR has a lower limit.

    Examples
    --------
    >>> nonmembers_needed(0.001, 0.95)
    3690
    """
    return math.ceil(resolution(confidence) / fpr * (1 - 1e-12))


def tpr_limits(
    roc: Roc, fpr: ArrayLike, confidence: float, most_nodes: int = MOST_NODES
) -> tuple[FloatArray, FloatArray]:
    """Confidence limits of the TPR at each FPR: the binomial-beta mixture, which knows that thresholds are estimated.

    The number J of non-members at or above the threshold of true FPR alpha is Bin(n0, alpha). With M_j the members
    above the boundary between the j-th and (j+1)-th largest non-member, the limits are quantiles of
    sum_j Bin(j; n0, alpha) Beta(M_j + 1/2, n1 - M_j + 1/2). Where M_j is 0 (n1) the lower (upper) limit is 0 (1).
    Below the resolution the lower limit is 0 and the upper one uses the outer count.

    Parameters
    ----------
    roc : unweighted curve, one record a unit
    fpr : array (k,) or a number, in (0, 1)
    confidence : two-sided, in (0, 1)
    most_nodes : int
        Counts J taken into the sum; with more possible ones, strides are taken.

    Returns
    -------
    low, high : arrays (k,)
    """
    n1, n0 = round(roc.n_members), round(roc.n_nonmembers)
    targets = np.atleast_1d(np.asarray(fpr, dtype=np.float64))
    low, high = np.zeros(len(targets)), np.ones(len(targets))
    for i, alpha in enumerate(targets):
        counts, mass = binomial_nodes(n0, float(alpha), most_nodes)
        fewest, most = roc.hits_between(counts)
        if resolvable(float(alpha), n0, confidence):
            middle = (fewest + most) / 2
            low[i] = beta_mixture_quantile(mass, middle, n1, (1 - confidence) / 2, at_zero=True)
            high[i] = beta_mixture_quantile(mass, middle, n1, (1 + confidence) / 2, at_zero=False)
        else:
            high[i] = beta_mixture_quantile(mass, most, n1, (1 + confidence) / 2, at_zero=False)
    return low, high


def beta_mixture_quantile(mass: FloatArray, hits: FloatArray, trials: float, level: float, *, at_zero: bool) -> float:
    """Quantile of sum_j mass_j Beta(hits_j + 1/2, trials - hits_j + 1/2).

    Parameters
    ----------
    mass : array (k,), adds up to 1
    hits : array (k,), 0 to ``trials``
    trials : effective number of trials
    level : in (0, 1)
    at_zero : bool
        Whether components with no hits are a point mass at 0 (for lower limits); otherwise those with only hits are
        a point mass at 1 (for upper limits). A rate of exactly 0 or 1 is possible, and Jeffreys' prior excludes it.
    """
    pinned = hits <= 0 if at_zero else hits >= trials
    pinned_mass = float(mass[pinned].sum())
    if (at_zero and pinned_mass >= level) or (not at_zero and 1 - pinned_mass <= level):
        return 0.0 if at_zero else 1.0
    mixture = BetaMixture(mass[~pinned], hits[~pinned], trials, at_zero=pinned_mass if at_zero else 0.0)
    return mixture.quantile(level)


def binomial_nodes(n: int, p: float, most_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return counts (k,) of Bin(n, p) and their mass (k,), in strides where there are many; below 1e-8 is left out."""
    mean, sd = n * p, math.sqrt(n * p * (1 - p))
    reach = _LEFT_OUT * sd + 12  # the constant covers the skewed tail of small means
    first, last = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    stride = max(1, (last - first) // most_nodes)
    counts = np.arange(first, last + 1, stride, dtype=np.float64)
    log_choices = -special.betaln(counts + 1, n - counts + 1)
    log_mass = log_choices + special.xlogy(counts, p) + special.xlog1py(n - counts, -p)
    mass = np.exp(log_mass - log_mass.max())
    return counts, mass / mass.sum()


def auc_limits(
    auc: float, variance: float, members: float, nonmembers: float, confidence: float, freedom: float | None = None
) -> tuple[float, float]:
    """Confidence limits of the AUC: normal on the logit scale, exact where the scores separate or are all equal.

    At an AUC of 1 the lower limit is ((1 - confidence) / 2) ** (1 / min(n0, n1)): with a lower truth, the class with
    fewer records would have shown an overlap. Plain normal limits cover 63% there. The variance of few records is often
    far too small (normal limits missed up to 24 of 100 truths on one side): below thirty records of a class the
    quantile is Student's, below ten the limits are at least as wide as Clopper and Pearson's of a rate among so many.

    Parameters
    ----------
    auc : 0 to 1
    variance : of the estimate, for example :func:`delong_variance`
    members, nonmembers : independent units of each class
    freedom : degrees of freedom of the variance where it rests on few units (Student's t)

    Examples
    --------
    >>> auc_limits(1.0, 0.0, 50, 80, 0.95)
    (0.928..., 1.0)
    """
    tail = (1 - confidence) / 2
    fewest = min(members, nonmembers)
    slack = 1 - tail ** (1 / fewest)
    if auc in (0.0, 1.0):
        return (1 - slack, 1.0) if auc == 1.0 else (0.0, slack)
    # One record says nothing of how its class varies; where every comparison is a tie so far, at most `slack` differ.
    if variance <= _ROUNDING or fewest < 2:
        return max(0.0, auc - slack), min(1.0, auc + slack)
    skewed = freedom is None and fewest < _FEWEST  # units hold several records: their means are less skewed
    if freedom is None and fewest < _FEW:
        freedom = fewest - 1
    quantile = -special.ndtri(tail) if freedom is None else special.stdtrit(max(freedom, 1.0), 1 - tail)
    width = float(quantile) * math.sqrt(variance) / (auc * (1 - auc))
    centre = float(special.logit(auc))
    low, high = float(special.expit(centre - width)), float(special.expit(centre + width))
    if not skewed:
        return low, high
    least, most = clopper_pearson(auc * fewest, fewest, confidence)
    return min(low, least), max(high, most)


def delong_variance(roc: Roc) -> float:
    """Variance of the AUC of an unweighted curve (DeLong et al. 1988), ties counting one half, from its vertices."""
    n1, n0 = roc.n_members, roc.n_nonmembers
    hits, alarms = np.diff(roc.true_positive), np.diff(roc.false_positive)
    below = 1 - (roc.false_positive[1:] + roc.false_positive[:-1]) / (2 * n0)  # of each member: F0 with half ties
    above = (roc.true_positive[1:] + roc.true_positive[:-1]) / (2 * n1)  # of each non-member
    auc = roc.auc  # below sums, no products of BLAS, whose threads cost time and change the last digits
    inside = float((hits * (below - auc) ** 2).sum()) / (max(n1 - 1, 1) * n1)
    outside = float((alarms * (above - auc) ** 2).sum()) / (max(n0 - 1, 1) * n0)
    return inside + outside


def advantage_limits(
    roc: Roc,
    confidence: float,
    members: float | None = None,
    nonmembers: float | None = None,
    *,
    variance: float | None = None,
    opposition: float = 0.0,
) -> tuple[float, float]:
    """Confidence limits of sup(TPR - FPR), valid although the threshold is the best one found in the same data.

    The lower limit subtracts the one-sided Kolmogorov quantile sqrt(log(1/tail)/2 (1/n1 + 1/n0)), which holds for all
    thresholds at once; the upper one is that of a fixed threshold (Newcombe's combination of Wilson limits), which is
    valid since the best threshold found is at least as good in the sample as the truly best one.

    Parameters
    ----------
    roc : unweighted curve
    members, nonmembers : independent units of each class; default the counts of the curve
    variance : in the place of 1/n1 + 1/n0, where units hold records of both classes (``Units.worst_variance``): at a
        fixed threshold the quantile is then Hoeffding's, whatever the dependence within a unit
    opposition : correlation of the errors of the two rates, turned (``Units.opposition``)
    """
    n1 = roc.n_members if members is None else members
    n0 = roc.n_nonmembers if nonmembers is None else nonmembers
    tail = (1 - confidence) / 2
    tpr, fpr = roc.best
    low = tpr - fpr - math.sqrt(math.log(1 / tail) / 2 * (1 / n1 + 1 / n0 if variance is None else variance))
    up = wilson_limits(tpr, n1, confidence)[1] - tpr
    down = fpr - wilson_limits(fpr, n0, confidence)[0]
    return max(0.0, low), min(1.0, tpr - fpr + joined(up, down, opposition))


def tpr_limits_uncertain_level(
    roc: Roc, fpr: float, confidence: float, level_variance: float, effective_members: float
) -> tuple[float, float]:
    """Confidence limits of the TPR where records are not independent: the mixture with a level drawn from a Beta law.

    As :func:`tpr_limits`, but the FPR of the estimated threshold has a variance of its own (of units that hold several
    records), so the level is drawn from Beta(alpha nu, (1 - alpha) nu) with nu = alpha (1 - alpha) / V - 1.

    Parameters
    ----------
    roc : curve over the records
    fpr : alpha, in (0, 1)
    confidence : two-sided, in (0, 1)
    level_variance : V, variance of the FPR at the estimated threshold
    effective_members : number of independent members that would give the TPR its variance
    """
    precision = max(fpr * (1 - fpr) / level_variance - 1, 1.0)
    z = np.linspace(-_LEFT_OUT, _LEFT_OUT, MOST_NODES // 2 + 1)
    mass = np.exp(-z * z / 2)
    mass /= mass.sum()
    level = special.betaincinv(fpr * precision, (1 - fpr) * precision, special.ndtr(z))
    fewest, most = roc.hits_between(level * roc.n_nonmembers)
    hits = (fewest + most) / 2 / roc.n_members * effective_members
    tail = (1 - confidence) / 2
    low = beta_mixture_quantile(mass, hits, effective_members, tail, at_zero=True)
    return low, beta_mixture_quantile(mass, hits, effective_members, 1 - tail, at_zero=False)
