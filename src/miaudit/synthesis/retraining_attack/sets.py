"""Synthetic sets of many generators, each trained with or without a target: trained here, or read from a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator, is_whole
from miaudit.io import tables
from miaudit.jobs import executor as execution
from miaudit.jobs import resumable
from miaudit.jobs.resumable import Store, digest
from miaudit.models.inclusion import NEITHER, OUT, with_and_without
from miaudit.synthesis.retraining_attack import closeness
from miaudit.synthesis.retraining_attack.features import MISSING, Extractor, Layout, extract, fractional
from miaudit.synthesis.retraining_attack.targets import Targets, check_targets
from miaudit.synthesis.schema import Schema, Table, read_table

Fit = Callable[..., Any]
FitMany = Callable[..., Sequence[Any]]
Sample = Callable[..., Any]
Design = Literal["separate", "shared"]
Progress = Callable[[int, int], None]

DESIGNS: tuple[Design, ...] = get_args(Design)
MANIFEST = "manifest.csv"
REPEATS = 20

_MANIFEST_COLUMNS = ("file", "model", "target", "member")


@dataclass(frozen=True, eq=False)
class SyntheticSets:
    """What many generators released, and which of them learned which target.

    Attributes
    ----------
    schema : what the columns are
    sources : for each of M models an array (k, s, d) of its k sets of s records, or a file with one: uint8 codes with
        255 where missing, or float32 with NaN
    membership : int8 (M, T): 1 where the model learned the target, 0 where it learned all but the target, -1 where the
        model is not about it
    targets : names of the T targets
    records : float64 (T, d), the targets themselves, or None where they are not known
    """

    schema: Schema
    sources: tuple[NDArray[Any] | Path, ...]
    membership: NDArray[np.int8]
    targets: tuple[str, ...]
    records: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.membership.shape != (len(self.sources), len(self.targets)):
            allowed = f"shape ({len(self.sources)}, {len(self.targets)}), models by targets"
            raise InputError("membership", allowed, f"shape {self.membership.shape}", "one row for each model")

    @property
    def models(self) -> int:
        """Number of generators."""
        return len(self.sources)

    @property
    def shared(self) -> bool:
        """Whether one model is about several targets, so that the targets' trials are not independent."""
        return bool(((self.membership != NEITHER).sum(axis=1) > 1).any())

    @property
    def per_model(self) -> int:
        """Sets that each model gave: the same number for all."""
        return self._shapes[0][0]

    def about(self, target: int) -> IndexArray:
        """Return the models that are about a target, in order."""
        return np.flatnonzero(self.membership[:, target] != NEITHER)

    def model(self, number: int) -> NDArray[Any]:
        """Return the sets (k, s, d) of one model."""
        source = self.sources[number]
        values: NDArray[Any] = (
            source if isinstance(source, np.ndarray) else np.load(source, mmap_mode="r", allow_pickle=False)
        )
        return values

    @cached_property
    def layout(self) -> Layout:
        """How the columns become features: the same way for all models."""
        fractions = (fractional(self.model(m), self.schema) for m in range(self.models))
        return Layout(self.schema, frozenset().union(*fractions))

    def about_record(self, models: IndexArray, targets: IndexArray) -> Float32Array:
        """Describe the sets of some models by their closeness to a target each: (models k, number of features)."""
        if self.records is None:
            hint = "pass records= to SyntheticSets.from_folder, or leave nearness out"
            raise InputError("extractors", "those that need no target, as it is not known", "nearness", hint)
        parts = [
            closeness.extract(np.asarray(self.model(m)), self.layout, self.records[t])
            for m, t in zip(models, targets, strict=True)
        ]
        return np.concatenate(parts)

    def features(self, extractor: Extractor, models: IndexArray) -> Float32Array:
        """Describe the sets of some models, in order: (models k, number of features)."""
        values = np.empty((len(models) * self.per_model, self.layout.width(extractor)), dtype=np.float32)
        for place, m in enumerate(models):
            rows = slice(place * self.per_model, (place + 1) * self.per_model)
            values[rows] = extract(np.asarray(self.model(m)), self.layout, extractor)
        return values

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        shapes = [self.model(m).shape for m in range(self.models)]
        for m, shape in enumerate(shapes):
            if len(shape) != 3 or shape != shapes[0]:
                received = f"{shape} by model {m} and {shapes[0]} by model 0"
                raise InputError(
                    "sets", "arrays (sets, records, columns) of one shape", received, "draw alike from all"
                )
        return shapes

    @classmethod
    def from_folder(
        cls, folder: str | Path, schema: Schema, *, set_size: int = 100, records: Table | None = None
    ) -> SyntheticSets:
        """Read what generators released elsewhere: a folder of tables and ``manifest.csv``.

        Parameters
        ----------
        folder : path
            The manifest has one row for each table: ``file`` (its name in the folder; .csv or .parquet), ``model`` (any
            name), ``target`` (any name) and ``member`` (true or false: whether the model learned the target). A model
            may have several tables, and several targets if each is a row with the same file.
        schema : what the columns are
        set_size : records in a set; each model's tables are cut into sets, and the rest is not used
        records : the targets themselves, in the order in which the manifest first names them; the extractor "nearness"
            needs them

        Raises
        ------
        InputError
            For a manifest or table that cannot be used; models that give fewer sets than the others lower the number
            for all.
        """
        place = Path(folder)
        manifest = _Manifest.read(tables.existing_file(place / MANIFEST, "folder", (".csv",)))
        sets = [_cut(_read_tables(place, files, schema), set_size, model) for model, files in manifest.files.items()]
        least = min(map(len, sets))
        targets = manifest.targets
        if records is not None and (records.schema != schema or len(records) != len(targets)):
            allowed = f"a Table of the schema with {len(targets)} targets"
            raise InputError("records", allowed, f"{len(records)} records", "one for each target of the manifest")
        own = None if records is None else records.values
        sources = tuple(compact(of_model[:least], schema) for of_model in sets)
        return cls(schema, sources, manifest.membership, targets, own)


