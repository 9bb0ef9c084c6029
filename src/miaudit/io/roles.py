"""What each column of a file could be in an audit: guesses, of names and of the first rows, with the reason for each.

Nothing here reads scores beside membership: a direction that follows from who is a member would be an audit of itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError
from miaudit.io import cells
from miaudit.io.array_heads import array_heads
from miaudit.io.labels import MEMBER_WORDS
from miaudit.io.profile import head, profile
from miaudit.io.secret_names import left_out, looks_secret, words
from miaudit.io.tables import to_numpy

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Roles", "Seen", "Signal", "find", "look", "of_training", "saved", "signal_of", "units_of"]

Kind = Literal["score", "loss", "logits", "probabilities", ""]
TABLES, ARRAYS = (".csv", ".parquet"), (".npz", ".npy")
ROWS = 20_000
NUMBERS = 2_000_000  # of one column with several numbers in each row
_MOST = 200  # columns that are proposed as covariates, or looked at for it
_LEVELS = 10  # of a group
_SUMS = 1e-3
_LOSSES = re.compile(r"loss(es)?|nll|xent|crossentropy|perplexity|ppl|bce|logloss")
_SCORES = re.compile(r"scores?|confidence|conf|margin|loglik|logprob|loglikelihood|lira|rmia|mia|attack|statistic")
_NEGATIVE = {"neg", "negative", "negated", "minus"}
_LOGITS, _PROBABILITIES = (
    {"logit", "logits"},
    {"prob", "probs", "proba", "probability", "probabilities", "softmax", "p"},
)
_OUTPUTS = _LOGITS | _PROBABILITIES | {"output", "outputs", "pred", "preds", "prediction", "predictions", "scores"}
_REFERENCE = {"ref", "reference", "references"}
_MEMBERS = {"member", "members", "membership", "ismember"}
_TRAINED = re.compile(
    r"((is|was|used|in)_)*(in|train|training|trained|trained_on|seen|included|(train|training)_(set|data))"
)
_SPLITS = {"split", "set", "subset", "partition", "fold"}
_OUTSIDE = re.compile(
    r"non|not|no|un|nonmembers?|out|test|tested|testing|holdout|heldout|held|unseen|val|valid|excluded"
)
_LABELS = {
    "label",
    "labels",
    "y",
    "y_true",
    "true_label",
    "target",
    "targets",
    "class",
    "cls",
    "classes",
    "ground_truth",
}
_UNITS = re.compile(
    r"(.*_)?(units?|persons?|users?|patients?|subjects?|customers?|clients?|households?|participants?|individuals?|"
    r"speakers?|authors?|employees?|students?|respondents?|family|families|owner|contributor|device)"
    r"(_(id|ids|no|nr|number|key|code|uuid))?"
)
_NAMED = {"text": "text", "run": "run", "propensity": "propensity"}  # that audits know by their names


class Seen(NamedTuple):
    """A column: how many rows there are, None where that is the same for all, and the first ones, if they are plain."""

    name: str
    rows: int | None
    values: NDArray[Any] | None


@dataclass(frozen=True)
class Signal:
    """Columns that may be what a model, or an attack, says of each record.

    Attributes
    ----------
    columns : one, or one for each class
    kind : "score", "loss", "logits" or "probabilities"; empty where that cannot be told
    why : what speaks for it, or what could not be told
    rows : of an array; None in a table
    """

    columns: tuple[str, ...]
    kind: Kind
    why: str
    rows: int | None = None

    @property
    def name(self) -> str:
        """As an option takes it."""
        return ",".join(self.columns)


@dataclass(frozen=True)
class Roles:
    """What the columns of a file could be; several of one role where names do not decide.

    Attributes
    ----------
    signals, members : candidates, those of membership with a reason each
    refused : columns that are named as membership, or its opposite, and cannot be read as it; ``doubts`` say why
    binary : other columns of two values, which only their owner can tell to be membership
    numbers : other columns of numbers, which may be scores
    units, labels : names of columns; units have repeated values
    groups, covariates, categories : names of columns that may be named so, the last ones of texts
    named : columns that audits know by their names: text, run, propensity, reference scores
    doubts : what could not be told, or stands in the way, a sentence each
    columns : how many there are
    complete : whether all rows were looked at
    lengths : rows of each array, empty for a table
    """

    signals: tuple[Signal, ...]
    members: dict[str, str]
    refused: tuple[str, ...]
    binary: tuple[str, ...]
    numbers: tuple[str, ...]
    units: tuple[str, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    covariates: tuple[str, ...]
    categories: tuple[str, ...]
    named: tuple[str, ...]
    doubts: tuple[str, ...]
    columns: int
    complete: bool
    lengths: dict[str, int]


def look(path: str | Path, argument: str = "file") -> tuple[list[Seen], list[str], bool]:
    """Return the columns of a file without those whose names look like secrets, all names, and whether all was seen.

    Parameters
    ----------
    path : .csv, .parquet, .npz or .npy; its first rows are read, and no more

    Raises
    ------
    InputError
        If it cannot be read.
    """
    path = Path(path)
    if path.suffix.lower() in ARRAYS:
        heads = array_heads(path, NUMBERS, argument)
        arrays = [Seen(name, rows, None if v is None else v[:ROWS]) for name, (rows, v) in heads.items()]
        complete = all(one.values is not None and len(one.values) == one.rows for one in arrays)
        return [one for one in arrays if not looks_secret(one.name)], list(heads), complete
    frame, rows = head(path, argument, ROWS + 1, counted=False)
    seen = [Seen(c.name, None, _plain(c)) for c in frame.head(ROWS) if not looks_secret(c.name)]
    return seen, frame.columns, rows <= ROWS


def find(path: str | Path, argument: str = "file") -> Roles:
    r"""Guess what each column of a .csv, .parquet or .npz file could be in an audit.

    Parameters
    ----------
    path : of a table, of which the first rows are looked at

    Raises
    ------
    InputError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("member,loss,person,age\n1,0.2,a,31\n0,1.4,b,45\n1,0.3,a,52\n0,0.9,c,40\n")
    ...     roles = find(file)
    >>> roles.members, roles.signals[0].kind, roles.units
    ({'member': 'by its name; it holds 0 and 1'}, 'loss', ('person',))
    """
    seen, names, complete = look(path, argument)
    if not seen:
        received = left_out(names) or "none"
        raise InputError(
            argument, "columns whose names may be shown", received, "rename those that an audit is to read"
        )
    by_name = {one.name: one for one in seen}
    members, refused = _members(seen, complete)
    signals = _signals(seen, members, complete)
    rest = _Rest.of(seen, {*members, *(name for signal in signals for name in signal.columns)})
    texts = list(filter(None, map(_as_text, rest.columns)))
    unnamed = rest.without({*refused, *rest.named})
    other = [one for one in unnamed if one.name not in (*rest.labels, *rest.units) and one.values is not None]
    secret = left_out(names)
    doubts = (
        *refused.values(),
        *(doubt for signal in signals for doubt in _unusable(signal, by_name)),
        *texts,
        *([secret] if secret else []),
        *([f"of other columns the first {_MOST} were looked at"] if len(other) > _MOST else []),
    )
    return Roles(
        signals=tuple(signals),
        members={name: why + _as_far(by_name[name], complete) for name, why in members.items()},
        refused=tuple(refused),
        binary=tuple(one.name for one in unnamed if two_values(one.values)),
        numbers=tuple(one.name for one in other if _is_real(one) and not texts),
        units=rest.units,
        labels=rest.labels,
        **_described(other, rest.labels),
        named=rest.named,
        doubts=doubts,
        columns=len(names),
        complete=complete,
        lengths={one.name: one.rows for one in seen if one.rows is not None},
    )


def _signals(seen: Sequence[Seen], members: Mapping[str, str], complete: bool) -> list[Signal]:
    """Return columns that may be outputs or scores: families of columns, then single ones that are no membership."""
    by_name, families = {one.name: one for one in seen}, _families(seen)
    single = [one for one in seen if one.name not in {*members, *(name for family in families for name in family)}]
    candidates = [*(_of_family([by_name[name] for name in family]) for family in families), *map(signal_of, single)]
    return [
        replace(one, why=one.why + _as_far(by_name[one.columns[0]], complete)) for one in candidates if one is not None
    ]


class _Rest(NamedTuple):
    """The columns that are neither a signal nor membership, with the names of labels, of units and of known columns."""

    columns: tuple[Seen, ...]
    labels: tuple[str, ...]
    units: tuple[str, ...]
    named: tuple[str, ...]

    @classmethod
    def of(cls, seen: Sequence[Seen], used: set[str]) -> _Rest:
        """Sort the columns that are not used yet."""
        columns = tuple(one for one in seen if one.name not in used)
        labels = tuple(one.name for one in columns if _is_label(one))
        units = tuple(one.name for one in columns if one.name not in labels and _is_unit(one))
        named = tuple(one.name for one in columns if one.name in _NAMED or _REFERENCE & set(words(one.name)))
        return cls(columns, labels, units, named)

    def without(self, names: set[str]) -> list[Seen]:
        """Return the columns that have other names."""
        return [one for one in self.columns if one.name not in names]


def of_training(path: str | Path) -> frozenset[str]:
    """Return the columns of a table that by their names are membership, or what a model or an attack says of a record.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if Path(path).suffix.lower() not in (*TABLES, *ARRAYS):
        return frozenset()
    seen, _, complete = look(path)
    members, refused = _members(seen, complete)
    signals = _signals(seen, members, complete)
    opposites = (one.name for one in seen if one.name in refused and two_values(one.values))
    return frozenset({*members, *opposites, *(name for signal in signals for name in signal.columns)})


