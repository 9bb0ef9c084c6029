"""What attacks of the registry may need, made from what the models said when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IntArray
from miaudit.attacks import lira, registry, signals
from miaudit.collect.campaign import Campaign
from miaudit.collect.memberships import Draws
from miaudit.collect.queries import Asked
from miaudit.errors import InputError
from miaudit.models.shadow import ShadowOutputs

_WORDS = {"logits": "logit-scaled confidence", "predictions": "negative squared error"}


@dataclass(frozen=True, eq=False)
class Inputs:
    """What attacks of the registry may need, made when it is asked for."""

    campaign: Campaign
    draws: Draws
    asked: Asked
    columns: tuple[str, ...]

    def score(self, name: str) -> FloatArray:
        """Score the audited records (a,) by one attack."""
        attack = registry.get(name)
        inputs = {need: self._input(need, attack.statistic) for need in attack.needs}
        found = attack.score(inputs, rng=self.draws.rng)
        if np.shape(found) != self.draws.rows.shape:
            allowed = f"one score for each of {len(self.draws.rows):,} records"
            raise InputError(f"scores of {name}", allowed, f"shape {np.shape(found)}", "return an array (n,)")
        return found

    def notes(self, names: Iterable[str]) -> list[str]:
        """What is to be said of the shadow statistics."""
        names = list(names)
        likelihoods = [variance for name in names if (variance := registry.get(name).gaussian) is not None]
        if self.asked.runs:
            return self._notes_of_runs(likelihoods)
        shadows = self.asked.shadows or self.asked.pooled
        if shadows is None:
            return []
        given = self.campaign.shadows.given
        count = f"{shadows.models} shadow model{'' if shadows.models == 1 else 's'}"
        notes = [f"{count}, each trained on a random half of the audited records."]
        if given is not None:
            whose = "the audited records" if self.asked.shadows is not None else f"{given.n:,} other records"
            notes = [f"{count} trained elsewhere, with outputs on {whose}, from {given.source}."]
        return [*notes, *self._health(likelihoods, self._input("included", ""))] if likelihoods else notes

    @property
    def signal(self) -> tuple[str, Callable[[], Float32Array]]:
        """The statistic that shows membership best, in words, and a function of the audited records' (a, M)."""
        kind = self.campaign.target.kind
        words = _WORDS.get(kind, self._column() if kind == "signals" else kind)
        return words, lambda: self._shadow_statistic("logit_confidence")[self.draws.rows]

    def _notes_of_runs(self, likelihoods: list[registry.Variance]) -> list[str]:
        a = len(self.draws.rows)
        notes = [f"{a:,} models, one for each audited record."]
        if not likelihoods:
            return notes
        said = f"LiRA compares each record's own model with the {a - 1:,} of the other records, which never learned it."
        return [*notes, said, *self._health(likelihoods, None)]

    def _health(self, likelihoods: list[registry.Variance], included: BoolArray | None) -> list[str]:
        variance: registry.Variance = "record" if "record" in likelihoods else "global"
        statistic = self._shadow_statistic("logit_confidence")[self.draws.rows]
        if self.asked.runs:  # without each record's own model
            statistic = statistic[~np.eye(len(statistic), dtype=np.bool_)].reshape(len(statistic), -1)
        state = lira.health(statistic, included, variance=variance)
        return [f"LiRA: {state.note}."] if state.note else []

    def _input(self, need: str, statistic: str) -> Any:
        rows, population, y = self.draws.rows, self.draws.population, self.draws.y
        makers: Mapping[str, Callable[[], Any]] = {
            "target": lambda: self._statistic(self.asked.outputs, statistic)[rows],
            "shadow": lambda: self._shadow_statistic(statistic)[rows],
            "included": lambda: self._shadows.included.T[rows],
            "population": lambda: self._statistic(self.asked.outputs, statistic)[population],
            "population_shadow": lambda: self._shadow_statistic(statistic)[population],
            "features": lambda: self._features()[rows],
            "population_features": lambda: self._features()[population],
            "logits": lambda: np.asarray(self.asked.outputs)[rows],
            "labels": lambda: y[rows],
            "probabilities": lambda: _probabilities(self.asked.outputs)[rows],
            "shadow_probabilities": lambda: np.stack([self._shadow_probabilities(m) for m in self._models], axis=1),
            "confidence": lambda: _own_class(_probabilities(self.asked.outputs)[rows], y[rows]),
            "shadow_confidence": lambda: np.stack(
                [_own_class(self._shadow_probabilities(m), y[rows]) for m in self._models], axis=1
            ),
            "shadow_logits": lambda: np.concatenate([values for values, _, _ in self._pooled()]),
            "shadow_labels": lambda: np.concatenate([labels for _, labels, _ in self._pooled()]),
            "shadow_member": lambda: np.concatenate([member for _, _, member in self._pooled()]),
            "correct": lambda: self._correct()[rows],
            "shadow_correct": lambda: np.stack([self._shadow_correct(m) for m in self._models], axis=1),
            "pooled_correct": lambda: np.concatenate(self._pooled_correct()),
            "pooled_member": lambda: np.concatenate([member for _, _, member in self._pooled()]),
        }
        if need not in makers:
            raise InputError("attack.type", "an attack that a configuration can feed", need, "use it from Python")
        return makers[need]()

    @property
    def _shadows(self) -> ShadowOutputs:
        if self.asked.shadows is None:
            raise InputError("shadow.models", "shadow models", "none", "add shadow: {models: 16}")
        return self.asked.shadows

    @property
    def _models(self) -> range:
        return range(self._shadows.models)

    def _pooled(self) -> Iterable[tuple[Float32Array, NDArray[Any], BoolArray]]:
        """Outputs, labels and memberships of each shadow model: on the audited records, or on those that were given."""
        whole = self.asked.pooled
        if whole is not None:
            return ((np.asarray(whole.model(m)), whole.labels, whole.included[m]) for m in range(whole.models))
        rows, y, shadows = self.draws.rows, self.draws.y, self._shadows
        return ((np.asarray(shadows.model(m))[rows], y[rows], shadows.included[m, rows]) for m in self._models)

    # -- statistics ---------------------------------------------------------------------------------------------------

    def _statistic(self, outputs: NDArray[Any], statistic: str) -> FloatArray:
        """The statistic of all n records under one model; higher for members."""
        values = np.asarray(outputs)
        kind = self.campaign.target.kind
        if kind == "signals":
            return values[:, self.columns.index(self._column())].astype(np.float64)
        if kind == "predictions":
            return -squared_error(values, self.draws.y)
        name = "loss" if statistic == "log_probability" else "logit_confidence"
        return signals.member_scores(labels=self.draws.y, logits=values, names=[name])[name]

    def _column(self) -> str:
        return "loss" if "loss" in self.columns else self.columns[0]

    def _shadow_statistic(self, statistic: str) -> Float32Array:
        if len(self._shadows.shape) == 1:  # signals that were given
            return self._shadows.signal("loss" if statistic == "log_probability" else "logit_confidence")
        return self._shadows.signal(lambda outputs, _: self._statistic(outputs, statistic))

    def _shadow_probabilities(self, model: int) -> FloatArray:
        """Probabilities of one shadow model on the audited records (a, C)."""
        return _probabilities(self._shadows.model(model))[self.draws.rows]

    def _features(self) -> FloatArray:
        """What is known of a record without its membership: covariates, else the numbers that go into the model."""
        covariates = self.campaign.records.fields.get("covariates")
        values = covariates if covariates is not None else self.campaign.records.x
        if isinstance(values, list):
            raise InputError("data.covariates", "columns of numbers, for quantile regression", "none", "name them")
        return np.asarray(values, dtype=np.float64).reshape(len(values), -1)

    # -- labels alone -------------------------------------------------------------------------------------------------

    def _correct(self) -> BoolArray:
        """Whether the model is right on each record and on its copies (n, 1 + k)."""
        y, copies = self.draws.y, self.asked.copies
        right: BoolArray = (np.asarray(self.asked.outputs).argmax(axis=1) == y)[:, None]
        return right if copies is None else np.concatenate([right, _classes(copies, len(y)) == y[:, None]], axis=1)

    def _shadow_correct(self, model: int) -> BoolArray:
        """The same of one shadow model on the audited records (a, 1 + k)."""
        rows, y, copies = self.draws.rows, self.draws.y, self.asked.shadow_copies
        right = (np.asarray(self._shadows.model(model)).argmax(axis=1) == y)[:, None]
        if copies is not None:
            said = np.asarray(copies.model(model)).argmax(axis=1).reshape(len(y), -1)
            right = np.concatenate([right, said == y[:, None]], axis=1)
        found: BoolArray = right[rows]
        return found

    def _pooled_correct(self) -> list[BoolArray]:
        if self.asked.pooled is None:
            return [self._shadow_correct(m) for m in self._models]
        return [(values.argmax(axis=1) == labels)[:, None] for values, labels, _ in self._pooled()]


