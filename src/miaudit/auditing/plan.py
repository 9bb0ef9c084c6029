"""The plan of an audit: every option, fixed before the data is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any

import numpy as np

from miaudit.auditing.headline import EVERY_SCORE, Headline, headline_named
from miaudit.auditing.reference import Reference
from miaudit.causal.classifiers import CLASSIFIERS
from miaudit.causal.propensity import Propensity
from miaudit.dp import accounting, selection, several_runs
from miaudit.dp.mechanism import Mechanism, check_mechanism, from_mapping
from miaudit.dp.verdict import Claim, LowerBound
from miaudit.dp.zero_run import Correction, bounds
from miaudit.dp.zero_run.correction_options import correction_said
from miaudit.errors import InputError, nearest, share
from miaudit.errors.options import Option, check_options
from miaudit.evidence import Evidence
from miaudit.findings.policy import PARAMETERS, Policy, checked
from miaudit.metrics import classical, definition
from miaudit.metrics.classical import tpr_name

ESTIMATORS = ("hajek", "aipw")
MODELS = ("line", "stack")
FALLBACK = "line-or-screened"
BOUNDS_MODELS = (FALLBACK, "line", "screened")


@dataclass(frozen=True)
class Calibrated:
    """Intervals without resampling, chosen for their coverage (the default)."""


@dataclass(frozen=True)
class Bootstrap:
    """Intervals from the stratified bootstrap; ``n_bootstrap`` of the plan says how many replicates."""


Intervals = Calibrated | Bootstrap
Test = Callable[[Evidence, np.random.Generator], LowerBound]
_Level = Annotated[float, Option("", "0.05 is 5%", percent=True)]


def intervals_named(text: object) -> Intervals:
    """Map the word at the door to its record."""
    known: dict[object, Intervals] = {"calibrated": Calibrated(), "bootstrap": Bootstrap()}
    if not isinstance(text, str) or text not in known:
        hint = nearest(str(text), map(str, known)) or "calibrated is the default"
        raise InputError("intervals", " or ".join(map(str, known)), repr(text)[:60], hint)
    return known[text]


def _mechanism_named(value: Any) -> Mechanism:
    return value if isinstance(value, Mechanism) else from_mapping(value)


def _guesses_named(value: object) -> selection.Option | int:
    return selection.named(str(value))


@dataclass(frozen=True)
class Bounds:
    """What is asked of differential privacy: lower bounds on its parameters, and a claim to judge by them.

    Parameters
    ----------
    claim : Claim, optional
        What somebody says of the algorithm: the audit refutes it, or cannot.
    mechanism : Mechanism, optional
        The algorithm as data (:mod:`miaudit.dp.mechanism`): what it guarantees is computed by an accountant and stands
        beside the lower bound. Without a claim, that guarantee is the claim.
    delta : float in [0, 1)
        Of the bound on epsilon; the delta of a claim takes its place.
    guesses : int, or an option of :mod:`miaudit.dp.selection`, optional
        Of one-run and zero-run bounds: how many guesses count. Default: Hedged(); of three runs or more the first
        chooses for the others.
    correction : str, or an option of :mod:`miaudit.dp.zero_run`
        Of zero-run bounds on mu and on epsilon at a delta: thinning, conditional or composition.
    margin : float, 0 or more, optional
        How far the log-odds of membership may be from the propensities', as the auditor states beforehand. Default: 0.1
        for the challenge, and beyond that what the learned propensities leave uncertain.
    at_least : int, or Anytime of :mod:`miaudit.dp.several_runs`, optional
        Of several runs: how many of the audited ones have to refute a parameter; default: all up to seven, all but one
        from eight.

    Examples
    --------
    >>> Bounds(claim=Claim.gaussian(0.5)).delta
    1e-05
    """

    claim: Annotated[Claim | None, Option("What somebody says of the algorithm: is it refuted?")] = None
    mechanism: Annotated[
        Mechanism | None,
        Option(
            "A YAML file that describes the algorithm (kind: dp-sgd, ...); its guarantee is shown beside the bounds "
            "and, without a claim, is the claim.",
            read=_mechanism_named,
        ),
    ] = None
    delta: Annotated[
        float, Option("Of the bound on epsilon.", "1e-5 is usual, 0 is pure epsilon", ge=0, lt=1, applies=("bounds",))
    ] = 1e-5
    guesses: Annotated[
        selection.Option | int | None,
        Option(
            "How many guesses count (one-run, zero-run): hedged, bonferroni, schedule, exploratory, a number, or pilot "
            "(which exceeds its level in large audits). Left out, the first of three or more runs chooses for others.",
            read=_guesses_named,
            default="hedged",
            applies=("bounds", "guesses"),
        ),
    ] = None
    correction: Annotated[
        str | Correction,
        Option(
            "Of zero-run bounds for the shift: thinning, conditional or composition; with options behind a colon, "
            "such as conditional:aware,signed or thinning:half-width=0.2,seeds=40 (docs/configuration.md).",
            "thinning is the default",
            choices=bounds.CORRECTIONS,
            read=correction_said,
            default="thinning",
            applies=("scores", "bounds", "zero-run"),
        ),
    ] = "thinning"
    margin: Annotated[
        float | None,
        Option(
            "How far the log-odds of membership may be from the propensities' (zero-run), stated beforehand.",
            "it is in units of log-odds; 0.1 is usual",
            ge=0,
            applies=("scores", "bounds", "zero-run"),
        ),
    ] = None
    at_least: Annotated[
        int | several_runs.Anytime | None,
        Option(
            "Of several runs: how many of the audited ones have to refute, fixed before the first; or anytime, one run "
            "after the other.",
            read=several_runs.named,
            default="all up to seven, all but one from eight",
            applies=("bounds", "several runs"),
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.claim is not None and not isinstance(self.claim, Claim):
            raise InputError(
                "claim", "a Claim", repr(self.claim), "pass Claim.gaussian(mu) or Claim.epsilon_delta(...)"
            )
        if self.mechanism is not None:
            check_mechanism(self.mechanism)
        check_options(self)
        selection.check(self.guesses)
        several_runs.check(self.at_least)
        if not isinstance(self.correction, str):  # names are checked above
            bounds.correction_of(self.correction)
        if self.mechanism is not None and self.claim is not None and self.claim.parameter == "mu":
            accounting.upper_bound(self.mechanism, parameter="mu")  # refused now where a mechanism has none

    def tests(self, evidence: Evidence, propensity: Propensity | None, confidence: float) -> Sequence[Test] | None:  # noqa: ARG002
        """Return functions of evidence with one score and of a generator, one a bound; None: those of the design.

        For a class of your own that derives from this one; the propensity is there for zero-run evidence. At most one
        test of a parameter, since each bound holds at the confidence by itself.
        """
        return None


@dataclass(frozen=True)
class Plan:
    """Every option of an audit.

    Parameters
    ----------
    fpr_targets : tuple of float, each in (0, 1)
        False-positive rates at which the TPR is wanted.
    confidence : float in (0.5, 1)
        Of every two-sided interval.
    limits : mapping of names to numbers, optional
        What the verdict compares with: ``{"tpr_at_fpr_0.01": 0.05, "auc": 0.6}``. Names are metrics (``auc``,
        ``advantage``, ``balanced_accuracy``, ``tpr_at_fpr_X``, ``ate``), ``epsilon`` and ``mu`` of the plan's bounds,
        and ``surest_members`` with a probability. Default: the default limits (TPR of 2% at 0.1% FPR, 5% at 1% FPR and
        25% at 10% FPR) and the alarm for the surest members at 0.9. It is kept as pairs.
    primary_metric : str, optional
        One limit alone, in the place of ``limits``: the metric, with ``threshold_for_concern``.
    threshold_for_concern : float, optional
        Default: 0.05 for a TPR at an FPR of at most 1%, else five points above chance (FPR + 0.05 for a TPR, 0.55 for
        the AUC, 0.05 for the advantage). Without a primary metric: the limit of the TPR at every target below it.
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
        Covariates that are codes of categories, by name: one-hot inside the folds.
    exclude_levels : tuple of str
        Levels of covariates whose records are left out, each as "COVARIATE=LEVEL", for example "race=r1". The answer
        then holds for the other records.
    components : int, optional
        Condense the covariates of zero-run evidence into so many principal components, inside the folds; texts into so
        many components of their own.
    estimator : "aipw" or "hajek"
        Of the corrected AUC and average effect of zero-run evidence. AIPW adds an outcome model of the score without
        membership; the TPR at a low FPR stays with Hajek weights, where AIPW is not to be trusted.
    propensity_model : "stack" or "line"
        What membership of zero-run evidence is learned with: the stack of
        :func:`miaudit.causal.propensity.stacked`, for shifts that are no line too, or a logistic line in the
        covariates. With the stack AIPW takes one regression for each metric, and bounds rest on the line that is
        learned beside it. Given propensities take the place of either.
    classifier : "boosting", "forest" or "naive-bayes", optional
        What membership is learned with in the place of ``propensity_model``, cross-fitted and calibrated as the line
        is; ``Nuisance(classifier=...)`` takes any other.
    bounds_model : "line-or-screened", "line" or "screened"
        The logistic model of membership that zero-run bounds rest on: a line in the covariates, or that line enlarged
        by the splines and products that pass Bonferroni's 5% on its training rows (:mod:`miaudit.causal.screen`). The
        default takes the line, and the enlarged line where the test for lack of fit refutes the line.
    by_covariates : bool
        Say which kinds of records leak more than others (:mod:`miaudit.causal.heterogeneity`). It informs, and never
        decides the verdict.
    bounds : Bounds, or None for none
        Lower bounds on privacy parameters, and the claim to judge by them.
    reference : Reference, optional
        Scores of a reference model, as covariate and as test of the correction of zero-run evidence.
    raw_only : bool
        Show the uncorrected metrics of a zero-run audit that is refused, labelled raw; never with a verdict.
    row_level : int
        Show so many of the most exposed members by row and unit; 0 (the default) keeps findings free of rows.

    Examples
    --------
    >>> Plan(fpr_targets=(0.01,), limits={"auc": 0.6}).metric_names
    ('tpr_at_fpr_0.01', 'auc', 'advantage', 'balanced_accuracy', 'ate')
    >>> Plan(confidence=95)
    Traceback (most recent call last):
    miaudit.errors.InputError: confidence: expected a number in (0.5, 1), received 95; write 0.95 for 95%
    """

    fpr_targets: Annotated[
        tuple[Annotated[float, Option("", "write 0.001 for 0.1%", gt=0, lt=1, allowed="numbers in (0, 1)")], ...],
        Option("False-positive rates, with commas: 0.1%,1%,10%."),
    ] = (0.001, 0.01, 0.1)
    confidence: Annotated[
        float,
        Option("Of the two-sided intervals, and one-sided of privacy bounds.", "write 0.95 for 95%", gt=0.5, lt=1),
    ] = 0.95
    limits: Annotated[
        Mapping[str, float] | tuple[tuple[str, float], ...] | None,
        Option(
            "A limit of the verdict, repeatable: auc=0.6, tpr_at_fpr_0.01=5%, epsilon=1. The default limits then "
            "do not apply.",
            read=checked,
            allowed="names with numbers",
        ),
    ] = None
    primary_metric: Annotated[
        str | None, Option("Metric of the only limit, e.g. tpr_at_fpr_0.001 or auc, in the place of limits.")
    ] = None
    threshold_for_concern: Annotated[
        float | None, Option("Threshold for concern of that metric.", "0.05 flags a TPR above 5%", percent=True)
    ] = None
    levels: Annotated[
        tuple[_Level, _Level, _Level], Option("Where the wording of a TPR changes: low, moderate, elevated, material.")
    ] = (0.02, 0.05, 0.1)
    prior: Annotated[
        float, Option("Share of members among the accused population.", "0.5 means even odds", gt=0, lt=1)
    ] = 0.5
    headline: Annotated[
        Headline,
        Option(
            "With several scores: bonferroni (the default), split, exploratory, or the name of one that counts.",
            read=headline_named,
            applies=("scores",),
        ),
    ] = EVERY_SCORE
    intervals: Annotated[
        Intervals,
        Option(
            "calibrated, or bootstrap (with replicates), which then replaces the limits of every metric resampled.",
            read=intervals_named,
            default="calibrated",
        ),
    ] = Calibrated()
    n_bootstrap: Annotated[
        int,
        Option(
            "Replicates of a bootstrap beside the default intervals.",
            "1000 is customary",
            ge=0,
            le=1_000_000,
            where=lambda replicates: replicates == 0 or replicates >= 100,
            allowed="0, or 100 to 1000000 replicates",
        ),
    ] = 0
    row_level: Annotated[int, Option("Name so many of the most exposed members by row and unit.", "use 0", ge=0)] = 0
    raw_only: Annotated[
        bool,
        Option("Show uncorrected metrics of a refused zero-run audit; no verdict.", applies=("scores", "zero-run")),
    ] = False
    categories: Annotated[
        tuple[str, ...],
        Option("Covariates that are categories: codes or text.", applies=("scores", "covariates")),
    ] = ()
    exclude_levels: Annotated[
        tuple[str, ...],
        Option(
            "Leave out the records with a level of a covariate, COVARIATE=LEVEL, repeatable: race=r1. The answer holds "
            "for the other records.",
            applies=("scores", "zero-run", "covariates"),
        ),
    ] = ()
    components: Annotated[
        int | None,
        Option(
            "Condense the covariates, or texts, into so many components (zero-run).",
            "10 to 20 suit embeddings",
            ge=1,
            applies=("scores", "zero-run", "covariates or texts"),
        ),
    ] = None
    estimator: Annotated[
        str,
        Option(
            "Of the corrected AUC and effect (zero-run): aipw, or hajek (weights alone).",
            "aipw is the default",
            choices=ESTIMATORS,
            applies=("scores", "zero-run"),
        ),
    ] = "aipw"
    propensity_model: Annotated[
        str,
        Option(
            "What membership is learned with (zero-run): stack, which sees products, jumps and codes too, or line.",
            "stack is the default",
            choices=MODELS,
            applies=("scores", "zero-run"),
        ),
    ] = "stack"
    classifier: Annotated[
        str | None,
        Option(
            "Learn membership with a classifier instead (zero-run): boosting, forest or naive-bayes.",
            "leave it out for the propensity model",
            choices=CLASSIFIERS,
            applies=("scores", "zero-run", "covariates or texts"),
        ),
    ] = None
    reference: Reference | None = None
    bounds_model: Annotated[
        str,
        Option(
            "What bounds learn membership with (zero-run): line; screened, a line with splines and products that its "
            "training rows call for; or line-or-screened, which is screened where a test refutes the line.",
            "line-or-screened is the default",
            choices=BOUNDS_MODELS,
            applies=("scores", "bounds", "zero-run"),
        ),
    ] = FALLBACK
    by_covariates: Annotated[
        bool,
        Option(
            "Say which kinds of records leak most: groups that covariates describe. It never decides the verdict.",
            applies=("scores", "covariates"),
        ),
    ] = False
    bounds: Bounds | None = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        targets = self._sequence("fpr_targets")
        _require(len(targets) > 0, "fpr_targets", "at least one number in (0, 1)", "none", "add a target such as 0.01")
        levels = self._sequence("levels")
        rising = len(levels) == 3 and 0 < levels[0] < levels[1] < levels[2] < 1
        _require(rising, "levels", "three increasing numbers in (0, 1)", levels, "the default is 0.02, 0.05, 0.1")
        check_options(self)
        for target in targets:
            resolvable = target >= classical.SMALLEST_FPR
            _require(
                resolvable,
                "fpr_targets",
                f"{classical.SMALLEST_FPR:g} or more",
                target,
                "no count of records resolves less",
            )
        named = tuple(sorted({float(f"{target:g}") for target in targets}))  # metrics are named by six digits
        for target in named:
            _require(0 < target < 1, "fpr_targets", "numbers that six digits tell from 0 and 1", target, "round them")
        object.__setattr__(self, "fpr_targets", named)
        self._check_kind("headline", Headline)
        self._check_kind("intervals", Intervals)
        if isinstance(self.intervals, Bootstrap) and not self.n_bootstrap:
            raise InputError("n_bootstrap", "at least 100 for bootstrap intervals", "0", "set it to 1000")
        _require(
            not isinstance(self.categories, str), "categories", "a tuple of names", self.categories, "write (a, b)"
        )
        object.__setattr__(self, "categories", tuple(str(name) for name in self.categories))
        self._check_levels()
        if self.categories and self.components is not None:
            raise InputError("components", "none, beside categories", str(self.components), "choose one of the two")
        if self.bounds is not None and not isinstance(self.bounds, Bounds):
            raise InputError("bounds", "Bounds of miaudit.auditing.plan, or None", repr(self.bounds), "pass Bounds()")
        if self.reference is not None:
            self._check_kind("reference", Reference)
        self._check_primary()
        self._check_limits()

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the findings."""
        return tuple(dict.fromkeys((*definition.names(self.rates), *self.policy.metrics)))

    @property
    def rates(self) -> tuple[float, ...]:
        """The false-positive rates at which the TPR is measured: the targets, and those of the limits."""
        return tuple(sorted({*self.fpr_targets, *self.policy.fpr_targets}))

    @property
    def policy(self) -> Policy:
        """The limits of the verdict."""
        if self.limits is not None:
            return Policy.of(self.limits)
        metric, threshold = self.primary_metric, self.threshold_for_concern
        if metric is not None:
            return Policy.of({metric: definition.of(metric).threshold if threshold is None else threshold})
        if threshold is None:
            return Policy.of(None)
        below = [fpr for fpr in self.fpr_targets if fpr < threshold] or [self.fpr_targets[0]]
        return Policy.of({tpr_name(fpr): threshold for fpr in below})

    def _sequence(self, name: str) -> tuple[float, ...]:
        try:
            object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        except (TypeError, ValueError) as error:
            raise InputError(
                name, "a list of numbers", repr(getattr(self, name)), "write them as (0.001, 0.01)"
            ) from error
        return getattr(self, name)  # type: ignore[no-any-return]

    def _check_kind(self, name: str, kinds: Any) -> None:
        value = getattr(self, name)
        if not isinstance(value, kinds):
            allowed = " or ".join(kind.__name__ for kind in getattr(kinds, "__args__", (kinds,)))
            raise InputError(name, f"{allowed} of miaudit.auditing.plan", repr(value), "pass one of these records")

    def _check_levels(self) -> None:
        levels: Any = self.exclude_levels
        texts = not isinstance(levels, str) and all(isinstance(text, str) and "=" in text for text in levels)
        _require(texts, "exclude_levels", "texts like COVARIATE=LEVEL", levels, "the level r1 of race is race=r1")
        object.__setattr__(self, "exclude_levels", tuple(dict.fromkeys(levels)))

    def _check_primary(self) -> None:
        primary, threshold = self.primary_metric, self.threshold_for_concern
        metric = None if primary is None else definition.of(primary)
        if metric is not None:
            name = metric.name  # tpr_at_fpr_0.0010 means the same target as tpr_at_fpr_0.001
            object.__setattr__(self, "primary_metric", name)
            known = tuple(dict.fromkeys((*definition.names(self.fpr_targets), *definition.METRICS)))
            if name not in known:
                hint = f"{nearest(name, known)} or add its FPR to fpr_targets".removeprefix(" or ")
                raise InputError("primary_metric", f"one of {', '.join(known)}", repr(name), hint)
        if threshold is not None and (metric is None or metric.bounded):
            hint = share.meant(threshold) or "write 0.05 for 5%"
            _require(0 <= threshold < 1, "threshold_for_concern", "a number in [0, 1)", threshold, hint)
        if threshold is None and metric is not None and math.isinf(metric.threshold):
            hint = f"set it for {metric.name}"
            raise InputError("threshold_for_concern", "a number, in units of the score", "none", hint)

    def _check_limits(self) -> None:
        """Refuse limits beside a primary metric or threshold, and those that this plan does not measure."""
        if self.limits is None:
            return
        for name in ("primary_metric", "threshold_for_concern"):
            value = getattr(self, name)
            if value is not None:
                hint = f"write the limits alone: limits and {name} both say what the verdict compares with"
                raise InputError(name, "none beside limits", f"{value} beside limits", hint)
        object.__setattr__(self, "limits", checked(self.limits))
        policy = self.policy.only(("auc", *PARAMETERS, "surest_members"), "an audit of scores")
        if policy.parameters and self.bounds is None:
            hint = "leave out --no-bounds (privacy: bounds), or this limit"
            raise InputError("limits", f"no {policy.parameters[0]} without bounds", policy.parameters[0], hint)
        if not policy.limits:
            hint = "add another, such as tpr_at_fpr_0.01=0.05: a silent alarm alone clears nothing"
            raise InputError("limits", "a limit beside surest_members", "none", hint)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values, for the findings; the limits are those of the policy."""
        held = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        sure = {} if self.policy.sure is None else {"surest_members": self.policy.sure}
        stated = {name: held.pop(name) for name in ("primary_metric", "threshold_for_concern", "exclude_levels")}
        held["limits"] = {**self.policy.thresholds, **sure}
        stated["by_covariates"] = held.pop("by_covariates") or None
        return {**held, **{name: value for name, value in stated.items() if value is not None and value != []}}


def _plain(value: Any) -> Any:
    """Write an option as plain values, a record with its kind."""
    if is_dataclass(value) and not isinstance(value, type):
        options = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"kind": type(value).__name__.lower(), **options}
    return list(value) if isinstance(value, tuple) else value.item() if hasattr(value, "item") else value


def _require(condition: bool, name: str, allowed: str, received: object, next_step: str) -> None:
    if not condition:
        raise InputError(name, allowed, str(received), next_step)
