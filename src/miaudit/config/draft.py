"""Drafts of configuration files, made of a table: what its publisher has to decide, with a mark on each guess.

A schema is public input. What a draft reads off the private table instead is marked, and the marks are refused
(:class:`miaudit.synthesis.schema.Schema`, :class:`miaudit.config.synthesise.SynthesiseConfig`) until somebody has
put public knowledge in its place.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import yaml

from miaudit.config.synthesise import check_other
from miaudit.dp.tradeoff import EpsilonDelta
from miaudit.errors import InputError, one_line
from miaudit.io import secret_names
from miaudit.io.atomic import write_text
from miaudit.io.profile import RARE, ColumnProfile, head, profile
from miaudit.io.secret_names import looks_secret
from miaudit.io.tables import existing_file
from miaudit.synthesis import chow_liu
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.schema import MARK, TABLE_SUFFIXES, Schema, Table
from miaudit.synthesis.undeclared import Undeclared

if TYPE_CHECKING:
    import polars as pl

GRAPH, CONFIG = "graph.yaml", "synthesise.yaml"
_WIDTH = 120
_LEARNED_FROM = 50_000  # rows, or up to twice as many
_FPR = 0.01
_SHOWN = 8  # undeclared values of a column
_RESTS = ("other", "others", "unknown")
_OFF_PRIVATE = "read off the private table"
_MARKED = f"""\
# A DRAFT: miaudit synthesise refuses it while a column has "{MARK}: true". This file is public input, and no
# promise of privacy covers what it says. So state for each such column what is known without the table, from a
# code book, a questionnaire or a law, and then delete its "{MARK}: true". A wide range costs little.
#
# Until then keep this file as private as the table. Its categories are values that at least {RARE} rows have. Its
# ranges are rounded outward, but follow from the least and the largest value, which may be one person's. Kinds,
# decimals, missing values and the choice of columns follow from the table too."""
_SETTLED = "# A draft. It is public input: no promise of privacy covers what it says."
_GRAPH = Template(
    """\
# The columns of $table, and which of them cause which. Every key: docs/synthesis.md
#
$standing
$seen
columns:
$columns
$left_out
$about_edges
edges:$edges
$isolated
"""
)
_NO_EDGES = """
# [A, B] says that A is a cause of B. Without any edge it is learned what goes together, within epsilon. With one,
# state all: a column under isolated is then drawn by itself."""
_LEARNED = """
# Learned from $public: the tree of largest mutual information (Chow and Liu 1968). Its directions are
# guesses, and a tree joins all columns, related or not. Turn edges round, and delete what is no cause; a column
# that is left without an edge goes to isolated."""
_CONFIG = Template(
    f"""\
# A draft of miaudit synthesise $table. Every key: docs/synthesis.md
data:
  file: $file  # private
  outside: clip  # a number beyond its public range is moved to the nearest end; refuse would stop there$others
graph: {GRAPH}
privacy:
  # What is promised to each record. An attacker who accuses 1% of the people outside the table finds at most
  # $half of the members at epsilon 0.5, $one at 1, $two at 2, $four at 4, $eight at 8. Smaller is safer, and noisier.
  epsilon: 1
  delta: $delta  # the part that the promise leaves out; below 1 / records
  # A nominal number: public, round, and not the length of the table. At epsilon 1 a count of two columns' levels
  # together, of $records records, would be off by about $noise (a standard deviation).
  records: $records
# Single columns are counted first, in fine cells of their public ranges, for 15% of the budget. Bins follow from these
# noisy counts, so none have to be stated. Made-up records with these columns then show whether the rest is worth its
# price. If not, the run stops, and 85% is left.
tables: {{two_stages: true}}  # and, without edges, targets: [NAME]: what your users will predict
release: {{records: $records, format: $format}}  # any public number: drawing more records costs no privacy
# What was spent on this table, by all its releases. One ledger for one table, kept beside it.
ledger:
  file: ledger.json
  table: $name
  label: first release
  # The budget of all releases together, fixed with the first. At 1 the first uses all of it. If you may need a
  # second, state a larger budget now, before you see a result: 2 leaves room for one more at epsilon 1.
  epsilon: 1
  delta: $delta
$fidelity
output_dir: results

# The numbers of records above follow from the length of the private table, to one digit. State numbers that
# anyone may know, then delete this line.
{MARK}: true
"""
)
_NO_PUBLIC = (
    "fidelity: held-out  # a fifth of the table is set aside to judge the result; public: by records of public: FILE"
)
_PUBLIC = """public: $public  # records that are not private
fidelity: public  # what the result is compared with"""


