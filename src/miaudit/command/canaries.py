"""``miaudit canaries``: canaries for a training that somebody else runs, as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miaudit.command.options import OUTPUT
from miaudit.command.results import announce
from miaudit.command.terminal import progress, say
from miaudit.errors import InputError

if TYPE_CHECKING:
    from miaudit.collect.canaries import CanaryKind, Insertion
    from miaudit.collect.records import Records
    from miaudit.config.data_section import DataSection

COLUMN, TIMES, UNIT = "canary", "times", "unit"
_LINES = ".jsonl"
_DATA, _MADE = "Data, without a configuration", "Canaries"
_of_data = {"rich_help_panel": _DATA, "show_default": False}
_of_kind = {"rich_help_panel": _MADE, "show_default": False}


Source = Annotated[
    Path,
    typer.Argument(
        help="A configuration (.yaml) with the section data, or the data: .npz, .parquet, .csv or .jsonl.",
        show_default=False,
    ),
]
KindName = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="mislabelled, hard, blank, noise, out-of-distribution; of texts random-tokens, rare-tokens, changed-fact "
        "or held-out. docs/canaries.md says which shows most. A configuration's section canaries says it, too.",
        **_of_kind,
    ),
]
Count = Annotated[int | None, typer.Option("--count", help="How many; 500 to 1,000 are usual.", **_of_kind)]
Shape = Annotated[
    str | None,
    typer.Option("--shape", help="Of blank and noise: 8,8 where 64 columns are the pixels of an image.", **_of_kind),
]
LawName = Annotated[
    str | None, typer.Option("--law", help="Of noise: uniform in the data's range, or gaussian.", **_of_kind)
]
Pool = Annotated[
    int | None,
    typer.Option("--pool", help="Of hard: how many times as many are drawn, of which the hardest stay.", **_of_kind),
]
Words = Annotated[int | None, typer.Option("--words", help="Of rare-tokens: rare words in each text; 6.", **_of_kind)]
Frame = Annotated[
    str | None,
    typer.Option("--frame", help="Of rare-tokens: a text with {} where the words go.", **_of_kind),
]
Times = Annotated[
    str | None,
    typer.Option(
        "--times",
        help="Copies of a canary in a training that has it: 4, or 1,4,16,64, shared out evenly.",
        **_of_kind,
    ),
]
PerUnit = Annotated[
    int | None,
    typer.Option(
        "--per-unit",
        help="Documents of each canary unit (a user), all of one coin; --count is then of units.",
        **_of_kind,
    ),
]
X = Annotated[
    list[str] | None,
    typer.Option("--x", help="What goes into the model: an array, or columns (repeat it).", **_of_data),
]
Y = Annotated[list[str] | None, typer.Option("--y", help="The label; repeat it for several labels.", **_of_data)]
Texts = Annotated[str | None, typer.Option("--text", help="In the place of --x: a column of texts.", **_of_data)]
Ids = Annotated[str | None, typer.Option("--ids", help="What each record is called.", **_of_data)]
Unit = Annotated[
    str | None,
    typer.Option("--unit", help="Whose each record is; canaries get units that have no other records.", **_of_data),
]
OutFile = Annotated[
    Path, typer.Option("--out", help="The file: .npz, .parquet, .csv or .jsonl.", rich_help_panel=OUTPUT)
]
Alone = Annotated[
    bool,
    typer.Option(
        "--alone",
        help="Write the canaries only, for canaries: {file: ...}, not behind the data.",
        rich_help_panel=OUTPUT,
    ),
]
MadeBy = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Seed of the canaries; default: the configuration's, else 0.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
Replace = Annotated[bool, typer.Option("--overwrite", help="Replace that file.", rich_help_panel=OUTPUT)]


def canaries(
    source: Source,
    kind: KindName = None,
    count: Count = None,
    shape: Shape = None,
    law: LawName = None,
    pool: Pool = None,
    words: Words = None,
    frame: Frame = None,
    times: Times = None,
    per_unit: PerUnit = None,
    x: X = None,
    y: Y = None,
    text: Texts = None,
    ids: Ids = None,
    unit: Unit = None,
    out: OutFile = Path("with_canaries.npz"),
    alone: Alone = False,
    seed: MadeBy = None,
    overwrite: Replace = False,
) -> None:
    """Make canaries, records for an audit, and write the data with them for a training that runs elsewhere.

    The file holds the data and behind them the canaries, which its column canary names with 1: let the training read
    it. A fair coin for each canary then decides whether it is trained on; all other records always are. A script of
    target: {kind: command} gets row numbers of this file. miaudit run with a section canaries needs no such file.
    """
    _check_free(out, overwrite=overwrite)
    options = _Options(kind, count, _shape(shape), law, pool, words, frame, _times(times), per_unit)
    _make(source, options, _Columns(x, y, text, ids, unit), seed, _Target(out, alone))


@dataclass(frozen=True)
class _Options:
    """What canaries are, and how they stand in the training; None for what the command line does not say."""

    kind: str | None
    count: int | None
    shape: tuple[int, ...] | None
    law: str | None
    pool: int | None
    words: int | None
    frame: str | None
    times: tuple[int, ...] | None
    per_unit: int | None

    @property
    def stated(self) -> dict[str, Any]:
        """Those that the command line says."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class _Columns:
    """Columns of a file of data, by what they hold."""

    x: list[str] | None
    y: list[str] | None
    text: str | None
    ids: str | None
    unit: str | None

    @property
    def named(self) -> dict[str, Any]:
        """Those that the command line names; one name alone is no list."""
        columns = {name: tuple(one) if isinstance(one, list) else one for name, one in vars(self).items() if one}
        return {name: one[0] if isinstance(one, tuple) and len(one) == 1 else one for name, one in columns.items()}


