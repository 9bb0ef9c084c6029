"""The plan of an audit: every option, fixed before the data is looked at."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, fields
from typing import Any

from miaudit.errors import InputError, nearest

ESTIMATORS = ("hajek", "aipw")
OTHER_METRICS = ("auc", "advantage", "balanced_accuracy", "ate")


@dataclass(frozen=True)
class Declared:
    """The score that counts was named beforehand; the others are shown beside it."""

    score: str


@dataclass(frozen=True)
class Bonferroni:
    """The strongest score counts, and every interval is widened for having looked at all of them."""


@dataclass(frozen=True)
class Split:
    """The strongest score on a random share of the units counts, and is measured on the rest."""

    share: float = 0.5

    def __post_init__(self) -> None:
        _require(0.1 <= self.share <= 0.9, "share", "a number in [0.1, 0.9]", self.share, "0.5 is the default")


@dataclass(frozen=True)
class Exploratory:
    """The strongest score counts, uncorrected: labelled exploratory, and no evidence of anything."""


Headline = Declared | Bonferroni | Split | Exploratory


@dataclass(frozen=True)
class Calibrated:
    """Intervals without resampling, chosen for their coverage (the default)."""


@dataclass(frozen=True)
class Bootstrap:
    """Intervals from the stratified bootstrap; ``n_bootstrap`` of the plan says how many replicates."""


Intervals = Calibrated | Bootstrap


@dataclass(frozen=True)
class Plan:
    """Every option of an audit.

    Parameters
    ----------
    fpr_targets : tuple of float, each in (0, 1)
        False-positive rates at which the TPR is wanted.
    confidence : float in (0.5, 1)
        Of every two-sided interval.
    primary_metric : str, optional
        The metric of the verdict: ``tpr_at_fpr_X`` for a target X, ``auc``, ``advantage``, ``balanced_accuracy`` or
        ``ate``. Default: the TPR at the smallest target that so many non-members can resolve.
    threshold_for_concern : float, optional
        Default: 0.05 for a TPR at an FPR of at most 1%, else five points above chance (FPR + 0.05 for a TPR, 0.55 for
        the AUC, 0.05 for the advantage).
    levels : three increasing numbers in (0, 1)
        Where the wording of a TPR changes: low, moderate, elevated, material (erratum C5).
    prior : float in (0, 1)
        Share of members among the people an attacker would accuse, for the precision.
    headline : Bonferroni, Split, Declared or Exploratory
        With several scores: which one the verdict is about, and how the choice is paid for.
    intervals : Calibrated or Bootstrap
    n_bootstrap : int, 0 or at least 100
        Replicates of the stratified bootstrap, shown beside the default intervals.
    categories : tuple of str
        Covariates of zero-run evidence that are codes of categories, by name: one-hot inside the folds.
    components : int, optional
        Condense the covariates of zero-run evidence into so many principal components, inside the folds; texts into so
        many components of their own.
    estimator : "hajek" or "aipw"
        Of the corrected AUC and average effect of zero-run evidence. AIPW adds an outcome model of the score without
        membership; the TPR at a low FPR stays with Hajek weights, where AIPW is not to be trusted.
    raw_only : bool
        Show the uncorrected metrics of a zero-run audit that is refused, labelled raw; never with a verdict.
    row_level : int
        Show so many of the most exposed members by row and unit; 0 (the default) keeps findings free of rows.

    Examples
    --------
    >>> Plan(fpr_targets=(0.01,)).metric_names
    ('tpr_at_fpr_0.01', 'auc', 'advantage', 'balanced_accuracy', 'ate')
    >>> Plan(confidence=95)
    Traceback (most recent call last):
    miaudit.errors.InputError: confidence: expected a number in (0.5, 1), received 95; write 0.95 for 95%
    """

    fpr_targets: tuple[float, ...] = (0.001, 0.01, 0.1)
    confidence: float = 0.95
    primary_metric: str | None = None
    threshold_for_concern: float | None = None
    levels: tuple[float, float, float] = (0.02, 0.05, 0.1)
    prior: float = 0.5
    headline: Headline = Bonferroni()
    intervals: Intervals = Calibrated()
    n_bootstrap: int = 0
    row_level: int = 0
    raw_only: bool = False
    categories: tuple[str, ...] = ()
    components: int | None = None
    estimator: str = "hajek"

    def __post_init__(self) -> None:
        targets = self._sequence("fpr_targets")
        _require(len(targets) > 0, "fpr_targets", "at least one number in (0, 1)", "none", "add a target such as 0.01")
        for target in targets:
            _require(0 < target < 1, "fpr_targets", "numbers in (0, 1)", target, "write 0.001 for 0.1%")
        named = tuple(sorted({float(f"{target:g}") for target in targets}))  # metrics are named by six digits
        for target in named:
            _require(0 < target < 1, "fpr_targets", "numbers that six digits tell from 0 and 1", target, "round them")
        object.__setattr__(self, "fpr_targets", named)
        levels = self._sequence("levels")
        rising = len(levels) == 3 and 0 < levels[0] < levels[1] < levels[2] < 1
        _require(rising, "levels", "three increasing numbers in (0, 1)", levels, "the default is 0.02, 0.05, 0.1")
        object.__setattr__(self, "levels", levels)
        _require(
            _inside(self.confidence, 0.5), "confidence", "a number in (0.5, 1)", self.confidence, "write 0.95 for 95%"
        )
        _require(_inside(self.prior, 0), "prior", "a number in (0, 1)", self.prior, "0.5 means even odds")
        self._check_kind("headline", Headline)
        self._check_kind("intervals", Intervals)
        whole = isinstance(self.n_bootstrap, int) and (self.n_bootstrap == 0 or 100 <= self.n_bootstrap <= 1_000_000)
        _require(whole, "n_bootstrap", "0, or 100 to 1000000 replicates", self.n_bootstrap, "1000 is customary")
        if isinstance(self.intervals, Bootstrap) and not self.n_bootstrap:
            raise InputError("n_bootstrap", "at least 100 for bootstrap intervals", "0", "set it to 1000")
        _require(
            isinstance(self.row_level, int) and self.row_level >= 0, "row_level", "0 or more", self.row_level, "use 0"
        )
        _require(
            not isinstance(self.categories, str), "categories", "a tuple of names", self.categories, "write (a, b)"
        )
        object.__setattr__(self, "categories", tuple(str(name) for name in self.categories))
        some = self.components is None or (isinstance(self.components, int) and self.components >= 1)
        _require(some, "components", "1 or more", self.components, "10 to 20 suit embeddings")
        known = self.estimator in ESTIMATORS
        _require(
            known, "estimator", " or ".join(ESTIMATORS), repr(self.estimator), nearest(str(self.estimator), ESTIMATORS)
        )
        if self.categories and self.components is not None:
            raise InputError("components", "none, beside categories", str(self.components), "choose one of the two")
        self._check_primary()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the findings."""
        return (*(f"tpr_at_fpr_{fpr:g}" for fpr in self.fpr_targets), *OTHER_METRICS)

    def _sequence(self, name: str) -> tuple[float, ...]:
        try:
            return tuple(float(x) for x in getattr(self, name))
        except (TypeError, ValueError) as error:
            raise InputError(
                name, "a list of numbers", repr(getattr(self, name)), "write them as (0.001, 0.01)"
            ) from error

    def _check_kind(self, name: str, kinds: Any) -> None:
        value = getattr(self, name)
        if not isinstance(value, kinds):
            allowed = " or ".join(kind.__name__ for kind in kinds.__args__)
            raise InputError(name, f"{allowed} of miaudit.plan", repr(value), "pass one of these records")

    def _check_primary(self) -> None:
        name, threshold = self.primary_metric, self.threshold_for_concern
        if name is not None:
            if name.startswith("tpr_at_fpr_"):
                with contextlib.suppress(ValueError):  # tpr_at_fpr_0.0010 means the same target
                    name = f"tpr_at_fpr_{float(name.removeprefix('tpr_at_fpr_')):g}"
                object.__setattr__(self, "primary_metric", name)
            if name not in self.metric_names:
                hint = f"{nearest(name, self.metric_names)} or add its FPR to fpr_targets".removeprefix(" or ")
                raise InputError("primary_metric", f"one of {', '.join(self.metric_names)}", repr(name), hint)
        if threshold is not None:
            finite = isinstance(threshold, int | float) and not isinstance(threshold, bool) and math.isfinite(threshold)
            _require(finite, "threshold_for_concern", "a finite number", threshold, "0.05 flags a TPR above 5%")
            if name != "ate":
                _require(
                    0 <= threshold <= 1, "threshold_for_concern", "a number in [0, 1]", threshold, "write 0.05 for 5%"
                )
        if name == "ate" and threshold is None:
            raise InputError("threshold_for_concern", "a number, in units of the score", "none", "set it for ate")

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values, for the findings."""
        plain: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Headline | Intervals):
                options = {f.name: getattr(value, f.name) for f in fields(value)}
                plain[field.name] = {"kind": type(value).__name__.lower(), **options}
            else:
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        return plain


def headline_named(text: str) -> Headline:
    """Map the word at the door to its record: bonferroni, split, exploratory, or the name of a score.

    Examples
    --------
    >>> headline_named("split"), headline_named("loss")
    (Split(share=0.5), Declared(score='loss'))
    """
    known: dict[str, Headline] = {"bonferroni": Bonferroni(), "split": Split(), "exploratory": Exploratory()}
    return known.get(text, Declared(text))


def _inside(value: object, low: float) -> bool:
    return isinstance(value, int | float) and low < value < 1


def _require(condition: bool, name: str, allowed: str, received: object, next_step: str) -> None:
    if not condition:
        raise InputError(name, allowed, str(received), next_step)
