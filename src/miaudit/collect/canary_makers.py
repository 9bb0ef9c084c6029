"""What canaries are made of: records with other labels, images of nothing, rows from the tails, random tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.attacks import output_kinds
from miaudit.auditing.near_texts import near
from miaudit.collect.canary_table import behind, joined, keys_of
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.io import frames
from miaudit.models.protocol import Trainable, Traits, traits_of

__all__ = ["blank", "hardest", "invented", "mislabelled", "noise", "tails", "tokens"]

Maker = Callable[[Any, int, np.random.Generator], Any]  # of inputs, a number and a generator: so many new inputs
_ROUNDS = 20  # of drawing again what was there already
_FEW = 20  # distinct numbers up to which a column is taken for codes, of which the rare ones are drawn as often


def mislabelled(records: Records, count: int, rng: np.random.Generator) -> Records:
    """Records drawn at random, with another label drawn uniformly from the distinct ones of the data.

    Those that are there several times come last, since all of them leave for one canary.
    """
    y = np.asarray(records.y)
    values, codes = np.unique(y, axis=0, return_inverse=True)
    codes = codes.reshape(len(y))
    if len(values) < 2:
        raise InputError("canaries.kind", "a kind for one label", "mislabelled", "there is no other label to give")
    order = rng.permutation(records.n)
    others = (codes[order] + rng.integers(1, len(values), records.n)) % len(values)
    keys, there = keys_of(records.x), set[tuple[Any, int]]()
    there.update(zip(keys, codes.tolist(), strict=True))
    times = Counter(keys)
    late = np.argsort([times[keys[row]] > 1 for row in order], kind="stable")
    taken, rows, labels = set[Any](), list[int](), list[int]()
    for row, code in zip(order[late].tolist(), others[late].tolist(), strict=True):
        if keys[row] not in taken and (keys[row], code) not in there:
            taken.add(keys[row])
            rows.append(row)
            labels.append(code)
            if len(rows) == count:
                break
    if len(rows) < count or count >= records.n:
        most = min(len(rows), records.n - 1)
        allowed = f"at most {most:,}, of {records.n:,} records"
        raise InputError("canaries.count", allowed, f"{count:,}", "each takes the place of a record: set fewer")
    chosen = np.array(rows)
    return _of(records, frames.taken(records.x, chosen), values[labels], _fields(records, chosen))


def hardest(
    records: Records, count: int, pool: int, rng: np.random.Generator, reference: Trainable | None, seed: int
) -> Records:
    """The mislabelled records with the largest loss under a model of records that are no candidates."""
    half = records.n // 2
    if count > half:
        hint = "the other half trains the reference model: set fewer"
        raise InputError("canaries.count", f"at most {half:,}, half of the records", f"{count:,}", hint)
    candidates = mislabelled(records, min(half, count * pool), rng)
    target = _default_reference(records) if reference is None else reference
    if target.kind == "signals":
        raise InputError("canaries.kind", "another kind, for a target without outputs of labels", "hard", "mislabelled")
    whole = behind(records, candidates)
    y, canary = np.asarray(whole.y), np.asarray(whole.canary)
    target = target.labelled(y) if isinstance(target, Traits) else target
    x = traits_of(target).prepared(whole.x)
    fitted = target.fit(x, y, np.flatnonzero(~canary), seed=seed)
    canary_rows = np.flatnonzero(canary)
    outputs = np.asarray(target.outputs(fitted, frames.taken(x, canary_rows)))
    loss = -output_kinds.member_scores(target.kind, outputs, y[canary_rows], ["loss"])["loss"]
    selected = np.sort(np.argsort(-loss, kind="stable")[:count])
    return _of(
        candidates,
        frames.taken(candidates.x, selected),
        np.asarray(candidates.y)[selected],
        _fields(candidates, selected),
    )


def _default_reference(records: Records) -> Trainable:
    """A logistic regression of the numbers that go in."""
    y = np.asarray(records.y)
    if not isinstance(records.x, np.ndarray) or y.ndim > 1 or y.dtype.kind not in "iub":
        received = "none, for records that a logistic regression cannot take as they are"
        hint = "give a configuration whose target is trained here"
        raise InputError("canaries.kind", "a reference model, for hard", received, hint)
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    from miaudit.models.targets import SklearnTarget

    flat = FunctionTransformer(_flat)
    return SklearnTarget(make_pipeline(flat, StandardScaler(), LogisticRegression(max_iter=300)), "reference")


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def invented(records: Records, count: int, make: Maker, rng: np.random.Generator) -> Records:
    """Records that no data set holds, with random labels: drawn again where two are alike, or one is there already.

    A text is there if it nearly stands in one.
    """
    there = set(keys_of(records.x))
    canaries: Any = None
    for _ in range(_ROUNDS):
        batch = make(records.x, count, rng)
        fresh = list[int]()
        within = near(batch, records.x) if isinstance(batch, list) else np.full(len(batch), -1)
        for row, key in enumerate(keys_of(batch)):
            if key not in there and within[row] < 0:
                there.add(key)
                fresh.append(row)
        more = frames.taken(batch, np.array(fresh, dtype=np.intp))
        canaries = more if canaries is None else joined(canaries, more)
        if len(canaries) >= count:
            break
    if len(canaries) < count:
        allowed = f"at most {len(canaries):,}, which is how many different ones were found"
        raise InputError("canaries.count", allowed, f"{count:,}", "set fewer, or choose another kind")
    labels = None
    if records.y is not None:
        values = np.unique(records.y, axis=0)
        labels = values[rng.integers(0, len(values), count)]
    return _of(records, frames.taken(canaries, np.arange(count)), labels, {})


def _fields(records: Records, rows: IntArray) -> dict[str, Any]:
    """What is known of some records, but for their units: each canary has a coin of its own."""
    fields = {name: values for name, values in records.fields.items() if name != "unit"}
    return {name: one if name == "covariate_names" else np.asarray(one)[rows] for name, one in fields.items()}


def _of(records: Records, x: Any, labels: NDArray[Any] | None, fields: Mapping[str, Any]) -> Records:
    """Canaries with labels in the numbers of the records' classes."""
    return Records(x, labels, None, fields, "canaries", classes=records.classes)


