"""Membership attacks on generators (causal-synthesis, Algorithm 1), judged on models that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence, check_delta, check_generator, is_whole
from miaudit.metrics.classical import Estimate
from miaudit.metrics.rounding import lower_text, percent, upper_text, written
from miaudit.synthesis.retraining_attack import split_by_set
from miaudit.synthesis.retraining_attack.attack_bound import AttackBound, lower_bound
from miaudit.synthesis.retraining_attack.attack_metrics import METRICS, Judged, chance, measure
from miaudit.synthesis.retraining_attack.classifiers import CLASSIFIERS, Classifier, Fold
from miaudit.synthesis.retraining_attack.features import EXTRACTORS, Extractor, check_name
from miaudit.synthesis.retraining_attack.heldout import Described, Pooling, Trials, all_trials
from miaudit.synthesis.retraining_attack.sets import REPEATS, Design, SyntheticSets, Training, train
from miaudit.synthesis.retraining_attack.targets import GivenTargets, RandomTargets, Targets, check_targets
from miaudit.synthesis.schema import Table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["AttackChange", "AttackRow", "MembershipAttack", "compare", "membership_attack"]

Protocol = Literal["held-out", "paper"]

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


@dataclass(frozen=True)
class AttackRow:
    """One extractor with one classifier.

    Attributes
    ----------
    extractor, classifier : names
    metrics : accuracy, balanced_accuracy, auc, advantage (TPR - FPR), tpr, fpr, auc_of_models; each with its interval
    placebo : the same with the memberships of whole models permuted: at chance if the protocol is honest
    by_target : AUC of sets for each target, in the order of the targets; empty under the paper's protocol
    constant : share of the trained classifiers that gave every set one answer
    """

    extractor: Extractor
    classifier: Classifier
    metrics: dict[str, Estimate]
    placebo: dict[str, Estimate]
    by_target: tuple[Estimate, ...]
    constant: float

    @property
    def placebo_at_chance(self) -> bool:
        """Whether the intervals of the placebo's AUC and balanced accuracy hold one half; 1 in 20 misses by chance."""
        return all(self.placebo[name].low <= 0.5 <= self.placebo[name].high for name in ("auc", "balanced_accuracy"))


@dataclass(frozen=True)
class MembershipAttack:
    """The results of attacks on generators.

    Attributes
    ----------
    rows : one for each extractor and classifier
    bound : lower bound on epsilon from models that were held out for it; None under the paper's protocol, or if there
        are too few models
    targets : names
    models : number of generators
    protocol, pooling, design : how
    features : for each extractor, how many features were constant in all sets, and of how many
    released_probabilities : columns in which the generators released probabilities instead of outcomes (erratum D5)
    notes : what a report of the numbers must state, in sentences
    """

    rows: tuple[AttackRow, ...]
    bound: AttackBound | None
    targets: tuple[str, ...]
    models: int
    protocol: Protocol
    pooling: Pooling
    design: Design
    features: dict[str, tuple[int, int]]
    released_probabilities: tuple[str, ...]
    notes: tuple[str, ...]

    def row(self, extractor: Extractor, classifier: Classifier) -> AttackRow:
        """Return the row of one extractor and classifier."""
        for one in self.rows:
            if (one.extractor, one.classifier) == (extractor, classifier):
                return one
        wanted = f"{extractor} with {classifier}"
        raise InputError("row", "an extractor and a classifier that were asked for", wanted, "see rows")

    def frame(self) -> pl.DataFrame:
        """Return a polars frame, a row for each attack, arm and metric: value, low, high."""
        import polars as pl  # noqa: PLC0415 - loads when a frame is needed

        records = [
            {
                "extractor": row.extractor,
                "classifier": row.classifier,
                "arm": arm,
                "metric": name,
                "value": estimates[name].value,
                "low": estimates[name].low,
                "high": estimates[name].high,
                "chance": chance(name),
                "constant": row.constant,
            }
            for row in self.rows
            for arm, estimates in (("attack", row.metrics), ("placebo", row.placebo))
            for name in METRICS
        ]
        return pl.DataFrame(records)

    def __str__(self) -> str:
        lines = [f"{'':30}{'accuracy':>10}{'balanced':>10}{'AUC':>23}{'TPR - FPR':>11}{'placebo AUC':>23}"]
        for row in self.rows:
            m, p = row.metrics, row.placebo
            name = f"{row.extractor}, {row.classifier}{' (constant)' if row.constant == 1 else ''}"
            lines.append(
                f"{name:30}{m['accuracy'].value:10.3f}{m['balanced_accuracy'].value:10.3f}{_shown(m['auc']):>23}"
                f"{m['advantage'].value:11.3f}{_shown(p['auc']):>23}"
            )
        if self.bound is not None:
            b, most = self.bound, self.bound.bound.reachable
            reach = "" if most is None else f"; an attack without error would show {upper_text(most)}"
            lines.append(
                f"epsilon is at least {lower_text(b.bound.value)} with {percent(b.bound.confidence)} confidence "
                f"({b.extractor}, {b.classifier}; {b.testing} models tested on{reach})"
            )
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class AttackChange:
    """How far a defence lowers an attack: positive where it helps.

    Attributes
    ----------
    extractor, classifier : the attack
    advantage : drop of TPR - FPR, with an interval that takes the two sets of models for independent
    accuracy : drop of the accuracy, in the same units: what the paper calls the change of the adversary's advantage
    """

    extractor: Extractor
    classifier: Classifier
    advantage: Estimate
    accuracy: Estimate