def lines_to_add(columns: Sequence[Undeclared]) -> list[str]:
    """Return what a publisher may add to the files for values that no category has: for their own terminal alone.

    The values are private: the lines must not go into findings, pages or logs that others see.
    """
    lines = [
        "values that no category has. A category is public input: add only those that anybody may know (a code book, a "
        "law), and read the rest as one. Your terminal shows them; keep this text as private as the table."
    ]
    for own in columns:
        shown = ", ".join(f"{scalar(value)} ({count:,})" for value, count in own.rows[:_SHOWN])
        left = len(own.rows) - _SHOWN
        lines.append(f"{one_line(own.column)}: {shown}{f' and {left:,} more' * (left > 0)}")
        every = [*own.categories, *(value for value, _ in own.rows[:_SHOWN])]
        lines.append(f"  in {GRAPH}: categories: [{', '.join(map(scalar, every))}]")
    rest = ", ".join(f"{scalar(own.column)}: {_rest(own)}" for own in columns)
    lines.append(f"or in {CONFIG}, under data: others: {{{rest}}}  # each a declared category of its column")
    return lines


def _rest(own: Undeclared) -> str:
    """The category that may stand for others: one with such a name, or a new one."""
    named = (str(category) for category in own.categories if str(category).strip().lower() in _RESTS)
    return scalar(next(named, "other"))


def is_table(path: Path) -> bool:
    """Whether a file is a table to draft for, and not a configuration; what is neither is refused.

    Raises
    ------
    InputError
        If it is not there, a folder, or of another ending.
    """
    return existing_file(path, "config", (".yaml", ".yml", *TABLE_SUFFIXES)).suffix.lower() in TABLE_SUFFIXES