def _range(values: NDArray[Any]) -> tuple[Any, Any]:
    numbers = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not numbers.size:
        raise InputError("data.x", "numbers, to make canaries of", "none that is finite", "choose another column")
    return numbers.min(), numbers.max()


def _uniform(values: NDArray[Any], shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    """Numbers of the type of the values, uniform in their range."""
    low, high = _range(values)
    if values.dtype.kind in "biu":
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(values.dtype)
    return rng.uniform(low, high, shape).astype(values.dtype)


def blank(x: NDArray[Any], count: int, rng: np.random.Generator, *, shape: tuple[int, ...] = ()) -> NDArray[Any]:
    """Images of one colour each."""
    shape = shape or x.shape[1:]
    axes = [1] * len(shape)
    if len(shape) == 3:  # a colour for each channel, which stand first or last
        channel = 0 if shape[0] <= 4 < shape[2] or shape[0] == 1 else 2
        axes[channel] = shape[channel]
    colours = _uniform(x, (count, *axes), rng)
    return np.broadcast_to(colours, (count, *shape)).reshape(count, *x.shape[1:])


def noise(x: NDArray[Any], count: int, rng: np.random.Generator, *, law: str = "uniform") -> NDArray[Any]:
    """Arrays of independent numbers, uniform in the range of all, or Gaussian with their mean."""
    shape = (count, *x.shape[1:])
    if law == "uniform":
        return _uniform(x, shape, rng)
    low, high = _range(x)
    values = x[np.isfinite(x)] if x.dtype.kind == "f" else x
    numbers = np.clip(rng.normal(values.mean(), values.std(), shape), low, high)
    return (np.round(numbers) if x.dtype.kind in "biu" else numbers).astype(x.dtype)


def tails(x: Any, count: int, rng: np.random.Generator) -> Any:
    """Rows of independent columns, each from its tails."""
    if not frames.is_frame(x):
        return np.stack([_tail(x[:, i], count, rng) for i in range(x.shape[1])], axis=1)
    columns = {}
    for name in x.columns:
        column = x[name]
        if column.dtype.kind in "biuf" and isinstance(column.dtype, np.dtype):
            columns[name] = _tail(column.to_numpy(), count, rng)
        else:
            distinct = column.drop_duplicates()
            columns[name] = distinct.iloc[rng.integers(0, len(distinct), count)].reset_index(drop=True)
    return type(x)(columns)


def _tail(values: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Values in the outer twentieths of a column, or as far beyond; each of few values as often as any other."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    distinct = np.unique(finite)
    if not len(distinct):
        return np.full(count, np.nan, dtype=values.dtype)
    if len(distinct) <= _FEW or values.dtype.kind == "b":
        return distinct[rng.integers(0, len(distinct), count)]
    low, high = np.quantile(finite, [0.05, 0.95])
    least, most = float(distinct[0]), float(distinct[-1])
    bottom = max(0.0, 2 * least - low) if least >= 0 else 2 * least - low  # no sign that the column never has
    tail = np.where(rng.random(count) < 0.5, rng.uniform(bottom, low, count), rng.uniform(high, 2 * most - high, count))
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        tail = np.clip(np.round(tail), limits.min, limits.max)
    return tail.astype(values.dtype)


def tokens(x: Any, count: int, rng: np.random.Generator) -> Any:
    """Texts of words, or rows of token numbers, drawn uniformly."""
    if not isinstance(x, list):
        distinct = np.unique(x)
        return distinct[rng.integers(0, len(distinct), (count, *x.shape[1:]))]
    words = sorted({word for text in x for word in text.split()})
    if len(words) < 2:
        raise InputError("data.text", "two different words or more", str(len(words)), "choose another kind")
    lengths = [max(1, len(x[row].split())) for row in rng.integers(0, len(x), count)]
    return [" ".join(words[i] for i in rng.integers(0, len(words), length)) for length in lengths]
