"""A trial of defences on one model: records and memberships drawn, models trained, every option measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, IndexArray, IntArray
from miaudit.collect.campaign import Shadows
from miaudit.collect.records import Records
from miaudit.defences.compare import DefenceComparison, Models, ReleaseOption, Source, compare
from miaudit.defences.outputs import AsItIs, Defence
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models import inclusion, shadow
from miaudit.models.outputs import check_kind, class_count
from miaudit.models.protocol import Target, can_be_trained_together, check_target, stands, trainable

Progress = Callable[[int, int], None]
AS_IT_IS = "as-it-is"
_CALIBRATION_SHARE = 5


@dataclass(frozen=True, eq=False)
class Trial:
    """Everything that decides a comparison but the random numbers.

    Attributes
    ----------
    target : what is audited
    records : with ``member``, or without: then memberships are drawn here, a fair coin for each audited
        record, or unit
    shadows : as of :class:`miaudit.collect.campaign.Shadows`; each training keeps its models in a folder of its own
    defences : measures on outputs by name
    trainings : other targets by name, trained on the same records with the same memberships
    given : targets that stand as they are, by name: outputs of this model through a defence that somebody else applied
    calibration : records that are set aside for what defences learn, of whole units; by default a fifth
    source : "held-out", or "training": each model's own members instead, a defect that is then measured
    queries : how often an attacker asks for each record
    """

    target: Target
    records: Records
    shadows: Shadows = Shadows(models=16)  # noqa: RUF009 - a frozen record
    defences: Mapping[str, Defence] = field(default_factory=dict)
    trainings: Mapping[str, Target] = field(default_factory=dict)
    given: Mapping[str, Target] = field(default_factory=dict)
    calibration: int | None = None
    source: Source = "held-out"
    queries: int = 1

    def __post_init__(self) -> None:
        for target in (self.target, *self.trainings.values(), *self.given.values()):
            check_target(target)

    @property
    def stands(self) -> bool:
        """Whether the audited model stands as it is."""
        return stands(self.target)

    def names(self) -> list[str]:
        """Return the names of all options, the reference first."""
        return [AS_IT_IS, *self.defences, *self.given, *self.trainings]


def measure(
    trial: Trial,
    *,
    fpr_targets: Sequence[float] = (0.01, 0.1),
    confidence: float = 0.95,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> DefenceComparison:
    """Train the models and measure every option. Runs the target's code.

    Parameters
    ----------
    fpr_targets, confidence : as of :func:`miaudit.defences.compare.compare`
    rng : generator of memberships, seeds, defences and limits; equal generators give equal comparisons
    progress : function of models and options that are done and of how many there are, optional

    Raises
    ------
    InputError
        For records, targets and defences that do not go together: before anything is trained.
    JobsFailedError
        If models failed; the others are kept where there is a store.
    """
    assignment = _Assignment.of(trial, rng)
    before = len(assignment.included) * len(_trained(trial))
    total = before + len(trial.names())
    options = _options(trial, assignment, None if progress is None else partial(_shifted, progress, 0, total))
    return compare(
        options,
        fpr_targets=fpr_targets,
        confidence=confidence,
        queries=trial.queries,
        rng=assignment.rng,
        progress=None if progress is None else partial(_shifted, progress, before, total),
    )


def cost(trial: Trial, *, rng: np.random.Generator) -> dict[str, shadow.Cost]:
    """Say beforehand what :func:`measure` with an equal generator will train, training by training; nothing is written.

    Without a stated rate one model of each is trained for the time.
    """
    assignment = _Assignment.of(trial, rng)
    costs = {}
    for name, target in _trained(trial).items():
        included = assignment.included if name != AS_IT_IS or not trial.stands else assignment.included[1:]
        if len(included):
            options = trial.shadows
            costs[name] = shadow.estimate(
                trainable(target),
                trial.records.x,
                assignment.y,
                included,
                seed=assignment.seed,
                seconds_per_fit=options.seconds_per_fit,
                store=_store(options, name),
                executor=options.executor,
                workers=options.workers,
                at_once=_at_once(target, options),
            )
    return costs


# -- what is assigned at random --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Assignment:
    """Memberships, calibration records and seeds, fixed before the first training."""

    rows: IndexArray
    calibration: IndexArray
    included: BoolArray
    y: IndexArray
    units: IntArray | None
    seed: int
    rng: np.random.Generator

    @classmethod
    def of(cls, trial: Trial, rng: np.random.Generator) -> _Assignment:
        coins, halves, seeds, measuring = rng.spawn(4)
        y, n = _labels(trial), trial.records.n
        declared = trial.records.member
        unit = trial.records.fields.get("unit")
        # The door of evidence: lengths, types and given memberships are checked before anything is trained.
        member = np.arange(n) % 2 == 0 if declared is None else declared
        whole = Evidence(score=np.zeros(n), member=member, unit=unit, design="one-run")
        _check(trial)
        calibration, rows = _set_aside(trial, whole, coins)
        several = None if whole.unit_codes is None else whole.unit_codes[rows]  # whose records go in together
        inside = inclusion.coins(len(rows), unit=several, rng=coins) if declared is None else whole.member[rows]
        included = inclusion.audited_and_shadows(n, rows, inside, trial.shadows.models, unit=several, rng=halves)
        return cls(rows, calibration, included, y, whole.unit_codes, int(seeds.integers(2**31)), measuring)


def _labels(trial: Trial) -> IndexArray:
    if trial.target.kind != "logits":
        received = f"{trial.target.name}, whose outputs are {trial.target.kind}"
        raise InputError("target", "a classifier", received, "what a defence discloses are probabilities of classes")
    if trial.records.y is None:
        raise InputError("data.y", "a column of labels", "none", "name it: attacks and calibration need labels")
    if class_count(trial.records.y) < 2:
        hint = "a model with one class is always certain and discloses nothing"
        raise InputError("data.y", "two classes or more", "K = 1", hint)
    return np.asarray(trial.records.y).astype(np.intp)


def _check(trial: Trial) -> None:
    if trial.records.member is None and trial.stands:
        received = f"none, for {trial.target.name}, which stands as it is"
        raise InputError("data.member", "a column of who was trained on", received, "name it")
    if trial.given and not trial.stands:
        hint = "given outputs belong to a model that stands as it is"
        raise InputError("given", "no outputs beside a model that is trained here", ", ".join(trial.given), hint)
    if 0 < trial.shadows.models < 4:
        hint = "two models of each side give a law; 16 and more are better"
        raise InputError("shadow.models", "4 or more", str(trial.shadows.models), hint)
    if not trial.shadows.models and not trial.stands:
        hint = "an attack that is fitted to nothing understates what a release gives away: add shadow: {models: 16}"
        raise InputError("shadow.models", "shadow models, of a model that is trained here", "none", hint)
    for name, other in trial.trainings.items():
        if other.kind != "logits":
            raise InputError(f"trainings.{name}", "a classifier", other.kind, "name another")


def _set_aside(trial: Trial, whole: Evidence, rng: np.random.Generator) -> tuple[IndexArray, IndexArray]:
    """Return the records that defences learn from, and the audited ones; no unit has records in both."""
    n, assigned = whole.n, trial.records.member is None
    if trial.source == "training":
        count = trial.calibration or n // _CALIBRATION_SHARE
        return np.arange(count), np.arange(n)
    free, codes = np.ones(n, dtype=np.bool_) if assigned else ~whole.member, whole.unit_codes
    if codes is not None:  # of a unit with a member all are audited
        free = free & (np.bincount(codes, weights=~free)[codes] == 0)
    possible = np.flatnonzero(free)
    count = trial.calibration or len(possible) // _CALIBRATION_SHARE
    most = len(possible) - 40
    if not 0 < count <= most:
        allowed = f"1 to {max(most, 0)}, of records that no model learns"
        raise InputError("calibration.records", allowed, str(count), "set fewer aside, or audit more records")
    if codes is None:
        chosen = np.sort(rng.permutation(possible)[:count])
    else:
        chosen = np.flatnonzero(np.isin(codes, _units_of(codes[possible], count, most, rng)))
    return chosen, np.setdiff1d(np.arange(n), chosen)


def _units_of(codes: IntArray, count: int, most: int, rng: np.random.Generator) -> IntArray:
    """Draw units that have ``count`` records together, or the next number that whole units give up to ``most``."""
    units, sizes = np.unique(codes, return_counts=True)
    order = rng.permutation(len(units))
    taken = sizes[order].cumsum()
    enough = int(np.searchsorted(taken, count)) + 1
    enough -= int(taken[enough - 1] > most)
    if enough == 0:
        received = f"a unit of {sizes[order[0]]:,} records"
        raise InputError("calibration.records", f"units of {most:,} records at most", received, "audit more units")
    return units[order[:enough]]


# -- what is trained and asked ---------------------------------------------------------------------------------------


def _trained(trial: Trial) -> dict[str, Target]:
    return {AS_IT_IS: trial.target, **trial.trainings}


def _options(trial: Trial, assignment: _Assignment, progress: Progress | None) -> list[ReleaseOption]:
    trained, each = _trained(trial), len(assignment.included)
    models = {}
    for i, (name, target) in enumerate(trained.items()):
        report_progress = None if progress is None else partial(_shifted, progress, i * each, len(trained) * each)
        models[name] = _models(trial, assignment, name, target, report_progress)
    base = models[AS_IT_IS]
    outside = replace(base, logits=base.logits[:1], included=base.included[:1])
    options = [ReleaseOption(AS_IT_IS, "output", base, AsItIs())]
    options += [ReleaseOption(name, "output", base, defence) for name, defence in trial.defences.items()]
    for name, target in trial.given.items():
        answers = _asked(target, trial.records.x, trial.records.n)
        options.append(ReleaseOption(name, "given", replace(outside, logits=[answers]), AsItIs(), name, adaptive=False))
    others = [name for name in trained if name != AS_IT_IS]
    return [*options, *(ReleaseOption(name, "training", models[name], AsItIs(), name) for name in others)]


def _models(trial: Trial, assignment: _Assignment, name: str, target: Target, progress: Progress | None) -> Models:
    stands = trial.stands and name == AS_IT_IS
    included = assignment.included[1:] if stands else assignment.included
    logits: list[NDArray[Any]] = [_asked(target, trial.records.x, trial.records.n)] if stands else []
    if len(included):
        options = trial.shadows
        outputs = shadow.train(
            trainable(target),
            trial.records.x,
            assignment.y,
            included,
            seed=assignment.seed,
            store=_store(options, name),
            executor=options.executor,
            workers=options.workers,
            at_once=_at_once(target, options),
            progress=None if progress is None else lambda state: progress(state.finished + state.failed, state.total),
        )
        logits += [outputs.model(m) for m in range(outputs.models)]
    group = trial.records.fields.get("group")
    groups = None if group is None else np.asarray(group)
    return Models(
        logits,
        assignment.included,
        assignment.y,
        assignment.rows,
        assignment.calibration,
        trial.source,
        assignment.units,
        groups,
    )


def _asked(target: Target, x: Any, n: int) -> Float32Array:
    outputs = target.outputs(None, x)
    if len(outputs) != n:
        raise InputError("target", f"outputs of {n} records", str(len(outputs)), "check the files")
    check_kind(target.kind, np.asarray(outputs), target.name)
    return outputs


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _store(options: Shadows, name: str) -> Any:
    """The folder of one training; what a file system may not take becomes an underscore."""
    safe = "".join(ch if ch.isalnum() or ch in "-_." else "_" for ch in name)
    return options.store_of(safe)


def _at_once(target: Target, options: Shadows) -> int:
    return options.at_once if can_be_trained_together(target) else 1