def saved(field: Literal["score", "covariate"], names: Sequence[str]) -> list[str]:
    """Return the columns that evidence is saved with: of scores, or of covariates.

    Examples
    --------
    >>> saved("score", ["score.loss", "member", "score"]), saved("covariate", ["covariates", "covariate.age", "age"])
    (['score.loss', 'score'], ['covariates', 'covariate.age'])
    """
    whole = {"score": "score", "covariate": "covariates"}[field]
    return [name for name in names if name == whole or name.startswith(f"{field}.")]


def units_of(path: str | Path) -> tuple[str, ...]:
    """Return the columns of a table that seem to say whose a record is, and repeat in its first rows.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    return tuple(one.name for one in look(path)[0] if _is_unit(one))


def signal_of(one: Seen) -> Signal | None:
    """Return the signal that a column may be by its name and its values; None for another column.

    Examples
    --------
    >>> signal_of(Seen("loss", None, np.array([0.1, 2.0]))).kind, signal_of(Seen("age", None, np.array([30, 40])))
    ('loss', None)
    >>> signal_of(Seen("neg_loss", None, np.array([-0.1, -2.0]))).kind
    'score'
    """
    parts, values = set(words(one.name)), one.values
    if _REFERENCE & parts or values is None or values.dtype.kind not in "iuf":
        return None
    if values.ndim == 2:
        kind, why = _of_outputs(parts, values)
        return Signal((one.name,), kind, why, one.rows) if why else None
    joined = "_".join(words(one.name))
    if one.name.startswith("score."):
        return Signal((one.name,), "score", "evidence, as miaudit writes it", one.rows)
    loss = any(map(_LOSSES.fullmatch, parts)) or "cross_entropy" in joined
    score = any(map(_SCORES.fullmatch, parts)) or "log_likelihood" in joined
    if not loss and not score:
        unclear = "one number for each record: say whether it is of the record's own class, which would be a score"
        return Signal((one.name,), "", unclear, one.rows) if parts & (_LOGITS | _PROBABILITIES - {"p"}) else None
    return Signal((one.name,), *_of_one(loss, score, bool(_NEGATIVE & parts), values), one.rows)


def _of_one(loss: bool, score: bool, turned: bool, values: NDArray[Any]) -> tuple[Kind, str]:
    """What one number for each record is, by the words of its name and its sign."""
    below, above = bool((values < 0).any()), bool((values > 0).any())
    if loss and (score or turned):
        if below and not above:
            return "score", "a loss by its name, turned, as no value is above 0"
        return "", "named as a loss and as its opposite: say which"
    if loss and below:
        return "", "named as a loss, with values below 0: a loss (lower for members), or a score (higher for them)"
    if loss:
        return "loss", "by its name; no value is below 0"
    return "score", "by its name"


def _of_outputs(parts: set[str], values: NDArray[Any]) -> tuple[Kind, str]:
    """What several numbers for each record are; no reason, where they are no outputs of a model."""
    if values.shape[1] < 2 or not (parts & _OUTPUTS):
        return "", ""
    numbers = values.astype(np.float64)
    inside = bool((numbers >= -_SUMS).all() and (numbers <= 1 + _SUMS).all())
    if inside and (np.abs(numbers.sum(axis=1) - 1) < _SUMS).all():
        return "probabilities", "every row adds up to 1"
    if parts & _LOGITS:
        return "logits", "by its name; rows do not add up to 1"
    return "", "rows do not add up to 1: logits, or no outputs of a classifier"


def two_values(values: NDArray[Any] | None) -> bool:
    """Whether a column holds two values, and none is missing."""
    return values is not None and values.ndim == 1 and not _gaps(values) and len(np.unique(values)) == 2


def _members(seen: Sequence[Seen], complete: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Columns of membership with the reason for each, and those that are named so and cannot be read."""
    members, doubts = dict[str, str](), dict[str, str]()
    for one in seen:
        parts, joined = set(words(one.name)), "_".join(words(one.name))
        split = joined in _SPLITS
        named = bool(parts & _MEMBERS) or _TRAINED.fullmatch(joined) is not None
        if one.values is None or one.values.ndim > 1 or not (split or named or any(map(_OUTSIDE.fullmatch, parts))):
            continue
        holds = _membership(one.values)
        if any(map(_OUTSIDE.fullmatch, parts)):
            if holds and two_values(one.values):
                doubts[one.name] = (
                    f"{one.name} looks like the opposite of membership: write a column member, 1 for members"
                )
        elif split and holds in ("", "0 and 1", "true and false"):
            continue
        elif not holds:
            doubts[one.name] = (
                f"{one.name}, named as membership, {_held(one.values)}: write 1 for members, 0 for others"
            )
        elif complete and not two_values(one.values):
            doubts[one.name] = f"{one.name}, named as membership, has one value only: an audit needs both classes"
        else:
            members[one.name] = f"by its name; it holds {holds}"
    return members, doubts