@dataclass(frozen=True)
class Draft:
    """A draft of what ``miaudit synthesise`` reads.

    Attributes
    ----------
    graph, config : texts of the files ``graph.yaml`` and ``synthesise.yaml``, with comments
    columns : what has to be checked in the graph, the columns that were read off the private table first, a line each
    left_out : columns that are not in the draft, and why, a line each
    decisions : what is to be decided in the configuration, a line each
    """

    graph: str
    config: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    decisions: tuple[str, ...]

    @property
    def marked(self) -> bool:
        """Whether a column was read off the private table."""
        return f"{{{MARK}: true" in self.graph

    def write(self, folder: Path, table: Path, *, overwrite: bool) -> None:
        """Write both files into a folder, which is made if it is missing, for those who may read the table.

        Raises
        ------
        InputError
            If there is another graph, and ``overwrite`` is false; one of a run that stopped before the second file is
            the same.
        """
        mode = table.stat().st_mode & 0o666 | 0o600
        if (folder / GRAPH).is_file() and not overwrite:
            if (folder / GRAPH).read_bytes() != self.graph.encode():
                raise _taken(folder, GRAPH)
        else:
            write_text(folder / GRAPH, self.graph, mode=mode, replace=overwrite)
        write_text(folder / CONFIG, self.config, mode=mode, replace=overwrite)


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that has a draft already, which may hold what somebody decided."""
    present = [name for name in (GRAPH, CONFIG) if os.path.lexists(folder / name)]
    alone = present == [GRAPH] and (folder / GRAPH).is_file()  # of a run that stopped? It is compared
    if present and not alone and not overwrite:
        raise _taken(folder, present[0])


def _taken(folder: Path, name: str) -> InputError:
    hint = "name another --out, or add --overwrite, which starts again and loses what was changed in it"
    if (folder / CONFIG).is_file():
        hint = f"go on with it: miaudit synthesise {shlex.quote(str(folder / CONFIG))} --dry-run; or {hint}"
    return InputError("table", f"no draft in {folder} yet", f"its {name}", hint)


@dataclass(frozen=True)
class _Column:
    """A column with what is said of it: as it looks in public records where they have it, else in the private ones."""

    profile: ColumnProfile
    public: bool = False
    marked: bool = True
    warnings: tuple[str, ...] = ()
    screen_notes: tuple[str, ...] = ()  # what follows from the private table, for the screen alone

    @classmethod
    def of(cls, own: ColumnProfile, public: ColumnProfile | None) -> _Column:
        if public is None or not _alike(own, public):
            return cls(own, warnings=_warnings(own))
        gaps = own.missing and not public.missing
        beyond = own.rare or not set(_levels(own)) <= set(_levels(public)) if _levels(public) else False
        warnings = [f"missing: {_OFF_PRIVATE}"] * gaps
        screen_notes = (
            "the private table has other values too, which a run refuses: join them there under one of these",
        ) * beyond
        return cls(replace(public, missing=gaps or public.missing), True, gaps, tuple(warnings), screen_notes)

    @property
    def rest(self) -> str | None:
        """The category that values are read as that the draft does not name; None where it names all, or cannot."""
        return None if self.public else _rest_of(self.profile)

    def line(self) -> str:
        """The item of the list ``columns`` in YAML, with its comments."""
        column, marked = self.profile, self.marked
        rest = (self.rest,) if self.rest is not None and self.rest not in column.categories else ()
        kind = "categorical" if rest else column.kind  # two and others are no longer binary
        pairs = [f"{MARK}: true"] * marked + [f"name: {scalar(column.name)}", f"kind: {kind}"]
        if column.categories:
            pairs.append(f"categories: [{', '.join(map(scalar, (*column.categories, *rest)))}]")
        if column.low is not None and column.high is not None:
            pairs += [f"low: {_number(column.low)}", f"high: {_number(column.high)}"]
        if column.decimals is not None:
            pairs.append(f"decimals: {column.decimals}")
        pairs += ["missing: true"] * column.missing
        notes = "".join(f"  # {note}\n" for note in self.warnings)
        item = wrapped("  - {", pairs, "}", "     ")
        return f"{notes}{item}" + (f"  # check this: {_OFF_PRIVATE}" if marked else "  # read off the public records")

    def sentence(self) -> str:
        """What was guessed, for the screen."""
        column = self.profile
        description: str = column.kind
        if column.kind == "continuous":
            digits = "" if column.decimals is None else f", {column.decimals} decimal{'s' * (column.decimals != 1)}"
            description += f", {_number(column.low)} to {_number(column.high)}{digits}"
        elif column.categories:
            shown = ", ".join(map(scalar, column.categories[:6]))
            description += f", {shown}{' ...' * (len(column.categories) > 6)}"
        description += ", with missing values" * column.missing
        return one_line("; ".join((f"{column.name}: {description}", *self.warnings, *self.screen_notes)))


def draft(table: Path, folder: Path, public: Path | None = None) -> Draft:
    """Draft schema, graph and configuration for a private table.

    Parameters
    ----------
    table : .csv or .parquet file; its first rows are looked at, the rest is counted only
    folder : where the draft goes, to which its paths are relative
    public : a table of records that are not private. Columns that it has are read off it instead, and the graph is
        learned from it: the tree of largest mutual information

    Raises
    ------
    InputError
        If a file cannot be read, or no column can be drafted.
    """
    if public is not None and public.is_file() and table.is_file():
        check_other(public, table, "--public")
    frame, rows = head(table, "table")
    known: dict[str, ColumnProfile] = {}
    if public is not None:
        public_frame, _ = head(public, "--public")
        known = {column.name: column for column in profile(public_frame, rare=1)}
    every = [_Column.of(own, known.get(own.name)) for own in profile(frame)]
    usable = [column.profile.usable and not looks_secret(column.profile.name) for column in every]
    columns = list(compress(every, usable))
    lost = [column.profile for column, good in zip(every, usable, strict=True) if not good]
    if not columns:
        raise _nothing_usable(lost)
    edges = [] if public is None else _learned(public_frame, columns)
    seen = "" if rows == frame.height else f"the first {frame.height:,} of {rows:,} rows were looked at"
    hidden = [column.name for column in lost if looks_secret(column.name)]
    shown = (column for column in lost if not looks_secret(column.name))
    left_out = tuple(one_line(f"{column.name or '(no name)'}: {column.reason}") for column in shown)
    left_out += (secret_names.left_out(hidden),) * bool(hidden)
    budget = _Budget(round_number(rows))
    return Draft(
        graph=_graph(table, public, columns, left_out, edges),
        config=_config(table, folder, public, budget, columns),
        columns=(
            *(column.sentence() for column in columns if column.marked or column.warnings or column.screen_notes),
            *([f"{seen}: values that only later ones have are not in the draft"] if seen else []),
            f"edges: none; name causes and effects among the {len(columns):,} columns, where they are known"
            if public is None
            else "edges: learned from the public records; directions are guesses, and some edges may mean nothing",
        ),
        left_out=left_out,
        decisions=budget.decisions,
    )


def round_number(count: int) -> int:
    """Return a number with one significant digit, near a count.

    Examples
    --------
    >>> round_number(2050), round_number(967), round_number(7)
    (2000, 1000, 7)
    """
    unit: int = 10 ** max(0, len(str(count)) - 1)
    return max(1, round(count / unit) * unit)


def _alike(own: ColumnProfile, public: ColumnProfile) -> bool:
    """Whether a column of the private table can be declared as it looks in public records."""
    wider = own.kind == "continuous" and public.kind != "continuous"
    return public.usable and (own.kind == "empty" or own.text == public.text) and not wider


def _levels(column: ColumnProfile) -> tuple[str | int | float, ...]:
    return (0, 1) if column.kind == "binary" and not column.categories else column.categories


def _nothing_usable(lost: Sequence[ColumnProfile]) -> InputError:
    """The error for a table without a column that can be drafted, with the reasons of the first three."""
    names = ("a name like a secret" if looks_secret(column.name) else repr(column.name) for column in lost[:3])
    why = (f"{name}: {column.reason}" for name, column in zip(names, lost, strict=False))
    received = "; ".join(why) + " ..." * (len(lost) > 3)
    hint = "declare columns by hand: docs/synthesis.md"
    return InputError("table", "at least one column that can be modelled", received, hint)


def _warnings(column: ColumnProfile) -> tuple[str, ...]:
    warnings = []
    if column.rare and _rest_of(column):
        warnings.append(
            f"values that fewer than {RARE} rows have are not named here, and read as {_rest_of(column)} (data.others "
            f"in {CONFIG}): declare those that are publicly known, if they matter"
        )
    elif column.rare:
        warnings.append(
            f"values that fewer than {RARE} rows have are not named here: declare those that are publicly known, or "
            "join them in the table under one name, such as other; a run refuses what is not declared"
        )
    if column.kind == "ordinal":
        warnings.append("categorical, if these numbers are codes without an order")
    elif column.kind == "categorical":
        warnings.append("ordinal, if they have an order: then write them in it")
    return tuple(warnings)


def _rest_of(column: ColumnProfile) -> str | None:
    """The category for values of a column of texts that too few rows have; None where there are none."""
    if not column.rare or not column.categories or not all(isinstance(own, str) for own in column.categories):
        return None
    return next((str(own) for own in column.categories if str(own).strip().lower() in _RESTS), "other")


def _schema(columns: Sequence[_Column]) -> Schema:
    """What would be declared once the marks are deleted."""
    return Schema.from_mapping([yaml.safe_load(replace(column, marked=False).line())[0] for column in columns])


def _noise(columns: Sequence[_Column], budget: _Budget) -> float:
    """The standard deviation of the noise on counts of a pair of columns at epsilon 1, where pairs are chosen."""
    privacy = Privacy(records=budget.records, epsilon=1.0, delta=float(budget.delta))
    plan = TablesPlan(over(_schema(columns), None), TablesConfig(two_stages=True), privacy, budget.records)
    return plan.sd(plan.stages["pairs"] / plan.tree_size if plan.tree_size else 1.0)


def _learned(frame: pl.DataFrame, columns: Sequence[_Column]) -> list[tuple[str, str]]:
    """Return the edges of the tree over the columns that public records decided."""
    shared = [column for column in columns if column.public]
    if not shared:
        hint = "give records with the same columns, or leave --public out"
        raise InputError("--public", "columns of the table", "none that can be modelled", hint)
    some = frame.gather_every(max(1, frame.height // _LEARNED_FROM))
    return list(chow_liu.tree(Table.from_frame(some, _schema(shared), outside="clip")).edges)


# -- the files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Budget:
    """Epsilon 1 for a round number of records, and what follows from it."""

    records: int

    @property
    def delta(self) -> str:
        """The usual delta, 1 / records^1.1, rounded down to one digit."""
        exact = min(0.1, self.records**-1.1)
        digits = -math.floor(math.log10(exact))
        return f"{math.floor(exact * 10**digits + 1e-9) / 10**digits:.{digits}f}"

    def limit(self, epsilon: float) -> str:
        """The largest share of members that an attack can find which is wrong about one non-member in a hundred."""
        share = EpsilonDelta(epsilon, float(self.delta)).tpr_at_fpr(_FPR)
        return "nearly all" if share > 0.99 else f"{math.ceil(1000 * share) / 10:g}%"

    @property
    def decisions(self) -> tuple[str, ...]:
        """What is to be decided, for the screen."""
        promise = f"an attacker who accuses 1% of the non-members finds at most {self.limit(1)} of the members"
        return (
            f"records: {self.records:,} follows from the table; state a number that anyone may know",
            f"epsilon: 1 promises that {promise} (at 2: {self.limit(2)}, at 8: {self.limit(8)})",
            "ledger: all releases of this table together stay below its epsilon, so keep one ledger for the table; "
            "at 1 the first release uses all of it, so state a larger budget now if you may need a second",
        )


def _graph(
    table: Path,
    public: Path | None,
    columns: Sequence[_Column],
    left_out: Sequence[str],
    edges: Sequence[tuple[str, str]],
) -> str:
    """The text of graph.yaml."""
    names = [column.profile.name for column in columns]
    joined = {name for edge in edges for name in edge}
    comments = [f"# What {_named(public)} has was read off it instead: its records are public."] if public else []
    lost = ["", "# Left out; to have one after all, declare it above and under isolated:"] if left_out else []
    pairs = (f"\n  - [{scalar(cause)}, {scalar(effect)}]" for cause, effect in edges)
    about = _NO_EDGES if public is None else Template(_LEARNED).substitute(public=_named(public))
    text = _GRAPH.substitute(
        table=_named(table),
        standing=_MARKED if any(column.marked for column in columns) else _SETTLED,
        seen="\n".join(comments),
        columns="\n".join(column.line() for column in columns),
        left_out="\n".join([*lost, *(f"#   {line}" for line in left_out)]),
        about_edges=about,
        edges="".join(pairs) or " []",
        isolated=wrapped("isolated: [", [scalar(name) for name in names if name not in joined], "]", "  "),
    )
    return re.sub(r"\n\n+", "\n\n", text.replace("\n\ncolumns:", "\ncolumns:"))


def _config(table: Path, folder: Path, public: Path | None, budget: _Budget, columns: Sequence[_Column]) -> str:
    """The text of synthesise.yaml."""
    noise = _noise(columns, budget)
    rest = [f"{scalar(own.profile.name)}: {scalar(own.rest)}" for own in columns if own.rest is not None]
    others = wrapped("\n  others: {", rest, "}  # for values of no category", "    ") if rest else ""
    compared = _NO_PUBLIC if public is None else Template(_PUBLIC).substitute(public=relative(public, folder))
    limits = zip(("half", "one", "two", "four", "eight"), map(budget.limit, (0.5, 1, 2, 4, 8)), strict=True)
    return _CONFIG.substitute(
        dict(limits),
        table=_named(table),
        file=relative(table, folder),
        others=others,
        delta=budget.delta,
        records=budget.records,
        noise=f"{noise:,.0f}" if noise >= 10 else f"{noise:.1f}",
        format=table.suffix.lower().removeprefix("."),
        name=scalar(one_line(table.stem) or "table"),
        fidelity=compared,
    )


def wrapped(start: str, items: Iterable[str], end: str, indent: str) -> str:
    """Return a list or mapping of YAML in lines of limited width."""
    lines, line = [], start
    for place, item in enumerate(items):
        piece = item if place == 0 else f" {item}" if line.endswith(",") else f", {item}"
        if place and len(line) + len(piece) > _WIDTH:
            lines.append(line + ",")
            line, piece = indent, item
        line += piece
    return "\n".join([*lines, line + end])


def scalar(value: str | float) -> str:
    """Return a name or a category as YAML reads it back: text in quotation marks, unless it is a plain word."""
    if not isinstance(value, str):
        return _number(value)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) and isinstance(yaml.safe_load(value), str):
        return value
    written: str = yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf)
    return written.strip()


def _number(value: float | None) -> str:
    """Return a number as every reader of YAML takes it for one: 1e-07 needs a point."""
    if value is not None and float(value).is_integer():
        return str(int(value))
    whole, exponent, power = repr(value).partition("e")
    return f"{whole}{'.0' * (bool(exponent) and '.' not in whole)}{exponent}{power}"


def _named(path: Path) -> str:
    return one_line(path.name)


def relative(path: Path, folder: Path) -> str:
    """Return a path as a configuration has it, relative to its folder where that can be."""
    real = os.path.realpath(path)
    with suppress(ValueError):  # another drive
        real = os.path.relpath(real, os.path.realpath(folder))
    return scalar(Path(real).as_posix())