def membership_attack(
    source: Table | SyntheticSets,
    *,
    targets: Targets | Sequence[int] | None = None,
    protocol: Protocol = "held-out",
    pooling: Pooling | None = None,
    extractors: Sequence[Extractor] | None = None,
    classifiers: Sequence[Classifier] = CLASSIFIERS,
    folds: int = 4,
    placebos: int = 1,
    delta: float = 0.0,
    confidence: float = 0.95,
    rng: np.random.Generator,
    **training: Unpack[Training],
) -> MembershipAttack:
    """Attack generators: learn from the sets that they release whether a record was a training record.

    Parameters
    ----------
    source : Table to train generators on, or SyntheticSets that exist already (``SyntheticSets.from_folder``)
    targets : choice of records; five random ones by default
    protocol : "held-out", whole models are kept from the classifier that judges them; or "paper", a third of the sets
        is, which recognises models and is labelled so (errata D2 and D5)
    pooling : "per-target", a classifier for each target (default); "pooled", one for all, the paper's choice
    extractors : naive, histogram, correlation, ensemble (the module ``features``) and, where the targets are known,
        nearness (``closeness``); all by default
    classifiers : kernel, svc, random forest, knn, logistic (:mod:`miaudit.synthesis.retraining_attack.classifiers`)
    folds : parts of each target's models; each but the first is judged by what the ones before it taught
    placebos : placebo arms for each attack, at least 1; the result is their mean
    delta : of the claim that the lower bound on epsilon is about, in [0, 1)
    confidence : of intervals (two-sided) and of the bound (one-sided), in (0, 1)
    rng : for targets, seeds, folds and placebos
    training : fit, fit_many, sample, repeats, sets, set_size, design, at_once, store, key, executor, workers, progress
        How generators are trained and sampled, as in ``train`` of the module ``sets``. Not used with SyntheticSets.

    Returns
    -------
    MembershipAttack

    Raises
    ------
    InputError
        For unusable arguments, a target that is not in the table, or too few models for the folds, with the number that
        suffices.
    JobsFailedError
        If generators failed.

    Examples
    --------
    A "generator" that releases its training records, drawn with replacement; its second record is like no other.

    >>> from miaudit.synthesis.schema import Column, Schema
    >>> class Resampling:
    ...     def __init__(self, table, *, rng):
    ...         self.values = table.values
    ...     def sample(self, n, *, rng):
    ...         return self.values[rng.integers(len(self.values), size=n)]
    >>> schema = Schema(tuple(Column(name) for name in "abcd"))
    >>> values = np.zeros((50, 4))
    >>> values[::2, 0] = values[::3, 1] = values[1, 2:] = 1
    >>> result = membership_attack(
    ...     Table(schema, values), fit=Resampling, targets=[1], repeats=12, sets=5, extractors=["naive"],
    ...     classifiers=["logistic"], rng=np.random.default_rng(0))
    >>> result.row("naive", "logistic").metrics["auc"].value > 0.7
    True
    """
    _check_training(training)
    classifiers = [check_name("classifier", name, CLASSIFIERS) for name in dict.fromkeys(classifiers)]
    requested = [check_name("extractor", name, EXTRACTORS) for name in dict.fromkeys(extractors or ())]
    if not classifiers or (extractors is not None and not requested):
        raise InputError("extractors", "at least one, and a classifier", "none", "leave them out for all")
    _check_protocol(protocol, pooling, placebos)
    check_confidence(confidence)
    check_delta(delta)
    pooling = pooling or ("pooled" if protocol == "paper" else "per-target")
    check_generator(rng)
    sets = _sets(source, RandomTargets() if targets is None else targets, training, _least(protocol, folds), rng)
    extractors = requested or [name for name in EXTRACTORS if name != "nearness" or sets.records is not None]
    trials = [split_by_set.all_sets(sets)] if protocol == "paper" else all_trials(sets, folds, pooling, rng=rng)
    described = Described(sets)
    bound = None
    with threadpool_limits(1):  # many small fits: threads would wait for one another, and change the last digits
        rows = _rows(described, trials, extractors, classifiers, protocol, placebos, confidence, rng)
        if protocol == "held-out":
            bound = lower_bound(described, trials, extractors, classifiers, delta=delta, confidence=confidence, rng=rng)
    return MembershipAttack(
        rows=rows,
        bound=bound,
        targets=sets.targets,
        models=sets.models,
        protocol=protocol,
        pooling=pooling,
        design="shared" if sets.shared else "separate",
        features={name: described.constant(name) for name in extractors},
        released_probabilities=tuple(sorted(sets.layout.fractional)),
        notes=_notes(sets, protocol, rows, bound),
    )