class Training(TypedDict, total=False):
    """How generators are trained and sampled: the options of :func:`train`."""

    fit: Fit | None
    fit_many: FitMany | None
    sample: Sample | None
    repeats: int
    sets: int
    set_size: int
    design: Design
    at_once: int
    store: str | Path | None
    key: str
    executor: str | execution.Local | execution.Ray
    workers: int
    progress: Progress | None


def train(
    table: Table,
    targets: Targets | Sequence[int],
    *,
    fit: Fit | None = None,
    fit_many: FitMany | None = None,
    sample: Sample | None = None,
    repeats: int = REPEATS,
    sets: int = 20,
    set_size: int = 100,
    design: Design = "separate",
    at_once: int = 1,
    store: str | Path | None = None,
    key: str = "",
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    progress: Progress | None = None,
    rng: np.random.Generator,
) -> SyntheticSets:
    """Train generators with and without each target, and draw sets from each (Algorithm 1).

    Runs the generator's code. Seeds are drawn before any training, so the result does not depend on the number of
    workers or on interruptions.

    Parameters
    ----------
    table : all records, targets included
    targets : a choice of records, or row numbers
    fit : function of a table and of ``rng=`` that returns a generator
    fit_many : function of the table, of ``rows=`` (k, n) of bool and of ``rng=`` that returns k generators
        In place of ``fit``, for generators that are trained together, ``at_once`` at a time; for example
        ``functools.partial(miaudit.synthesis.fit_many, graph=graph, config=config)``; with privacy, ``repeatable=True``
        has the results repeat.
    sample : function of a generator, of n and of ``rng=`` that returns n records, as a Table or array (n, d)
        By default the generator's own method ``sample(n, rng=...)``.
    repeats : models with, and as many without, each target
    sets, set_size : sets drawn from each model, and records in a set; 100 and 100 in the paper
    design : "separate": each model is about one target, 2 x repeats x targets models (erratum D2). "shared": each of
        2 x repeats models learns a random half of the targets and is about all of them; their trials then depend
    at_once : models of one call of ``fit_many``
    store : folder, optional
        Each finished model's sets are written there, and only missing ones are trained again; a call with another
        table, targets, design, generator seed or key is refused.
    key : str, needed with ``store``
        Names the generator and its options: the store cannot see a change in the functions.
    executor, workers : where jobs run; see :mod:`miaudit.jobs.executor`
    progress : function of (finished models, all models), optional
    rng : for targets, memberships and seeds

    Raises
    ------
    InputError
        For unusable arguments, or sets of another shape than requested.
    JobsFailedError
        If models failed; it names them, after all others have finished.
    """
    check_generator(rng)
    _check_functions(fit, fit_many)
    _check_counts({"repeats": repeats, "sets": sets, "set_size": set_size, "at_once": at_once})
    if design not in DESIGNS:
        raise InputError("design", " or ".join(DESIGNS), repr(design), "separate is the default")
    if at_once > 1 and fit_many is None:
        raise InputError("at_once", "1 with fit", str(at_once), "pass fit_many to train several together")
    rows = check_targets(targets).choose(table, rng)
    if len(table) - len(rows) < 1:
        raise InputError("targets", "fewer targets than records", f"{len(rows)}", "leave records to learn from")
    membership = with_and_without(len(rows), repeats, shared=design == "shared", rng=rng)
    seed = int(rng.integers(2**62))
    plan = _Plan(table, rows, membership, fit, fit_many, sample, sets, set_size, at_once, seed)
    return plan.with_sources(_finished(plan, store, key, executor, workers, progress))


