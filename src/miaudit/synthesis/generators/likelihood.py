"""Records as numbers that a network reads, and the likelihood of records under its outputs.

A binary or ordinal column of k levels is read as k - 1 bits "above level j", and its law is that of successive
Bernoulli draws (continuation ratios), which respects the order. A categorical column is read as indicators, with a
softmax for its law. A continuous column is read on [-1, 1], its law is a normal whose mass outside the range falls on
the two ends (a censored normal). What is missing is read as 0 beside a bit that says so, and takes no part in the
likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from miaudit.arrays import Float32Array, FloatArray, IntArray
from miaudit.synthesis.schema import Column, Schema

# The least standard deviation of a continuous column, on [-1, 1]: without one the density has no upper limit.
LEAST_SCALE = 0.01
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Encoding:
    """How the columns of a schema become features and outputs.

    Features and outputs both start with the bits of binary and ordinal columns. Then features have continuous columns,
    indicators of categories and, of columns that may lack values, a bit for "present"; outputs have bits for "present"
    (if missing values are drawn), means, raw scales and logits of categories.

    Attributes
    ----------
    schema : the columns
    draws_missing : whether "present" is modelled, so that synthetic records have missing values too

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> mixed = Schema((Column("a"), Column("b", "ordinal", categories=(1, 2, 3), missing=True),
    ...     Column("c", "continuous", low=0, high=10), Column("d", "categorical", categories=("x", "y"))))
    >>> encoding = Encoding(mixed)
    >>> encoding.encode(np.array([[1.0, 1.0, 5.0, 0.0], [0.0, np.nan, 0.0, 1.0]]))
    array([[ 1.,  1.,  0.,  0.,  1.,  0.,  1.],
           [ 0.,  0.,  0., -1.,  0.,  1.,  0.]], dtype=float32)
    >>> encoding.outputs  # one logit, two continuation ratios, a mean and a scale, two logits
    7
    """

    schema: Schema
    draws_missing: bool = False

    @cached_property
    def _of_kind(self) -> dict[str, list[int]]:
        kinds: dict[str, list[int]] = {"bits": [], "continuous": [], "categorical": [], "missing": []}
        for i, column in enumerate(self.schema.columns):
            kinds[column.kind if column.kind in kinds else "bits"].append(i)
            if column.missing:
                kinds["missing"].append(i)
        return kinds

    @cached_property
    def _feature_starts(self) -> tuple[dict[int, int], dict[int, int], int]:
        """Where each column's features start, where its "present" bit is, and how many features there are."""
        starts: dict[int, int] = {}
        at = 0
        for kind in ("bits", "continuous", "categorical"):
            for i in self._of_kind[kind]:
                starts[i] = at
                at += feature_count(self.schema.columns[i])
        present = {i: at + j for j, i in enumerate(self._of_kind["missing"])}
        return starts, present, at + len(present)

    @cached_property
    def bits(self) -> int:
        """How many bits binary and ordinal columns have together."""
        return sum(self.schema.columns[i].levels - 1 for i in self._of_kind["bits"])

    @cached_property
    def modelled_missing(self) -> tuple[int, ...]:
        """The columns whose missing values are drawn."""
        return tuple(self._of_kind["missing"]) if self.draws_missing else ()

    @property
    def features(self) -> int:
        """How many numbers the network reads of a record."""
        return self._feature_starts[2]

    @cached_property
    def outputs(self) -> int:
        """How many numbers the network returns for a record."""
        categories = sum(self.schema.columns[i].levels for i in self._of_kind["categorical"])
        return self.bits + len(self.modelled_missing) + 2 * len(self._of_kind["continuous"]) + categories

    def features_of(self, columns: Iterable[int]) -> list[int]:
        """Return the positions of the features of some columns."""
        starts, present, _ = self._feature_starts
        positions: list[int] = []
        for i in columns:
            positions.extend(range(starts[i], starts[i] + feature_count(self.schema.columns[i])))
            if i in present:
                positions.append(present[i])
        return positions

    def values_of(self, columns: Iterable[int]) -> list[tuple[int, int, bool]]:
        """Return position, position of "present" (-1: always) and whether it is a bit, of each feature with a value.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column
        >>> columns = (Column("a", missing=True), Column("b", "continuous", low=0, high=1))
        >>> Encoding(Schema(columns)).values_of([0, 1])
        [(0, 2, True), (1, -1, False)]
        """
        starts, present, _ = self._feature_starts
        return [
            (starts[i] + j, present.get(i, -1), self.schema.columns[i].kind != "continuous")
            for i in columns
            for j in range(feature_count(self.schema.columns[i]))
        ]

    def outputs_of(self, columns: Iterable[int]) -> list[int]:
        """Return the positions of the outputs of some columns."""
        positions: list[int] = []
        for i in columns:
            positions.extend(self._own_outputs[i])
            if i in self.modelled_missing:
                positions.append(self.bits + self.modelled_missing.index(i))
        return positions

    @cached_property
    def _own_outputs(self) -> dict[int, list[int]]:
        starts, _, _ = self._feature_starts
        continuous = self._of_kind["continuous"]
        means = self.bits + len(self.modelled_missing)
        at = means + 2 * len(continuous)
        by_name = {
            i: list(range(starts[i], starts[i] + self.schema.columns[i].levels - 1)) for i in self._of_kind["bits"]
        }
        by_name |= {i: [means + j, means + len(continuous) + j] for j, i in enumerate(continuous)}
        for i in self._of_kind["categorical"]:
            by_name[i] = list(range(at, at + self.schema.columns[i].levels))
            at += self.schema.columns[i].levels
        return by_name

    def encode(self, values: FloatArray, *, columns: Iterable[int] | None = None) -> Float32Array:
        """Return the features (n, features) of records (n, d); with ``columns``, those of other columns are 0."""
        starts, present, count = self._feature_starts
        features = np.zeros((len(values), count), dtype=np.float32)
        for i in range(len(self.schema)) if columns is None else columns:
            column, own = self.schema.columns[i], values[:, i]
            seen = ~np.isnan(own)
            at = starts[i]
            if column.kind == "continuous":
                features[:, at] = np.where(seen, _to_unit(own, column), 0.0)
            elif column.kind == "categorical":
                features[np.flatnonzero(seen), at + own[seen].astype(np.int64)] = 1.0
            elif column.levels == 2:
                features[:, at] = np.where(seen, own, 0.0)
            else:
                # comparisons with NaN are false, so a missing value has no bit set
                features[:, at : at + column.levels - 1] = own[:, None] > np.arange(column.levels - 1)
            if i in present:
                features[:, present[i]] = seen
        return features

    @cached_property
    def _weight_of_bit(self) -> IntArray:
        """For each bit the feature that says whether it takes part: the bit below, "present", or -1 for always."""
        _, present, _ = self._feature_starts
        features: list[int] = []
        for i in self._of_kind["bits"]:
            first = present.get(i, -1)
            start = len(features)
            features += [first, *range(start, start + self.schema.columns[i].levels - 2)]
        return np.array([*features, *[-1] * len(self.modelled_missing)], dtype=np.int64)

    @cached_property
    def _target_of_bit(self) -> IntArray:
        _, present, _ = self._feature_starts
        return np.array([*range(self.bits), *(present[i] for i in self.modelled_missing)], dtype=np.int64)

    def log_likelihood(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Return log p (...) of records under the outputs of the network, for all columns together.

        Parameters
        ----------
        outputs : (..., outputs)
        features : (..., features), of :meth:`encode`; missing values take no part
        """
        total = torch.zeros(outputs.shape[:-1], dtype=outputs.dtype, device=outputs.device)
        count = len(self._target_of_bit)
        if count:
            logits = outputs[..., :count]
            losses = F.softplus(logits) - logits * self._targets(features)
            if (self._weight_of_bit >= 0).any():
                losses = losses * _picked_or_one(features, self._weight_of_bit)
            total = total - losses.sum(-1)
        return total + self._without_bits(outputs, features)

    def _without_bits(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Return the part of the log-likelihood that continuous and categorical columns have."""
        total = torch.zeros(outputs.shape[:-1], dtype=outputs.dtype, device=outputs.device)
        if self._of_kind["continuous"]:
            total = total + self._continuous(outputs, features)
        for i in self._of_kind["categorical"]:
            start, own = self._feature_starts[0][i], self._own_outputs[i]
            chosen = features[..., start : start + len(own)]
            total = total + (torch.log_softmax(outputs[..., own[0] : own[-1] + 1], -1) * chosen).sum(-1)
        return total

    def slopes(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Return the derivative (..., outputs) of minus :meth:`log_likelihood` with respect to the outputs.

        Of bits it is the probability less the bit, which costs a quarter of what autograd takes for it.
        """
        count = len(self._target_of_bit)
        if count == self.outputs and count == self.bits:
            return self._bit_slopes(outputs, features)
        slopes = torch.empty_like(outputs)
        if count:
            slopes[..., :count] = self._bit_slopes(outputs[..., :count], features)
        if self.outputs > count:
            with torch.enable_grad():
                rest = outputs[..., count:].clone().requires_grad_()
                total = self._without_bits(torch.cat([outputs[..., :count], rest], -1), features)
                (slopes[..., count:],) = torch.autograd.grad(-total.sum(), [rest])
        return slopes

    def _bit_slopes(self, logits: Tensor, features: Tensor) -> Tensor:
        slopes = torch.sigmoid(logits).sub_(self._targets(features))
        if (self._weight_of_bit >= 0).any():
            slopes *= _picked_or_one(features, self._weight_of_bit)
        return slopes

    def _targets(self, features: Tensor) -> Tensor:
        """Return the bits (..., bits) that are modelled, as the features have them."""
        count = len(self._target_of_bit)
        return features[..., :count] if count == self.bits else _picked(features, self._target_of_bit)

    def _continuous(self, outputs: Tensor, features: Tensor) -> Tensor:
        means, raw, target, seen = self._continuous_index
        x, mean = features[..., target], outputs[..., means]
        scale = _scale(outputs[..., raw])
        standard = (x - mean) / scale
        inside = -0.5 * standard.square() - scale.log() - _HALF_LOG_2PI
        below = torch.special.log_ndtr(standard)
        above = torch.special.log_ndtr(-standard)
        log_density = torch.where(x <= -1, below, torch.where(x >= 1, above, inside))
        if (seen >= 0).any():
            log_density = log_density * _picked_or_one(features, seen)
        return log_density.sum(-1)

    @cached_property
    def _continuous_index(self) -> tuple[slice, slice, slice, IntArray]:
        """Where means, raw scales and values of continuous columns stand, and their "present" bits."""
        starts, present, _ = self._feature_starts
        own = self._of_kind["continuous"]
        at, target = self.bits + len(self.modelled_missing), starts[own[0]]
        seen = np.array([present.get(i, -1) for i in own], dtype=np.int64)
        means, raw = slice(at, at + len(own)), slice(at + len(own), at + 2 * len(own))
        return means, raw, slice(target, target + len(own)), seen

    def draw(self, outputs: FloatArray, columns: Iterable[int], *, rng: np.random.Generator) -> FloatArray:
        """Draw outcomes (n, len(columns)) of some columns, never probabilities or means; NaN where drawn as missing.

        Parameters
        ----------
        outputs : (n, outputs); only the outputs of these columns are read
        """
        wanted = list(columns)
        outcomes = np.empty((len(outputs), len(wanted)))
        kinds = [(column.levels, column.kind == "categorical") for column in (self.schema.columns[i] for i in wanted)]
        binary = [j for j, (levels, categorical) in enumerate(kinds) if levels == 2 and not categorical]
        if binary:
            logits = outputs[:, [self._own_outputs[wanted[j]][0] for j in binary]]
            outcomes[:, binary] = _bernoulli(logits, rng)
        for j, i in enumerate(wanted):
            column, own = self.schema.columns[i], self._own_outputs[i]
            if column.kind == "continuous":
                unit = outputs[:, own[0]] + _numpy_scale(outputs[:, own[1]]) * rng.standard_normal(len(outputs))
                outcomes[:, j] = _from_unit(np.clip(unit, -1, 1), column)
            elif column.kind == "categorical":
                # the largest of logits with Gumbel noise is a draw from their softmax
                outcomes[:, j] = (outputs[:, own] + rng.gumbel(size=(len(outputs), len(own)))).argmax(1)
            elif column.levels > 2:
                outcomes[:, j] = np.cumprod(_bernoulli(outputs[:, own], rng), axis=1).sum(1)
            if i in self.modelled_missing:
                present = _bernoulli(outputs[:, self.bits + self.modelled_missing.index(i)], rng)
                outcomes[present == 0, j] = np.nan
        return outcomes


def feature_count(column: Column) -> int:
    """Return how many numbers a network reads of a column, without the one for "present"."""
    if column.kind == "continuous":
        return 1
    return column.levels if column.kind == "categorical" else column.levels - 1


def _to_unit(values: FloatArray, column: Column) -> FloatArray:
    assert column.low is not None and column.high is not None  # noqa: S101 - by its check
    return 2 * (values - column.low) / (column.high - column.low) - 1


def _from_unit(unit: FloatArray, column: Column) -> FloatArray:
    assert column.low is not None and column.high is not None  # noqa: S101 - by its check
    # at the ends exactly the ends, so that no value leaves the range by rounding
    inside = column.low + (unit + 1) / 2 * (column.high - column.low)
    return np.where(unit <= -1, column.low, np.where(unit >= 1, column.high, np.clip(inside, column.low, column.high)))


def _picked_or_one(features: Tensor, positions: IntArray) -> Tensor:
    """Return the features at these positions; 1 at position -1."""
    return _picked(F.pad(features, (0, 1), value=1.0), positions)


def _picked(features: Tensor, positions: IntArray) -> Tensor:
    return features[..., torch.from_numpy(positions).to(features.device)]


def _scale(raw: Tensor) -> Tensor:
    return F.softplus(raw) + LEAST_SCALE


def _numpy_scale(raw: FloatArray) -> FloatArray:
    scale: FloatArray = np.logaddexp(0.0, raw) + LEAST_SCALE
    return scale


def _bernoulli(logits: FloatArray, rng: np.random.Generator) -> FloatArray:
    chances = 0.5 * (1 + np.tanh(0.5 * logits))  # the logistic function, without overflow
    return (rng.random(logits.shape) < chances).astype(np.float64)