def _as_far(one: Seen, complete: bool) -> str:
    """Say of what the values of a column speak for it, unless all were looked at."""
    rows = 0 if one.values is None else len(one.values)
    return "" if complete or rows == one.rows else f", in the first {rows:,} rows"


def _membership(values: NDArray[Any]) -> str:
    """What a column of membership holds, in words of ours; nothing where it cannot be read."""
    if values.dtype.kind == "b":
        return "true and false"
    if values.dtype.kind in "iuf":
        return "0 and 1" if np.isin(values, (0, 1)).all() else ""
    if values.dtype.kind == "U":
        lowered = {str(value).lower() for value in np.unique(values)}
        for inside, outside in MEMBER_WORDS:
            if lowered <= {*inside, *outside}:
                return f"{inside[0]} and {outside[0]}"
    return ""


def _held(values: NDArray[Any]) -> str:
    """What stands in the way of a column of membership."""
    if _gaps(values):
        return "has missing values"
    levels = np.unique(values)
    return "holds two other values" if len(levels) == 2 else f"holds {len(levels):,} values"


def _unusable(signal: Signal, by_name: Mapping[str, Seen]) -> list[str]:
    """What a run would refuse of a signal, or what makes it say nothing."""
    arrays = [values for name in signal.columns if (values := by_name[name].values) is not None]
    if any(not np.isfinite(values.astype(np.float64)).all() for values in arrays):
        return [f"{signal.columns[0]} has missing or infinite values, which a run refuses: fill or drop them"]
    if all(values.ndim == 1 and len(values) > 1 and (values == values[0]).all() for values in arrays):
        return [f"{signal.columns[0]} has the same value in all rows that were looked at, which tells nothing"]
    return []