@dataclass(frozen=True)
class _Target:
    """The file that is written, of canaries behind the data or alone."""

    path: Path
    alone: bool

    @property
    def suffix(self) -> str:
        """The ending of its name, in lower case."""
        return self.path.suffix.lower()


def _check_free(out: Path, *, overwrite: bool) -> None:
    from miaudit.io import tables

    tables.require_suffix(out, "--out", (*tables.FORMATS, _LINES))
    if out.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{out}, which exists", "name another, or add --overwrite")


def _make(source: Path, options: _Options, columns: _Columns, seed: int | None, target: _Target) -> None:
    """Make the canaries of a configuration, or of a file of data, and write them."""
    from miaudit.collect.canaries import KINDS

    if source.suffix.lower() in (".yaml", ".yml"):
        unused = [name for name, one in vars(columns).items() if one]
        if unused:
            raise typer.BadParameter(f"--{unused[0]} goes with a file of data; a configuration names its columns")
        data, records = _of_configuration(source, options, seed)
    else:
        data, records = _of_file(source, options, seed, columns)
    if target.path.resolve() == (source.parent / data.path).resolve():
        raise InputError(
            "--out", "another file than the data", str(target.path), "name another: the data are needed as they are"
        )
    in_place = next((name for name, kind in KINDS.items() if kind.IN_PLACE and records.made.startswith(kind.WORDS)), "")
    if target.alone and in_place:
        hint = "leave it out: these take the place of documents of the data, which --out then holds without them"
        raise InputError("--alone", f"none for kind {in_place}", "--alone", hint)
    _write(records, data, source.parent, target)


