"""Attacks that are judged on generators they have not seen: whole models are held out (errata D2 and D5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.checks import is_whole
from miaudit.synthesis.retraining_attack.attack_metrics import Judged
from miaudit.synthesis.retraining_attack.classifiers import Classifier, Fold, InnerProducts, log_odds
from miaudit.synthesis.retraining_attack.features import PARTS, Extractor
from miaudit.synthesis.retraining_attack.sets import SyntheticSets

Pooling = Literal["per-target", "pooled"]

POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


@dataclass(frozen=True, eq=False)
class Trials:
    """Models about one target, or about any if pooled, as a classifier meets them.

    Attributes
    ----------
    model : (t,) of int, numbers of the models
    target : (t,) of int, the target of each
    member : (t,) of bool, whether it learned that target
    fold : (t,) of int, when it is held out
    """

    model: IndexArray
    target: IndexArray
    member: BoolArray
    fold: IndexArray

    @property
    def folds(self) -> IndexArray:
        """The folds that there are."""
        return np.unique(self.fold)

    def at(self, rows: IndexArray | BoolArray) -> Trials:
        """Return some of the trials."""
        return Trials(self.model[rows], self.target[rows], self.member[rows], self.fold[rows])

    def placebo(self, rng: np.random.Generator) -> BoolArray:
        """Permute the memberships of whole models within each fold of each target: nothing is left to be learned.

        Folds keep their numbers of members, so the labels of a held-out fold are independent of those learned from, and
        an honest protocol is at chance exactly.
        """
        shuffled = self.member.copy()
        for target in np.unique(self.target):
            for fold in self.folds:
                rows = np.flatnonzero((self.target == target) & (self.fold == fold))
                shuffled[rows] = shuffled[rng.permutation(rows)]
        return shuffled


def all_trials(sets: SyntheticSets, folds: int, pooling: Pooling, *, rng: np.random.Generator) -> list[Trials]:
    """Divide the models of each target at random into folds with equal shares of members; one item for each attack.

    Raises
    ------
    InputError
        If a target has fewer than two models of a kind for each fold; the message says what would suffice.
    """
    if not is_whole(folds) or folds < 2:
        raise InputError("folds", "a whole number from 2 up", repr(folds), "4 is the default")
    if pooling not in POOLINGS:
        raise InputError("pooling", " or ".join(POOLINGS), repr(pooling), "per-target is the default")
    if pooling == "pooled" and sets.shared:
        received = "pooled with models that are about several targets"
        raise InputError("pooling", "per-target with a shared design", received, "or train with design='separate'")
    _check_enough(sets, folds)
    single = [_of_target(sets, target, folds, rng) for target in range(len(sets.targets))]
    if pooling == "per-target":
        return single
    joined = [np.concatenate([getattr(one, name) for one in single]) for name in ("model", "target", "member", "fold")]
    return [Trials(*joined)]


def _check_enough(sets: SyntheticSets, folds: int) -> None:
    for t, name in enumerate(sets.targets):
        counts = [int(np.count_nonzero(sets.membership[:, t] == kind)) for kind in (1, 0)]
        if min(counts) < 2 * folds:
            received = f"{counts[0]} with and {counts[1]} without {name}"
            others = f", or use folds={min(counts) // 2}" if min(counts) >= 4 else ""
            models = 4 * folds * len(sets.targets)
            hint = f"repeats={2 * folds} suffices ({models} models for {len(sets.targets)} targets){others}"
            allowed = f"at least {2 * folds} models with and {2 * folds} without each target, for {folds} folds"
            raise InputError("repeats", allowed, received, hint)


def _of_target(sets: SyntheticSets, target: int, folds: int, rng: np.random.Generator) -> Trials:
    models = sets.about(target)
    member = sets.membership[models, target] == 1
    fold = np.empty(len(models), dtype=np.intp)
    for kind in (True, False):
        rows = rng.permutation(np.flatnonzero(member == kind))
        fold[rows] = np.arange(len(rows)) % folds
    return Trials(models, np.full(len(models), target), member, fold)


@dataclass(frozen=True, eq=False)
class Described:
    """Sets as classifiers see them; the features of one attack's models are held at a time."""

    sets: SyntheticSets

    def constant(self, extractor: Extractor) -> tuple[int, int]:
        """How many features of an extractor are the same in all sets, and of how many."""
        if extractor == "nearness":
            targets = range(len(self.sets.targets))
            models = [self.sets.about(target) for target in targets]
            parts = [self.sets.about_record(m, np.full(len(m), t)) for m, t in zip(models, targets, strict=True)]
        else:
            parts = [self.sets.features(extractor, np.array([m])) for m in range(self.sets.models)]
        low = np.min([part.min(axis=0) for part in parts], axis=0)
        high = np.max([part.max(axis=0) for part in parts], axis=0)
        return int(np.count_nonzero(low == high)), len(low)

    def products(
        self, extractors: Sequence[Extractor], trials: Trials, scaled_by: IndexArray | None = None
    ) -> Iterator[tuple[Extractor, InnerProducts]]:
        """Yield the inner products of the sets of some models under each extractor.

        ``scaled_by`` are positions among the trials that decide the scale of the features; all of them by default. An
        ensemble joins what its parts have.
        """
        scale = None if scaled_by is None else self.positions(scaled_by)
        parts: list[InnerProducts] = []
        for part in PARTS:
            if part in extractors or "ensemble" in extractors:
                parts.append(InnerProducts.of(self.sets.features(part, trials.model), scaled_by=scale))
            if part in extractors:
                yield part, parts[-1]
        if "ensemble" in extractors:
            yield "ensemble", InnerProducts.joined(parts)
        if "nearness" in extractors:
            yield "nearness", InnerProducts.of(self.sets.about_record(trials.model, trials.target), scaled_by=scale)

    def positions(self, trials: IndexArray) -> IndexArray:
        """Return where the sets of some trials are among those of all."""
        k = self.sets.per_model
        return (trials[:, None] * k + np.arange(k)).ravel()

    def judged(
        self,
        products: InnerProducts,
        classifier: Classifier,
        trials: Trials,
        labels: Sequence[BoolArray],
        *,
        cache: dict[int, Fold],
        rng: np.random.Generator,
        progressive: bool = True,
    ) -> list[Judged]:
        """Hold out folds in turn, under several memberships (t,); ``cache`` keeps the components of each.

        Progressive validation (Blum, Kalai and Langford 1999): a fold is judged by what the folds before it taught, and
        the first is learned from only. When each fold is judged by all others, what two folds show of each other is
        counted twice: with nothing to find the variance is then up to twice what it seems, and 95% intervals cover 83%.
        ``progressive=False`` does so, for choices that need no interval.
        """
        k, judged_rows = self.sets.per_model, []
        scores: list[list[FloatArray]] = [[] for _ in labels]
        for fold in trials.folds[1:] if progressive else trials.folds:
            held = np.flatnonzero(trials.fold == fold)
            if fold not in cache:
                known = trials.fold < fold if progressive else trials.fold != fold
                cache[fold] = Fold.of(products, self.positions(np.flatnonzero(known)), self.positions(held))
            judged_rows.append(held)
            for score, member in zip(scores, labels, strict=True):
                score.append(log_odds(cache[fold], classifier, np.repeat(member, k), rng=rng))
        rows = np.concatenate(judged_rows)
        stratum = trials.target[rows] * (int(trials.fold.max()) + 1) + trials.fold[rows]
        return [
            Judged(
                np.concatenate(score),
                np.repeat(member[rows], k),
                np.repeat(trials.model[rows], k),
                np.repeat(stratum, k),
            )
            for score, member in zip(scores, labels, strict=True)
        ]