def _families(seen: Sequence[Seen]) -> list[tuple[str, ...]]:
    """Columns that are one for each class: names that end in 0, 1, ... or 1, 2, ... and are those of outputs."""
    numbered: dict[str, dict[int, str]] = {}
    for one in seen:
        match = re.fullmatch(r"(.*?)[\s._\-\[]*(\d{1,6})\]?", one.name)
        if match is not None and one.values is not None and one.values.dtype.kind in "iuf" and one.values.ndim == 1:
            numbered.setdefault(match[1], {})[int(match[2])] = one.name
    families = []
    for stem, columns in numbered.items():
        start = min(columns)
        whole = start in (0, 1) and sorted(columns) == list(range(start, start + len(columns)))
        if len(columns) > 1 and whole and set(words(stem)) & _OUTPUTS:
            families.append(tuple(columns[i] for i in sorted(columns)))
    return families


def _of_family(family: Sequence[Seen]) -> Signal | None:
    arrays = [one.values for one in family if one.values is not None]
    if len({len(values) for values in arrays}) > 1:
        return None
    kind, why = _of_outputs({word for one in family for word in words(one.name)}, np.column_stack(arrays))
    return Signal(tuple(one.name for one in family), kind, why, family[0].rows)


def _as_text(one: Seen) -> str:
    """Say of a column that is named as scores or losses, and holds texts, what stands in the way."""
    parts = set(words(one.name))
    named = any(map(_LOSSES.fullmatch, parts)) or any(map(_SCORES.fullmatch, parts))
    if not named or one.values is None or one.values.dtype.kind != "U" or not cells.mostly_numbers(one.values.tolist()):
        return ""
    return f"{one.name} is no column of numbers: {'; '.join(cells.not_numbers(one.values, shown=False))}"