def _times(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError("--times", "whole numbers with commas", repr(text), "4, or 1,4,16,64") from None


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise InputError("--shape", "whole numbers with commas", repr(text), "8,8 is an image of 64 pixels") from None


def _of_configuration(path: Path, options: _Options, seed: int | None) -> tuple[DataSection, Records]:
    """Return the section of the data, and the records with canaries behind them."""
    from miaudit.collect.canaries import Hard
    from miaudit.config import audit as configuration
    from miaudit.config.canaries import reference_of

    settings = configuration.read(path)
    if not isinstance(settings, configuration.CampaignConfig):
        raise InputError(
            "config", "sections target and data", "neither", "or give a file of data, with --kind and --count"
        )
    section = settings.canaries
    if options.kind is None:
        if section is None or section.kind is None:
            hint = "add canaries: {kind: mislabelled, count: 500}, or --kind and --count"
            raise InputError("--kind", "a kind of canaries", "none", hint)
        options = _Options(**{**section.model_dump(include=set(vars(options))), **options.stated})
    kind, reference = _kind(options), None
    how = _insertion(options, settings.data)
    records = settings.data.load(path.parent)
    if seed is None:
        seed = settings.seed if section is None or section.seed is None else section.seed
    if isinstance(kind, Hard):
        announce(settings.user_code, path)
        reference = reference_of(settings.target.build_for(path.parent, records.y))
    return settings.data, _added(records, kind, seed, reference, how)


def _of_file(path: Path, options: _Options, seed: int | None, columns: _Columns) -> tuple[DataSection, Records]:
    """Return the columns of a file as a section of data, and its records with canaries behind them."""
    from miaudit.config.data_section import DataSection
    from miaudit.io import tables

    tables.existing_file(path, "data", (*tables.FORMATS, ".jsonl"))
    if options.kind is None:
        raise typer.BadParameter("--kind is needed with a file of data: mislabelled is a start")
    if not columns.x and columns.text is None:
        raise typer.BadParameter(
            "--x is needed with a file of data: what goes into the model ('*' for every other column)"
        )
    data = DataSection(path=path.name, **columns.named)
    return data, _added(data.load(path.parent), _kind(options), seed or 0, None, _insertion(options, data))


def _kind(options: _Options) -> CanaryKind:
    from miaudit.config.canaries import INSERTION, asked

    return asked(**{name: one for name, one in vars(options).items() if name not in INSERTION})


def _insertion(options: _Options, data: DataSection) -> Insertion:
    """Return how canaries stand in the training; by default, if the data have units, each canary is a unit."""
    from miaudit.config.canaries import insertion

    per_unit = options.per_unit
    if per_unit is None and data.unit is not None and options.kind != "held-out":
        per_unit = 1
    return insertion(options.times, per_unit)


def _added(records: Records, kind: CanaryKind, seed: int, reference: Any, how: Insertion) -> Records:
    from miaudit.collect.canaries import added
    from miaudit.config.canaries import generator

    if records.member is not None:
        hint = "leave data.member out: coins for the canaries are drawn later"
        raise InputError("data.member", "none, beside canaries that are made here", "one", hint)
    with progress("", meanwhile="canaries"):
        return added(records, kind, rng=generator(seed), reference=reference, seed=seed, insertion=how)


def _write(records: Records, data: DataSection, base: Path, target: _Target) -> None:
    """Write the file, and say what stands in it and how a configuration names it."""
    import numpy as np

    from miaudit.collect.records import write_lines
    from miaudit.io import tables

    names = _Names.of(records, data)
    columns = _columns(records, data, names, base)
    canary = columns.pop(COLUMN) if target.alone else columns[COLUMN]
    if target.alone:
        columns = {name: values[canary] for name, values in columns.items()}
    _check_width(columns, target)
    if target.suffix == _LINES:
        write_lines(target.path, columns)
    else:
        tables.write_columns(target.path, {name: np.ascontiguousarray(values) for name, values in columns.items()})
    count = int(np.count_nonzero(canary))
    counted = f"{count:,} canaries"
    if "unit" in names.single:
        units = columns[names.single["unit"]][slice(None) if target.alone else canary]
        counted += f" of {len(np.unique(units)):,} units"
    if target.alone:
        say(f"{target.path}: {counted} ({records.made})")
        say(f"In the configuration: canaries: {{file: {target.path.name}}}")
        return
    counted = f"{len(canary) - count:,} records, and {counted}"
    say(f"{target.path}: {counted} ({records.made}), which have 1 in the column {COLUMN}")
    _say_section(records, names, target)
    _say_left_out(base / data.path, columns)


@dataclass(frozen=True)
class _Names:
    """Names of columns, as the section data of a configuration has them: several to a key, or a single one."""

    listed: dict[str, Any]
    single: dict[str, Any]

    @classmethod
    def of(cls, records: Records, data: DataSection) -> _Names:
        """Return the names of the data; a column that is new with the canaries gets one of ours."""
        single: dict[str, Any] = {"group": data.group if "group" in records.fields else None, "ids": data.ids}
        if "unit" in records.fields:
            single["unit"] = data.unit or UNIT
        if records.times is not None:
            single["times"] = data.times or TIMES
        return cls({"x": data.x, "y": data.y, "text": data.text}, single)

    def of_key(self, key: str) -> list[str]:
        """Return all names of a key that may have several."""
        names = self.listed[key]
        return [names] if isinstance(names, str) else list(names or ())


def _columns(records: Records, data: DataSection, names: _Names, base: Path) -> dict[str, Any]:
    """Return the columns of the file, of which each has a name of its own."""
    from miaudit.collect.records import EVERY, every_other

    y, text = names.of_key("y"), names.of_key("text")
    others = every_other(base / data.path, [*y, *text, *names.single.values(), data.unit, data.times, data.member])
    x = others if data.x == EVERY else names.of_key("x") or text
    columns = records.columns(x, y, canary=COLUMN, **names.single)
    requested = [*x, *y, *(one for one in names.single.values() if one), COLUMN]
    twice = next((name for name in requested if requested.count(name) > 1), None)
    if twice is not None:
        raise InputError("data", f"no column {twice}, which says something of the canaries", "one", "rename it")
    return columns


def _check_width(columns: dict[str, Any], target: _Target) -> None:
    """Refuse a format that cannot hold arrays of so many dimensions."""
    most = 1 if target.suffix == ".csv" else 2
    wide = next((name for name, one in columns.items() if one.ndim > most), None)
    if wide is not None and target.suffix not in (".npz", _LINES):
        received = f"{target.path.name}, which cannot hold {wide} of shape {columns[wide].shape}"
        raise InputError("--out", "a file .npz", received, "write --out with_canaries.npz")


def _say_section(records: Records, names: _Names, target: _Target) -> None:
    """Say how a configuration names the file."""
    keys = {"path": target.path.name, **names.listed, **names.single, COLUMN: COLUMN}
    section = ", ".join(f"{key}: {_yaml(one)}" for key, one in keys.items() if one)
    natural = "\ncanaries: {kind: held-out}" if records.natural else ""
    say(f"In the configuration: data: {{{section}}}{natural}")
    if "times" in names.single:
        say(f"Row numbers that a script gets name a record as often as its {names.single['times']} says: train on each")


def _say_left_out(path: Path, columns: dict[str, Any]) -> None:
    """Say which columns of the data the file does not have."""
    from miaudit.collect.records import every_other

    left = sorted(set(every_other(path, [])) - set(columns))
    if left:
        more = ", ..." if left[8:] else ""
        say(f"Left out, since it is not known what a canary has there: {', '.join(left[:8])}{more}")


def _yaml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_yaml(one) for one in value)}]"
    return f'"{value}"' if value == "*" else str(value)