def _check_functions(fit: Fit | None, fit_many: FitMany | None) -> None:
    if (fit is None) == (fit_many is None):
        received = "neither" if fit is None else "both"
        raise InputError("fit", "fit or fit_many", received, "pass the function that trains a generator")


def _check_counts(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if not is_whole(count) or count < 1:
            raise InputError(name, "a whole number from 1 up", repr(count), "see the paper's values in the docs")


def compact(values: NDArray[Any], schema: Schema) -> NDArray[Any]:
    """Return records (..., d) as uint8 codes, 255 where missing, if all are codes; as float32 otherwise."""
    discrete = all(column.kind != "continuous" and column.levels < MISSING for column in schema.columns)
    array = np.asarray(values, dtype=np.float64)
    if not discrete or fractional(array, schema):
        return array.astype(np.float32)
    return np.where(np.isnan(array), MISSING, array).astype(np.uint8)


# -- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything that is fixed before the first fit, and travels to workers."""

    table: Table
    rows: IndexArray
    membership: NDArray[np.int8]
    fit: Fit | None
    fit_many: FitMany | None
    sample: Sample | None
    sets: int
    set_size: int
    at_once: int
    seed: int

    @property
    def models(self) -> int:
        return len(self.membership)

    def learned(self, model: int) -> BoolArray:
        """Which rows (n,) a model learns: all but the targets it must not."""
        keep = np.ones(len(self.table), dtype=bool)
        keep[self.rows[self.membership[model] == OUT]] = False
        return keep

    def with_sources(self, sources: Sequence[NDArray[Any]]) -> SyntheticSets:
        """Return the sets that the models released, one array for each model."""
        names = tuple(f"row {row}" for row in self.rows)
        return SyntheticSets(self.table.schema, tuple(sources), self.membership, names, self.table.values[self.rows])

    def decides(self, key: str) -> dict[str, str]:
        if not key:
            hint = "name the generator and its options, for example key='vae, epsilon 1, v2'"
            raise InputError("key", "a few words beside store", repr(key), hint)
        return {
            "table": digest(self.table.values),
            "targets": digest(self.rows),
            "membership": digest(self.membership),
            "seed": str(self.seed),
            "sets": f"{self.sets} x {self.set_size}",
            "at_once": str(self.at_once),
            "key": key,
        }


def _finished(
    plan: _Plan,
    store: str | Path | None,
    key: str,
    executor: str | execution.Local | execution.Ray,
    workers: int,
    progress: Progress | None,
) -> list[NDArray[Any]]:
    """Train all generators, or the missing ones of a store, and return the sets of each."""
    with nullcontext() if store is None else Store.alone(store, plan.decides(key), "sets") as place:
        sets = resumable.finish(
            _released,
            plan,
            list(enumerate(np.random.SeedSequence(plan.seed).spawn(plan.models))),
            place=place,
            what="generators",
            failure="model {}: {}".format,
            at_once=plan.at_once,
            executor=executor,
            workers=workers,
            progress=resumable.counted(progress),
        )
    return [sets[model] for model in range(plan.models)]


def _released(plan: _Plan, job: Sequence[tuple[int, np.random.SeedSequence]]) -> list[NDArray[Any]]:
    """Train the generators of one job, and return the sets of each."""
    children = [seed.spawn(2) for _, seed in job]
    own = np.random.default_rng(children[0][0])
    if plan.fit_many is not None:
        rows = np.stack([plan.learned(m) for m, _ in job])
        generators = list(plan.fit_many(plan.table, rows=rows, rng=own))
        if len(generators) != len(job):
            received = f"{len(generators)} for {len(job)} rows"
            raise InputError("fit_many", "a generator for each row of rows", received, "return them in order")
    else:
        assert plan.fit is not None  # noqa: S101 - by its check
        generators = [plan.fit(plan.table.subset(plan.learned(m)), rng=own) for m, _ in job]
    return [
        _sets(plan, generator, np.random.default_rng(sampling))
        for generator, (_, sampling) in zip(generators, children, strict=True)
    ]


def _sets(plan: _Plan, generator: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Draw the sets (k, s, d) of one generator."""
    n = plan.sets * plan.set_size
    records = generator.sample(n, rng=rng) if plan.sample is None else plan.sample(generator, n, rng=rng)
    values = np.asarray(records.values if isinstance(records, Table) else records, dtype=np.float64)
    width = len(plan.table.schema)
    if values.shape != (n, width) or np.isinf(values).any():
        received = f"shape {values.shape}" if values.shape != (n, width) else "infinite values"
        raise InputError("sample", f"{n:,} records of {width} columns", received, "return a Table or an array (n, d)")
    return compact(values.reshape(plan.sets, plan.set_size, width), plan.table.schema)


# -- folders ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Manifest:
    """The content of a manifest: the tables of each model, the targets, and the membership (M, T)."""

    files: dict[str, list[str]]
    targets: tuple[str, ...]
    membership: NDArray[np.int8]

    @classmethod
    def read(cls, path: Path) -> _Manifest:
        """Read a manifest, and refuse two memberships of one model and target."""
        rows = _read_manifest(path)
        files: dict[str, list[str]] = {model: [] for _, model, _, _ in rows}
        models, targets = list(files), list(dict.fromkeys(target for _, _, target, _ in rows))
        membership = np.full((len(models), len(targets)), NEITHER, dtype=np.int8)
        for file, model, target, member in rows:
            at = models.index(model), targets.index(target)
            if membership[at] not in (NEITHER, int(member)):
                received = f"both for model {model} and target {target}"
                raise InputError(MANIFEST, "one membership of a model and a target", received, "correct the manifest")
            membership[at] = int(member)
            if file not in files[model]:
                files[model].append(file)
        return cls(files, tuple(targets), membership)


def _read_manifest(path: Path) -> list[tuple[str, str, str, bool]]:
    """Return file, model, target and membership of each row."""
    known_names = tables.column_names(path, MANIFEST)
    for name in _MANIFEST_COLUMNS:
        if name not in known_names:
            received = ", ".join(known_names)
            raise InputError(MANIFEST, f"columns {', '.join(_MANIFEST_COLUMNS)}", received, f"add {name}")
    columns = tables.read_columns(path, _MANIFEST_COLUMNS, MANIFEST, _MANIFEST_COLUMNS, _MANIFEST_COLUMNS)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not rows:
        raise InputError(MANIFEST, "a row for each table", "none", "write file,model,target,member")
    known = {"true": True, "1": True, "in": True, "false": False, "0": False, "out": False}
    entries = []
    for row in rows:
        member = str(row["member"]).strip().lower()
        if member not in known:
            raise InputError(
                f"{MANIFEST}: member", "true or false", repr(str(row["member"])), "1, 0, in and out will do too"
            )
        file, model, target = (str(row[name]).strip() for name in ("file", "model", "target"))
        entries.append((file, model, target, known[member]))
    return entries


def _read_tables(folder: Path, files: Sequence[str], schema: Schema) -> FloatArray:
    """Return the records (n, d) of one model's tables."""
    parts = []
    for file in files:
        if Path(file).name != file:
            raise InputError(f"{MANIFEST}: file", "the name of a file in the folder", repr(file), "move it there")
        parts.append(read_table(folder / file, schema, argument=f"{MANIFEST}: file", outside="clip").values)
    return np.concatenate(parts)


def _cut(records: FloatArray, set_size: int, model: str) -> FloatArray:
    count = len(records) // set_size
    if count < 1:
        received = f"{len(records):,} records of model {model}"
        raise InputError(
            "set_size", f"at most as many records as a model released ({len(records):,})", received, "lower it"
        )
    return records[: count * set_size].reshape(count, set_size, -1)