def _probabilities(outputs: NDArray[Any]) -> FloatArray:
    """Logits, or logarithms of probabilities, (n, C) as probabilities."""
    found: FloatArray = special.softmax(np.asarray(outputs, dtype=np.float64), axis=1)
    return found


def _own_class(probabilities: FloatArray, labels: NDArray[Any]) -> FloatArray:
    found: FloatArray = probabilities[np.arange(len(labels)), labels]
    return found


def squared_error(outputs: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    """Squared errors (n,) of predictions (n, 1)."""
    found: FloatArray = (outputs[:, 0].astype(np.float64) - y.astype(np.float64)) ** 2
    return found


def _classes(copies: NDArray[Any], n: int) -> IntArray:
    """The class (n, k) that was predicted for each copy, from classes (n, k) or outputs (n, k, C)."""
    if copies.shape[:1] != (n,) or copies.ndim not in (2, 3) or (copies.ndim == 2 and copies.dtype.kind not in "iu"):
        allowed = f"predicted classes ({n}, k), or outputs ({n}, k, C)"
        received = f"{copies.dtype} of shape {copies.shape}"
        raise InputError("data.copies", allowed, received, "what the model said of k copies of every record")
    return copies.astype(np.int64) if copies.ndim == 2 else copies.argmax(axis=2)
