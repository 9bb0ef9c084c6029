"""Defences compared on one model: what each lets an attacker learn, and what it costs.

Every option is measured on the same records with the same memberships, so that differences are paired. An option is a
measure on outputs, or another training of the same records; its attack is chosen and fitted on shadow models that went
through the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.defences.adaptive import Attacked, Observed, attack, averaged, plain
from miaudit.defences.calibration import calibration_error
from miaudit.defences.differences import PairedDifference, PairedFamily
from miaudit.defences.outputs import AsItIs, Defence, Disclosed, Kind, one_hot
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, Sample, clopper_pearson, tpr_name

Source = Literal["held-out", "training"]
Group = Literal["output", "training", "given"]
_REPLICATES = 400  # of the bootstrap of the calibration error
_FEW_MODELS = 16
_ROUNDED = 0.002  # an AUC on shadow models that is larger by less is the same
_ZERO = 1e-40  # log-probabilities of exact zeros are kept as those of 1e-45


@dataclass(frozen=True, eq=False)
class Models:
    """Outputs of the audited model and of its shadow models on all records.

    Attributes
    ----------
    logits : one array (n, K) for each model, the audited one first; memory maps are read one at a time
    included : array (1 + M, n) of bool, which records each learnt
    labels : array (n,), 0 to K - 1
    rows : array (a,), the records that are audited
    calibration : array (c,), records for what a defence learns
    source : "held-out": no model learnt the calibration records; "training": each model takes c of its own members
    units : array (n,) of int, optional: which person or site each record belongs to
    groups : array (n,) of names, optional: what is reported one by one, instead of the classes
    """

    logits: Sequence[NDArray[Any]]
    included: BoolArray
    labels: IndexArray
    rows: IndexArray
    calibration: IndexArray
    source: Source = "held-out"
    units: IntArray | None = None
    groups: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        n, models = len(self.labels), len(self.logits)
        if self.included.shape != (models, n) or self.included.dtype != np.bool_:
            received = f"{self.included.dtype} of shape {self.included.shape}"
            raise InputError("included", f"true or false of shape {(models, n)}", received, "a row for each model")
        shape = np.shape(self.logits[0])
        if len(shape) != 2 or shape[0] != n:
            raise InputError("logits", f"outputs ({n}, K)", f"shape {shape}", "a row for each record")
        if shape[1] < 2:
            hint = "a model with one class is always certain and discloses nothing"
            raise InputError("logits", "two classes or more", f"K = {shape[1]}", hint)
        if self.source == "held-out" and self.included[:, self.calibration].any():
            received = f"{int(self.included[:, self.calibration].any(axis=0).sum()):,} that a model learnt"
            hint = 'set others aside, or say source="training": it is a defect that is then measured'
            raise InputError("calibration", "records that no model learnt", received, hint)

    @property
    def member(self) -> BoolArray:
        """Whether the audited model learnt each audited record (a,)."""
        return np.asarray(self.included[0, self.rows])

    @property
    def classes(self) -> int:
        """K."""
        return int(self.logits[0].shape[1])

    def probabilities(self, model: int) -> FloatArray:
        """Return probabilities (n, K) of one model; those that stand for exact zeros are zeros again."""
        p = special.softmax(np.asarray(self.logits[model], dtype=np.float64), axis=1)
        return np.asarray(np.where(p > _ZERO, p, 0.0))

    def learned_from(self, model: int, rng: np.random.Generator) -> IndexArray:
        """Return the records (c,) that a defence of this model learns from."""
        if self.source == "held-out":
            return self.calibration
        own = np.flatnonzero(self.included[model])
        return np.sort(rng.permutation(own)[: len(self.calibration)])


@dataclass(frozen=True, eq=False)
class ReleaseOption:
    """One thing that could be released.

    Attributes
    ----------
    name : in configuration and findings
    group : "output" for a measure on outputs, "training" for another training, "given" for outputs from a file
    models : whose outputs they are
    defence : what happens to them
    words : what a page calls it; by default what the defence is called
    adaptive : whether the shadow models went through the same; not for outputs from a file
    """

    name: str
    group: Group
    models: Models
    defence: Defence = field(default_factory=AsItIs)
    words: str = ""
    adaptive: bool = True

    @property
    def called(self) -> str:
        """What a page calls it."""
        return self.words or self.defence.words


@dataclass(frozen=True, eq=False)
class MeasuredOption:
    """What one option lets an attacker learn, and what is left for its users.

    Attributes
    ----------
    option : ReleaseOption
    attacked : the attack, its scores and how it was chosen
    leakage : AUC, TPRs and largest TPR - FPR by name
    guess : array (b,), for each audited record that the model did not learn, how likely a reader's best guess is right:
        the most probable label, or one of the set's at random
    accuracy : its mean
    error : calibration error of the largest probability; None for sets and labels
    coverage, size : share of sets that hold the true label, and labels in a set; None where there is no set
    empty, full : shares of sets with no label and with all
    notes : what must be said
    """

    option: ReleaseOption
    attacked: Attacked
    leakage: Mapping[str, Estimate]
    guess: FloatArray
    accuracy: Estimate
    error: Estimate | None
    coverage: Estimate | None
    size: Estimate | None
    empty: float
    full: float
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DefenceComparison:
    """All options measured on the same records.

    Attributes
    ----------
    measured : the first is the reference, outputs as they are
    reductions : AUC of the reference less each other's, with limits that hold for all together
    costs : accuracy of the reference less each other's, likewise; None where the label is kept by construction
    between : differences in AUC between all options, a family of its own
    confidence : of each family, and of single intervals
    queries : how often an attacker asked for each record
    """

    measured: tuple[MeasuredOption, ...]
    reductions: tuple[PairedDifference, ...]
    costs: tuple[PairedDifference | None, ...]
    between: tuple[PairedDifference, ...]
    confidence: float
    queries: int = 1


def compare(
    options: Sequence[ReleaseOption],
    *,
    fpr_targets: Sequence[float] = (0.01, 0.1),
    confidence: float = 0.95,
    queries: int = 1,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> DefenceComparison:
    """Measure every option.

    Parameters
    ----------
    options : the first is the reference
        All on the same audited records with the same memberships.
    fpr_targets : false-positive rates of the TPRs
    confidence : two-sided, in (0, 1)
    queries : how often an attacker asks for each record; answers are averaged where they are drawn anew
    rng : generator of what defences draw, of the choice of attacks and of limits
    progress : function of options that are done and of their number, optional

    Raises
    ------
    InputError
        For options on different records, too few shadow models, and as the defences do.
    """
    _check(options, queries)
    streams = rng.spawn(len(options) + 1)
    measured = []
    for i, option in enumerate(options):
        measured.append(_measured(option, fpr_targets, confidence, queries, streams[i]))
        if progress is not None:
            progress(i + 1, len(options))
    measured[0] = _with_best_reading(measured)
    models = options[0].models
    units = None if models.units is None else models.units[models.rows]
    aucs = PairedFamily.aucs(np.stack([one.attacked.scores for one in measured]), models.member, units)
    guesses = PairedFamily.means(
        np.stack([one.guess for one in measured]), None if units is None else units[~models.member]
    )
    against = aucs.against(0, confidence, rng=streams[-1])
    lost = guesses.against(0, confidence, rng=streams[-1])
    return DefenceComparison(
        tuple(measured),
        tuple(_turned(one) for one in against),
        tuple(
            None if options[one.first].group == "output" and _keeps_accuracy(options[one.first]) else _turned(one)
            for one in lost
        ),
        tuple(aucs.pairs(list(range(len(options))), confidence, rng=streams[-1])),
        confidence,
        queries,
    )


def _check(options: Sequence[ReleaseOption], queries: int) -> None:
    if not options:
        raise InputError("options", "an option or more", "none", "the first is the reference")
    if queries < 1:
        raise InputError("queries", "1 or more", str(queries), "1 is a single query for each record")
    names = [option.name for option in options]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("defences", "a name for each", f"{twice!r} twice", "name one of them otherwise")
    first = options[0].models
    for option in options[1:]:
        same = np.array_equal(option.models.rows, first.rows) and np.array_equal(option.models.member, first.member)
        if not same:
            hint = "differences are paired by record"
            raise InputError("options", "the same records and memberships", f"others in {option.name}", hint)


def _with_best_reading(measured: Sequence[MeasuredOption]) -> MeasuredOption:
    """The reference with the attack on it or on whatever an attacker can make of it.

    Who sees the whole vector can do to it, and to shadow models, what any measure on outputs would have done. Which
    of these attacks is taken is again decided on shadow models.
    """
    reference = measured[0]
    if reference.option.defence.kind != "confidence-vector" or not reference.attacked.tried:
        return reference
    same = [one for one in measured if one.option.models is reference.option.models and one.option.group == "output"]
    best = max(same, key=lambda one: one.attacked.chosen_by)
    if best is reference or best.attacked.chosen_by <= reference.attacked.chosen_by + _ROUNDED:
        return reference
    attacked = replace(best.attacked, name=f"{best.attacked.name}, after {best.option.called}")
    return replace(reference, attacked=attacked, leakage=best.leakage)


def _keeps_accuracy(option: ReleaseOption) -> bool:
    return option.defence.keeps_label and option.defence.kind != "decision-set"


def _turned(one: PairedDifference) -> PairedDifference:
    """Reference less the other, from the other less the reference."""
    return PairedDifference(one.second, one.first, 0.0 - one.value, 0.0 - one.high, 0.0 - one.low)


# -- one option ------------------------------------------------------------------------------------------------------


def _measured(
    option: ReleaseOption, fpr_targets: Sequence[float], confidence: float, queries: int, rng: np.random.Generator
) -> MeasuredOption:
    models = option.models
    drawing, choosing, resampling = rng.spawn(3)
    repeats = queries if option.defence.randomness == "redrawn" else 1
    single, seen = _seen(option, repeats, drawing)
    attacked = plain(seen.kind, seen.target, seen.labels) if not seen.shadow.shape[1] else attack(seen, rng=choosing)
    outside = ~models.member
    units = None if models.units is None else models.units[models.rows][outside]
    values, labels = single.values[outside], seen.labels[outside]
    guess = _guess(single.kind, values, labels)
    sets = single.kind == "decision-set"
    sizes = values.astype(np.float64).sum(axis=1)
    return MeasuredOption(
        option,
        attacked,
        _leakage(attacked, models, fpr_targets, confidence),
        guess,
        _mean(guess, units, confidence),
        _calibration(values, labels, confidence, resampling)
        if single.kind in ("confidence-vector", "true-label")
        else None,
        _mean(values[np.arange(len(values)), labels].astype(np.float64), units, confidence) if sets else None,
        _mean(sizes, units, confidence, most=models.classes) if sets else None,
        float((sizes == 0).mean()) if sets else 0.0,
        float((sizes == models.classes).mean()) if sets else 0.0,
        tuple(_notes(option, seen, sizes if sets else None, repeats)),
    )


def _leakage(
    attacked: Attacked, models: Models, fpr_targets: Sequence[float], confidence: float
) -> dict[str, Estimate]:
    """Return the leakage of one option by metric: AUC, TPRs and advantage, with limits."""
    units = None if models.units is None else models.units[models.rows]
    sample = Sample.of(Evidence(score=attacked.scores, member=models.member, unit=units, design="one-run"))
    leakage = {"auc": sample.auc(confidence)}
    leakage |= {tpr_name(fpr): sample.tpr_at_fpr(fpr, confidence) for fpr in fpr_targets}
    leakage["advantage"] = sample.advantage(confidence)
    return leakage


def _seen(option: ReleaseOption, repeats: int, rng: np.random.Generator) -> tuple[Disclosed, Observed]:
    """Return one answer of the audited model (a, K), and what an attacker sees of all models after its queries."""
    models, rows = option.models, option.models.rows
    answers: list[NDArray[Any]] = []
    single: Disclosed | None = None
    for m, stream in enumerate(rng.spawn(len(models.logits))):
        p = models.probabilities(m)
        learned = models.learned_from(m, stream)
        fitted = option.defence.fit(
            p[learned], models.labels[learned], learnt=p[rows][models.included[m, rows]], rng=stream
        )
        responses = [fitted.apply(p[rows], rng=stream) for _ in range(repeats)]
        single = single or responses[0]
        values = averaged([one.values for one in responses])
        answers.append(values if values.dtype.kind == "b" else values.astype(np.float32))
    if single is None:
        raise InputError("logits", "a model or more", "none", "the audited one comes first")
    shadow = np.stack(answers[1:], axis=1) if answers[1:] else np.empty((len(rows), 0, models.classes))
    kind: Kind = single.kind
    seen = Observed(kind, answers[0], shadow, models.included[1:, rows].T.copy(), models.labels[rows], repeats)
    return single, seen


def _guess(kind: Kind, values: NDArray[Any], labels: IndexArray) -> FloatArray:
    """Probability that a reader's guess is right: the label, the most probable one, or one of the set at random."""
    held = values if kind in ("decision-set", "label") else one_hot(values)
    size = held.sum(axis=1)
    right = held[np.arange(len(labels)), labels] / np.maximum(size, 1)
    return np.asarray(np.where(size > 0, right, 1 / values.shape[1]))  # an empty set leaves a guess among all