def _check_training(training: Training) -> None:
    unknown = next((name for name in training if name not in Training.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"membership_attack() got an unexpected keyword argument {unknown!r}")


def _check_protocol(protocol: Protocol, pooling: Pooling | None, placebos: int) -> None:
    if protocol not in PROTOCOLS:
        raise InputError("protocol", " or ".join(PROTOCOLS), repr(protocol), "held-out is the default")
    if not is_whole(placebos) or placebos < 1:
        raise InputError("placebos", "a whole number from 1 up", repr(placebos), "an attack has at least one")
    if protocol == "paper" and pooling == "per-target":
        raise InputError("pooling", "pooled with protocol='paper'", "per-target", "leave it out")


def compare(without: MembershipAttack, with_it: MembershipAttack) -> tuple[AttackChange, ...]:
    """How far each attack falls when a defence (privacy, causal structure) is added: the form of Figures 2 to 5 and 8.

    Parameters
    ----------
    without, with_it : results of the same attacks on generators without and with the defence

    Examples
    --------
    >>> compare.__name__
    'compare'
    """
    changes = []
    for row in without.rows:
        other = with_it.row(row.extractor, row.classifier)
        drops = [_difference(row.metrics[name], other.metrics[name]) for name in ("advantage", "accuracy")]
        changes.append(AttackChange(row.extractor, row.classifier, drops[0], drops[1]))
    return tuple(changes)


def _difference(first: Estimate, second: Estimate) -> Estimate:
    """First less second; limits by Newcombe's combination of theirs."""
    assert first.value is not None and second.value is not None  # noqa: S101 - rates always have one
    value = first.value - second.value
    down = float(np.hypot(first.value - first.low, second.high - second.value))
    up = float(np.hypot(first.high - first.value, second.value - second.low))
    return Estimate(value, value - down, value + up, first.confidence)


def _least(protocol: Protocol, folds: int) -> int:
    """Return how many models of a kind each target needs, as far as the options decide it."""
    return 2 * folds if protocol == "held-out" and isinstance(folds, int) and folds >= 2 else 1


def _sets(
    source: Any, targets: Targets | Sequence[int], training: Training, least: int, rng: np.random.Generator
) -> SyntheticSets:
    """Return the sets of the source, or train generators on it; too few repeats are refused before any training."""
    if isinstance(source, SyntheticSets):
        if training.get("fit") is not None or training.get("fit_many") is not None:
            raise InputError("fit", "no fit beside sets that are there already", "both", "pass the table to train")
        return source
    if not isinstance(source, Table):
        raise InputError("source", "a Table or SyntheticSets", type(source).__name__, "see Table.from_frame")
    repeats = training.get("repeats", REPEATS)
    if isinstance(repeats, int) and repeats < least:
        chosen = check_targets(targets)
        count = len(chosen.rows) if isinstance(chosen, GivenTargets) else chosen.count
        models = f" ({2 * least * count} models for {count} target{'s' * (count != 1)})"
        allowed = f"at least {least} models with and {least} without each target, for {least // 2} folds"
        fewer = f", or use folds={repeats // 2}" if repeats >= 4 else ""
        raise InputError("repeats", allowed, str(repeats), f"repeats={least} suffices{models}{fewer}")
    return train(source, targets, rng=rng, **training)


def _rows(
    described: Described,
    trials: Sequence[Trials],
    extractors: Sequence[Extractor],
    classifiers: Sequence[Classifier],
    protocol: Protocol,
    placebos: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[AttackRow, ...]:
    """Return a row for each extractor with each classifier."""
    arms = _arms(described, trials, extractors, classifiers, protocol, placebos, rng)
    targets = len(described.sets.targets) if protocol == "held-out" else 0
    folds = max(int(one.fold.max()) for one in trials) + 1
    rows = []
    for pair in product(extractors, classifiers):
        own, *placebo = (Judged.joined(arm) for arm in zip(*arms[pair], strict=True))
        areas = [measure(own.within(own.stratum // folds == t), confidence)["auc"] for t in range(targets)]
        rows.append(
            AttackRow(*pair, measure(own, confidence), measure(placebo, confidence), tuple(areas), own.constant)
        )
    return tuple(rows)


def _arms(
    described: Described,
    trials: Sequence[Trials],
    extractors: Sequence[Extractor],
    classifiers: Sequence[Classifier],
    protocol: Protocol,
    placebos: int,
    rng: np.random.Generator,
) -> dict[tuple[Extractor, Classifier], list[list[Judged]]]:
    """Judge the sets by each attack; for each of the trials by the true memberships first, then by the placebos'."""
    judge = split_by_set.judged if protocol == "paper" else Described.judged
    arms: dict[tuple[Extractor, Classifier], list[list[Judged]]] = {}
    for one in trials:
        for extractor, products in described.products(extractors, one):
            cache: dict[int, Fold] = {}
            for classifier in classifiers:
                labels = [one.member, *(one.placebo(rng) for _ in range(placebos))]
                judged = judge(described, products, classifier, one, labels, cache=cache, rng=rng)
                arms.setdefault((extractor, classifier), []).append(judged)
    return arms


def _notes(
    sets: SyntheticSets, protocol: Protocol, rows: Sequence[AttackRow], bound: AttackBound | None
) -> tuple[str, ...]:
    notes = []
    if protocol == "paper":
        notes.append(
            "Leaky protocol: the sets that are judged come from models whose other sets were learned from, so an attack"
            " recognises the model and not the record; these numbers do not measure what a record gives away."
        )
    if sets.layout.fractional:
        notes.append(
            f"The generators released probabilities in {len(sets.layout.fractional)} columns: draw outcomes instead."
        )
    constant = [row for row in rows if row.constant == 1]
    if constant:
        names = ", ".join(f"{row.extractor} with {row.classifier}" for row in constant)
        notes.append(f"Always the same answer, whatever the set: {names}; its accuracy is that of the labels.")
    away = [row for row in rows if not row.placebo_at_chance]
    if away and protocol == "held-out":
        names = ", ".join(f"{row.extractor} with {row.classifier}" for row in away)
        notes.append(
            f"The placebo is away from chance for {names}: of {len(rows)} attacks, with two intervals each, "
            f"{max(1, round(0.1 * len(rows)))} or so are by chance alone."
        )
    if bound is None and protocol == "held-out":
        notes.append("No bound on epsilon: it needs 4 models with and 4 without each target, repeats=4.")
    return tuple(notes)


def _shown(estimate: Estimate) -> str:
    low, high = written(estimate.low, ".3f", "down"), written(estimate.high, ".3f", "up")
    return f"{estimate.value:.3f} [{low}, {high}]"
