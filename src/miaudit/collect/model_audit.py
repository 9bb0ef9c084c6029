"""A model that is fitted already, audited in one call: its outputs on members and non-members, to findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.attacks import multi_label, registry
from miaudit.attacks.regression import squared_error
from miaudit.auditing import seed
from miaudit.auditing.pipeline import audit
from miaudit.auditing.plan import Plan
from miaudit.auditing.shared_records import require_none
from miaudit.collect.outputs import GAUSSIAN_LIRA, Attack, Collected, from_outputs
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings.audit import Findings
from miaudit.io import frames, numeric, tables
from miaudit.io.row_digests import row_digests
from miaudit.models import fitted
from miaudit.models.foreign import refuse_pickle
from miaudit.models.structure import Structure

__all__ = ["audit_model", "evidence_of"]

LABEL_ONLY = "label_only"


def audit_model(
    model: Any,
    *,
    members: tuple[Any, Any],
    nonmembers: tuple[Any, Any],
    design: str | None = None,
    attack: str | Sequence[str] | Attack | None = None,
    outputs: fitted.Outputs | None = None,
    classes: Any = None,
    covariates: Any = None,
    unit: Any = None,
    group: Any = None,
    key: str = "logits",
    batch: int | None = None,
    plan: Plan | None = None,
    nuisance: Any = None,
    rng: seed.Given = None,
) -> Findings:
    """Audit a fitted model: ask it about members and non-members, and measure what tells them apart. Runs its code.

    Notes name what a model of scikit-learn gives away by its form: stored rows, leaves of few records, as many
    parameters as records (:class:`miaudit.models.structure.Structure`). No verdict rests on these notes.

    Parameters
    ----------
    model : anything with ``predict_proba``, ``decision_function`` or ``predict``, a PyTorch network, or a function
        The first of these that it has is asked. A function takes records and returns outputs, one row for each: an
        array, a tensor, or these in a tuple, a dictionary, or an object with ``.logits``.
    members, nonmembers : pairs (X, y)
        Records that the model was trained on, and others. X is an array, a list, or a data frame of pandas, polars or
        arrow (which becomes one of pandas); of a frame the model gets the columns it was fitted on. y holds classes,
        as numbers or texts, or numbers of a regression; (n, L) of 0 and 1 for several labels.
    design : how membership came about, "one-run" or "zero-run"; never guessed: without it there is no answer
    attack : the scores to compute, by name, from probabilities or logits; default: the loss
        Of a regression the squared error, of several labels the sum of the binary cross-entropies, and of labels alone
        whether they are right (``label_only``).
    outputs : "probabilities", "logits", "predictions" (of a regression) or "labels"; default: read off the model
    classes : labels of the columns of outputs, in their order; default: the model's ``classes_``, else 0, 1, ..., else
        the labels in their order, where there are as many as columns
    covariates, unit, group : as of :class:`miaudit.Evidence`: each a pair of arrays or frames, of members and
        non-members, or names of columns of X. Covariates that are text are named in ``Plan(categories=...)``.
    key : name of the outputs in a dictionary or an object
    batch : records that the model is asked about at a time; default: all
    plan, nuisance, rng : as of :func:`miaudit.audit`

    Raises
    ------
    InputError
        For a model that cannot be asked or fails, and labels, columns and outputs that do not go together.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> draws = np.random.default_rng(0)
    >>> x, y = draws.normal(size=(400, 3)), draws.choice(["no", "yes"], 400)
    >>> tree = DecisionTreeClassifier().fit(x[:200], y[:200])
    >>> inside, outside = (x[:200], y[:200]), (x[200:], y[200:])
    >>> findings = audit_model(tree, members=inside, nonmembers=outside, design="one-run", rng=0)
    >>> findings.design, findings.metric("auc").low > 0.6
    ('one-run', True)
    """
    generator, recorded, seed_notes = seed.generator(rng)
    collected = evidence_of(
        model,
        members=members,
        nonmembers=nonmembers,
        design=design,
        attack=attack,
        outputs=outputs,
        classes=classes,
        covariates=covariates,
        unit=unit,
        group=group,
        key=key,
        batch=batch,
        categories=() if plan is None else plan.categories,
        rng=generator,
    )
    if collected.headline is not None:
        plan = replace(plan or Plan(), headline=collected.headline)
    notes = (*collected.notes, *seed_notes)
    return audit(collected.evidence, plan=plan, nuisance=nuisance, rng=generator, notes=notes, repeat=recorded)


def evidence_of(
    model: Any,
    *,
    members: tuple[Any, Any],
    nonmembers: tuple[Any, Any],
    design: str | None = None,
    attack: str | Sequence[str] | Attack | None = None,
    outputs: fitted.Outputs | None = None,
    classes: Any = None,
    covariates: Any = None,
    unit: Any = None,
    group: Any = None,
    key: str = "logits",
    batch: int | None = None,
    categories: Sequence[str] = (),
    rng: np.random.Generator,
) -> Collected:
    """Return the evidence that :func:`audit_model` audits, of the same arguments."""
    refuse_pickle(model, "model")
    sides = _Sides.of(members, nonmembers)
    answers = _answers(model, sides, rng.spawn(1)[0], outputs=outputs, key=key, batch=batch)
    if classes is not None:
        answers = replace(answers, classes=fitted.labels_of(classes, "classes"))
    x, names = _covariates(covariates, sides, categories)
    fields = {
        "member": np.arange(sides.n) < len(sides.y[0]),
        "design": design,
        "covariates": x,
        "covariate_names": names,
        "unit": _beside(unit, "unit", sides),
        "group": _beside(group, "group", sides),
        "source": f"{type(model).__name__}, members and non-members",
    }
    collected = _scored(answers, sides.labels, attack, fields, rng)
    return replace(
        collected,
        notes=(
            f"The model was asked about all records, members and non-members mixed: {answers.how}.",
            *collected.notes,
            *Structure.of(model).notes(len(sides.y[0])),
        ),
    )


def _answers(model: Any, sides: _Sides, rng: np.random.Generator, **options: Any) -> fitted.Said:
    """Ask the model about all records in a random order, and return its answers in the order of the records."""
    order = rng.permutation(sides.n)
    answers = fitted.ask(model, sides.records(order), sides.labels[order], **options)
    return replace(answers, values=answers.values[np.argsort(order)])


@dataclass(frozen=True, eq=False)
class _Sides:
    """Records and labels of members and of non-members."""

    x: tuple[Any, Any]
    y: tuple[NDArray[Any], NDArray[Any]]

    @classmethod
    def of(cls, members: Any, nonmembers: Any) -> _Sides:
        x, y = [], []
        for name, side in (("members", members), ("nonmembers", nonmembers)):
            if not isinstance(side, tuple | list) or len(side) != 2:
                received = f"{len(side)} things" if isinstance(side, tuple | list) else type(side).__name__
                raise InputError(name, "a pair (X, y) of records and labels", received, f"pass {name}=(X, y)")
            records, labels = side[0], fitted.labels_of(side[1], f"labels of {name}")
            if type(records).__name__ == "LazyFrame":
                records = records.collect()
            if type(records).__name__ == "Table":
                records = frames.to_pandas(records, f"X of {name}")
            if not hasattr(records, "__len__") or isinstance(records, str):
                received = type(records).__name__
                raise InputError(name, "records (n, ...): an array, a list or a data frame", received, "pass (X, y)")
            if not len(records) or labels.ndim not in (1, 2) or len(labels) != len(records):
                received = f"{len(records)} records and labels of shape {labels.shape}"
                raise InputError(name, "one record or more, each with its label", received, "check X and y")
            x.append(records if frames.is_frame(records) or isinstance(records, list) else np.asarray(records))
            y.append(labels)
        if (y[0].dtype.kind == "U") != (y[1].dtype.kind == "U") or y[0].shape[1:] != y[1].shape[1:]:
            received = f"{y[0].dtype} {y[0].shape} and {y[1].dtype} {y[1].shape}"
            raise InputError("labels", "labels of one kind on both sides", received, "give both the same kind")
        _require_alike(*x)
        _require_apart(x, y)
        return cls((x[0], x[1]), (y[0], y[1]))

    @property
    def n(self) -> int:
        return len(self.y[0]) + len(self.y[1])

    @property
    def labels(self) -> NDArray[Any]:
        return np.concatenate(self.y)

    def records(self, order: IndexArray) -> Any:
        """All records in an order (n,), mixed: where others in a batch move answers, sides asked apart would differ."""
        first, second = self.x
        if isinstance(first, list):
            return frames.taken([*first, *second], order)
        if frames.is_frame(first):
            return frames.taken(frames.joined(first, second), order)
        return np.concatenate([first, second])[order]


def _require_apart(x: Sequence[Any], y: Sequence[NDArray[Any]]) -> None:
    """Refuse non-members that are members too, beyond what records that are equal by chance explain."""
    digests = [digest for side, labels in zip(x, y, strict=True) for digest in row_digests(side, labels)]
    member = np.arange(len(digests)) < len(y[0])
    require_none(np.array(digests), member, "nonmembers")


def _require_alike(first: Any, second: Any) -> None:
    """Refuse non-members of another form than members: other columns, or columns of another type."""
    both = frames.is_frame(first), frames.is_frame(second)
    if all(both):
        different = set(tables.frame_names(first)) ^ set(tables.frame_names(second))
        if all(hasattr(one, "iloc") for one in (first, second)):
            frames.same_columns(first, second, "nonmembers", "members")
        elif different:
            received = f"{min(different)!r} on one side only"
            raise InputError("nonmembers", "the columns of members", received, "give both frames the same columns")
        if type(first) is not type(second):
            received = f"frames of {type(second).__module__}, and members are of {type(first).__module__}"
            raise InputError("nonmembers", "a data frame of the same library", received, "convert one of them")
    elif any(both) or (isinstance(first, np.ndarray) and first.shape[1:] != np.shape(second)[1:]):
        kinds = [f"{type(one).__name__} {np.shape(one)[1:]}" for one in (first, second)]
        received = f"{kinds[1]}, and members are {kinds[0]}"
        raise InputError("nonmembers", "records of the form of the members", received, "give both in one form")


def _scored(
    answers: fitted.Said,
    y: NDArray[Any],
    attack: str | Sequence[str] | Attack | None,
    fields: dict[str, Any],
    rng: np.random.Generator,
) -> Collected:
    """Evidence with the scores that the outputs give."""
    chosen, names = (attack, ()) if isinstance(attack, Attack) else (None, _names(attack))
    if answers.kind == "labels":
        if chosen is not None or set(names) - {LABEL_ONLY}:
            hint = "give a model with predict_proba or decision_function"
            raise InputError("attack", f"{LABEL_ONLY}, for labels alone", _listed(chosen, names), hint)
        return Collected(Evidence(score={LABEL_ONLY: _right(answers.values, y, rng)}, **fields))
    if chosen is None and names:
        chosen = Attack(names)
    if answers.kind == "predictions":
        if y.dtype.kind == "U":
            raise InputError("labels", "numbers, for a regression", "texts", "give a classifier, or numbers")
        return from_outputs(losses=squared_error(answers.values, y), attack=_of_losses(chosen), rng=rng, **fields)
    if y.ndim == 2:
        inputs: dict[str, Any] = {"labels": y, str(answers.kind): answers.values}
        if chosen is not None and GAUSSIAN_LIRA not in chosen.names:
            return Collected(Evidence(score=multi_label.member_scores(**inputs, names=chosen.names), **fields))
        losses = -multi_label.member_scores(**inputs)["loss"]
        return from_outputs(losses=losses, attack=_of_losses(chosen), rng=rng, **fields)
    numbers = fitted.class_numbers(y, answers.classes, answers.values.shape[1])
    inputs = {str(answers.kind): answers.values, "labels": numbers}
    return from_outputs(**inputs, attack=chosen, rng=rng, **fields)


def _names(attack: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if attack is None else (attack,) if isinstance(attack, str) else tuple(attack)


def _listed(chosen: Attack | None, names: Sequence[str]) -> str:
    return ", ".join(names if chosen is None else chosen.names)


def _of_losses(attack: Attack | None) -> Attack | None:
    """An attack that losses alone allow."""
    if attack is not None and set(attack.names) - {"loss", GAUSSIAN_LIRA}:
        hint = "leave attack out"
        raise InputError("attack", f"loss or {GAUSSIAN_LIRA}, for these outputs", ", ".join(attack.names), hint)
    return attack


def _right(values: NDArray[Any], y: NDArray[Any], rng: np.random.Generator) -> FloatArray:
    """Score records by whether their label is right (n,)."""
    if y.ndim != 1 or (values.dtype.kind == "U") != (y.dtype.kind == "U"):
        received = f"{values.dtype} for labels {y.dtype} of shape {y.shape}"
        raise InputError("outputs of the model", "labels of the kind of y", received, "give labels as the model does")
    correct: BoolArray = (values == y)[:, None]
    return registry.get(LABEL_ONLY).score({"correct": correct}, rng=rng)


def _covariates(given: Any, sides: _Sides, categories: Sequence[str]) -> tuple[Any, tuple[str, ...] | None]:
    """Covariates of all records (n, d) with their names: of a pair of arrays or frames, or columns of X."""
    if given is None:
        return None, None
    if isinstance(given, str) or (isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)):
        columns = [given] if isinstance(given, str) else list(given)
        both = _named(columns, "covariates", sides, columns)
        return numeric.joined(both, columns, categories)
    first, second = _pair(given, "covariates", sides)
    if frames.is_frame(first) and frames.is_frame(second):
        columns = tables.frame_names(first)
        of_both = [tables.frame_columns(one, columns, columns) for one in (first, second)]
        return numeric.joined(
            {name: _together(name, *(one[name] for one in of_both)) for name in columns}, columns, categories
        )
    return _together("covariates", np.asarray(first), np.asarray(second)), None


def _beside(given: Any, name: str, sides: _Sides) -> NDArray[Any] | None:
    """Units or groups of all records (n,): a pair of arrays, or a column of X."""
    if given is None:
        return None
    if isinstance(given, str):
        return _named([given], name, sides, [])[given]
    return _together(name, *(fitted.labels_of(one, name) for one in _pair(given, name, sides)))


def _named(columns: Sequence[str], argument: str, sides: _Sides, gaps: Sequence[str]) -> dict[str, NDArray[Any]]:
    if not all(map(frames.is_frame, sides.x)):
        hint = "pass a pair of arrays: of members and of non-members"
        raise InputError(argument, "names of columns only where X is a data frame", ", ".join(columns), hint)
    of_both = [tables.frame_columns(x, columns, gaps) for x in sides.x]
    return {name: _together(name, *(one[name] for one in of_both)) for name in columns}


def _pair(given: Any, name: str, sides: _Sides) -> tuple[Any, Any]:
    sizes = len(sides.y[0]), len(sides.y[1])
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(name, "a pair: of members and of non-members", type(given).__name__, f"pass {name}=(a, b)")
    if (len(given[0]), len(given[1])) != sizes:
        received = f"{len(given[0])} and {len(given[1])}"
        raise InputError(name, f"{sizes[0]} and {sizes[1]} rows, as members and non-members", received, "check them")
    return given[0], given[1]


def _together(name: str, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    if (first.dtype.kind == "U") != (second.dtype.kind == "U") or first.shape[1:] != second.shape[1:]:
        received = f"{first.dtype} {first.shape[1:]} and {second.dtype} {second.shape[1:]}"
        raise InputError(name, "one kind of values on both sides", received, "read both in the same way")
    return np.concatenate([first, second])