def _mean(values: FloatArray, units: IntArray | None, confidence: float, *, most: float = 1.0) -> Estimate:
    """Mean with limits: exact for yes and no of independent records (Clopper and Pearson 1934), else Student's."""
    n, mean = len(values), float(values.mean())
    if units is None and bool(np.isin(values, (0.0, 1.0)).all()):
        return Estimate(mean, *clopper_pearson(float(values.sum()), n, confidence), confidence)
    family = PairedFamily.means(values[None], units)
    count = family.influence.shape[1]
    error = max(float(np.sqrt((family.influence**2).sum() * count / (count - 1))), 1 / n)
    width = float(special.stdtrit(family.freedom, 1 - (1 - confidence) / 2)) * error
    return Estimate(mean, max(0.0, mean - width), min(most, mean + width), confidence)


def _calibration(values: NDArray[Any], labels: IndexArray, confidence: float, rng: np.random.Generator) -> Estimate:
    """Calibration error with limits of the bootstrap, turned round the estimate; it is biased upwards all the same."""
    p = values.astype(np.float64)
    value = calibration_error(p, labels)
    n = len(p)
    again = [calibration_error(p[rows], labels[rows]) for rows in rng.integers(n, size=(_REPLICATES, n))]
    low, high = np.quantile(again, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, max(0.0, 2 * value - float(high)), max(value, 2 * value - float(low)), confidence)