def _is_label(one: Seen) -> bool:
    values = one.values
    if "_".join(words(one.name)) not in _LABELS and not set(words(one.name)) & {"label", "labels"}:
        return False
    return values is not None and values.ndim == 1 and values.dtype.kind in "iu" and bool((values >= 0).all())


def _is_unit(one: Seen) -> bool:
    """Whether a column says to whom records belong, and somebody has several."""
    values = one.values
    plain = values is not None and values.ndim == 1 and values.dtype.kind in "iuU" and not _gaps(values)
    if values is None or not plain or _UNITS.fullmatch("_".join(words(one.name))) is None:
        return False
    return 2 < len(np.unique(values)) < len(values)


def _is_real(one: Seen) -> bool:
    """Whether a column holds numbers that are not all whole, as scores do."""
    values = one.values
    real = values is not None and values.ndim == 1 and values.dtype.kind == "f" and bool(np.isfinite(values).any())
    return real and values is not None and not (values == np.floor(values)).all()


def _described(other: Sequence[Seen], labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Groups, covariates and those of them that are texts, as far as columns can be modelled."""
    import polars as pl

    flat = [one for one in other if one.values is not None and one.values.ndim == 1][:_MOST]
    profiles = [profile(pl.DataFrame({one.name: one.values}))[0] for one in flat if one.values is not None]
    usable = [column for column in profiles if column.usable]
    levels = {one.name: len(np.unique(one.values)) for one in flat if one.values is not None}
    groups = [
        c.name for c in usable if c.kind in ("binary", "categorical", "ordinal") and 2 <= levels[c.name] <= _LEVELS
    ]
    matrices = [one.name for one in other if one.values is not None and one.values.ndim == 2]
    return {
        "groups": (*labels, *groups),
        "covariates": (*(column.name for column in usable), *matrices),
        "categories": tuple(column.name for column in usable if column.text),
    }


def _plain(column: pl.Series) -> NDArray[Any] | None:
    """The values of a column as an array, missing ones as NaN or "", or nothing where they are no plain values."""
    try:
        values = to_numpy(column.head(NUMBERS // 1000) if column.dtype.is_nested() else column, gaps=True)
    except InputError:
        return None
    whole = values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.floor(values)).all()
    return values.astype(np.int64) if whole and (np.abs(values) < 2**53).all() else values  # as a .csv does not tell


def _gaps(values: NDArray[Any]) -> bool:
    return bool(
        (values == "").any() if values.dtype.kind == "U" else values.dtype.kind == "f" and np.isnan(values).any()
    )