def _notes(option: ReleaseOption, seen: Observed, sizes: FloatArray | None, repeats: int) -> list[str]:
    notes = []
    models, randomness = seen.shadow.shape[1], option.defence.randomness
    if randomness == "fixed":
        notes.append("Chance is drawn once for each record: asking again gives the same answer.")
    elif randomness == "redrawn":
        once = "one query for each record; an attacker who asks again and averages undoes part of it"
        often = f"{repeats} queries for each record were averaged, which undoes part of it"
        notes.append(f"Chance is drawn anew with each query: {often if repeats > 1 else once}.")
    if not option.adaptive:
        notes.append(
            "The attack is not adaptive: no shadow model went through this defence. A better attack may exist."
        )
    elif not models:
        notes.append("No shadow models: a plain threshold, and a lower limit of what an attacker can do.")
    elif models < _FEW_MODELS:
        notes.append(f"{models} shadow models are few: sixteen and more make a stronger attack.")
    if sizes is not None and (sizes == sizes[0]).all() and sizes[0] in (0, option.models.classes):
        notes.append(f"Every set is {'full' if sizes[0] else 'empty'}: it gives nothing away, and says nothing.")
    if option.models.source == "training" and option.defence.kind != "label":
        notes.append("What it learned came from the model's own members: coverage and calibration hold for them alone.")
    return notes
