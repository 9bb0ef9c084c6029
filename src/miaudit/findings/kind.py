"""The file findings.json of any kind: one base for its records, their text, and reading them back as strictly."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_type_hints

from miaudit.errors import InputError, MiauditError, OutputError, nearest, one_line
from miaudit.errors.entry_points import Offered
from miaudit.errors.options import check_choice
from miaudit.io import atomic, frames
from miaudit.metrics.rounding import written

if TYPE_CHECKING:
    import altair as alt
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

_LARGEST = 200_000_000
_MOST_WHOLE = 2**53  # beyond it not every whole number is a float
WIDTH = 100  # characters of a line of text
_NUMBERS = ("value", "low", "high", "standard_error", "delta", "confidence")
_COLUMNS = ("kind", "score", "name", "estimator", *_NUMBERS, "note")


@dataclass(frozen=True)
class Drawing:
    """What shows findings of any kind: as a page, as a cell of a notebook, and as charts of Altair by name.

    The report stands above the findings. It offers itself as an entry point of the group ``miaudit.drawing``.
    """

    page: Callable[[FindingsRecord], str]
    cell: Callable[[FindingsRecord], str]
    charts: Callable[[FindingsRecord], Mapping[str, alt.LayerChart]]


_DRAWINGS: Offered[Drawing] = Offered("miaudit.drawing", Drawing, {})


def _drawing() -> Drawing:
    if "report" not in _DRAWINGS:
        raise MiauditError("nothing draws findings here: install miaudit with pip, which registers its report")
    return _DRAWINGS["report"]


class FindingsRecord:
    """Base of the kinds of findings: frozen dataclasses whose fields are what a findings.json holds.

    Attributes
    ----------
    FORMAT : version of the kind's format
    KIND : its name in the file
    DERIVED : properties that stand in the file too, before the fields; ``part.name`` stands at the end of that part
    verdict : what is concluded; a kind without one has an ``exit_code`` of its own
    repeat : version, command, and whatever else it takes to repeat the work
    """

    FORMAT: ClassVar[int] = 1
    KIND: ClassVar[str]
    DERIVED: ClassVar[tuple[str, ...]] = ("exit_code",)
    repeat: Mapping[str, Any]
    verdict: Any
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    def __init_subclass__(cls) -> None:
        """Keep the short repr: a dataclass makes one of all its fields otherwise."""
        cls.__repr__ = FindingsRecord.__repr__  # type: ignore[method-assign]

    @property
    def exit_code(self) -> int:
        """Of the command line: 0 within the limits, 3 concern, 4 not answered; that of the verdict."""
        code: int = self.verdict.exit_code
        return code

    @classmethod
    def head(cls) -> dict[str, Any]:
        """Return what every file of this kind starts with."""
        return {"format": cls.FORMAT, "kind": cls.KIND}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in the order of the format; numbers that are not finite become None."""
        held: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        held |= {key: part.to_dict() for key, part in vars(self).items() if isinstance(part, FindingsRecord)}
        before = {}
        for name in self.DERIVED:
            part, _, leaf = name.rpartition(".")
            if not part:
                before[leaf] = getattr(self, leaf)
            elif held[part] is not None:
                held[part][leaf] = getattr(getattr(self, part), leaf)
        content = {**self.head(), **before, **held}
        return {key: plain(value) for key, value in content.items()}

    def to_json(self) -> str:
        """Return findings.json as text: equal findings give equal bytes."""
        return json.dumps(_canonical(self.to_dict()), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the findings as one self-contained page; folders on the way to it are made.

        Raises
        ------
        InputError
            If there is a folder of that name, or a file and ``overwrite`` is false.
        OutputError
            If it cannot be written.
        """
        place = Path(path)
        if place.is_dir():
            raise InputError("path", "a file", f"{path}, a folder", f"pass {str(place / 'report.html')!r}")
        if place.exists() and not overwrite:
            raise _there(path)
        page = _drawing().page(self)
        try:
            atomic.write_text(place, page, replace=overwrite)
        except FileExistsError as error:  # where a folder should be, or since the page was begun
            if place.exists():
                raise _there(path) from error
            raise OutputError(one_line(f"{path}: a file stands where its folder should be; name another")) from error
        except OSError as error:
            raise OutputError(one_line(f"{path}: cannot be written ({error.strerror or error})")) from error

    def plot(self, name: str | None = None) -> alt.LayerChart:
        """Return a chart of the page as one of Altair, to show, change or save.

        Parameters
        ----------
        name : such as "roc", "distribution" or "bounds", or the first letters of one; default: the ROC curve on a
            logarithmic axis where there is one, else the first chart of the page

        Raises
        ------
        InputError
            For a chart that these findings do not have; it names those that they have.
        """
        by_name = _drawing().charts(self)
        if not by_name:
            raise InputError("findings", "findings with a chart", f"{self.KIND} without any", "print(findings)")
        wanted = name or next((one for one in by_name if one.startswith("roc")), next(iter(by_name)))
        chosen = wanted if wanted in by_name else next((one for one in by_name if one.startswith(wanted)), None)
        if chosen is None:
            raise InputError(
                "name", f"one of {', '.join(by_name)}", repr(name), nearest(wanted, by_name) or "choose one"
            )
        return by_name[chosen]

    def _rows(self) -> Iterable[Mapping[str, Any]]:
        """Yield what :meth:`to_frame` holds."""
        return ()

    def to_frame(self, library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return the numbers, with their intervals, as a data frame.

        Parameters
        ----------
        library : "polars", which every installation has, or "pandas"

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            A row for each number: ``kind`` ("metric", "bound", "rate", "difference", ...), ``score`` (what it is of),
            ``name``, ``estimator`` (of a bound its method), ``value``, ``low``, ``high``, ``standard_error`` (of a
            metric that has one), ``delta`` (of a bound on epsilon), ``confidence`` and ``note``; what a row does not
            have is missing. Findings that are words alone (a verification) have no row.

        Raises
        ------
        InputError
            For another library, or pandas where it is not installed.
        """
        import polars as pl

        check_choice("library", library, ("polars", "pandas"))
        schema = {name: pl.Float64 if name in _NUMBERS else pl.String for name in _COLUMNS}
        frame = pl.DataFrame([dict(row) for row in self._rows()], schema=schema)
        return frame if library == "polars" else frames.to_pandas(frame, "library")

    @property
    def _said(self) -> str:
        """The verdict, or what stands in its place."""
        text: str | Iterable[str] = getattr(self, "text", "") or getattr(getattr(self, "verdict", None), "text", "")
        return text if isinstance(text, str) else " ".join(text)

    def __repr__(self) -> str:
        """One line: the kind, the exit code, and how the verdict begins."""
        return (
            f"{type(self).__name__}(exit code {self.exit_code}: {shorten(one_line(self._said), 72, placeholder='...')})"
        )

    def __str__(self) -> str:
        """Verdict and numbers on a screen: at most 24 lines of at most 100 characters."""
        rows = [_line(row) for row in sorted(self._rows(), key=lambda row: row["kind"] != "difference")]
        more = f"notes: {len(getattr(self, 'notes', ()))}; findings.to_html(path) writes all of it"
        return "\n".join([*wrap(one_line(self._said), WIDTH, max_lines=6), *cut(rows, 16), more])

    def _repr_html_(self) -> str:
        """Show the findings in a notebook, all text escaped."""
        return _drawing().cell(self)

    def as_written(self) -> Self:
        """Return the same with what its file holds: plain values, None for a number that is not finite."""
        record: Self = _as_written(self)
        return record

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Make findings of plain values that follow the schema: what is read here is written again as it was.

        Raises
        ------
        InputError
            With the place that does not follow the schema.
        """
        from pydantic import ValidationError

        version = content.get("format") if isinstance(content, dict) else type(content).__name__
        if version is True or version != cls.FORMAT:
            next_step = "use the version of miaudit that wrote these findings"
            raise InputError("format", str(cls.FORMAT), repr(version)[:40], next_step)
        try:
            reader = _reader(cls)  # type: ignore[arg-type] # a class is hashable
            record: Self = reader.validate_json(json.dumps(cls._fields_of(content)), strict=True)
            again = record.to_dict()
        except ValidationError as error:
            raise _refused(content, error.errors()[0]) from error
        except RecursionError as error:
            raise InputError("findings", "plain values", "values nested too deeply", "run the audit again") from error
        for key in again:
            if key not in content or again[key] != content[key]:
                where = f"findings[{key!r}]" if key in content else "findings"
                raise _against_schema(where, f"{content.get(key)!r}, and {again[key]!r} follows from the rest")
        return record

    @classmethod
    def _fields_of(cls, content: Mapping[str, Any]) -> dict[str, Any]:
        """The values that are fields: without what every file starts with, and without what follows from the rest."""
        by_name = {key: value for key, value in content.items() if key not in cls.head()}
        for name in cls.DERIVED:
            part, _, leaf = name.rpartition(".")
            if not part:
                by_name.pop(leaf, None)
            elif isinstance(inner := by_name.get(part), dict):
                by_name[part] = {key: value for key, value in inner.items() if key != leaf}
        return by_name

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read and check a findings.json of this kind, or that of a results folder.

        Raises
        ------
        InputError
            If it is missing, no JSON, of another format version or kind, or does not follow the schema.
        """
        content = parse(Path(path) / "findings.json" if Path(path).is_dir() else path)
        own, kind = getattr(cls, "KIND", "audit"), content.get("kind", "audit")
        if kind != own:
            hint = "read it by the class of its kind, or by miaudit.findings.kinds.read, which reads any"
            raise InputError("findings", f"those of kind {own}", f"those of kind {kind!r:.40}", hint)
        return cls.from_dict(content)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema (draft 2020-12) of a file of this kind.

        Examples
        --------
        >>> from miaudit.findings.comparison import Comparison
        >>> Comparison.json_schema()["properties"]["kind"]
        {'const': 'comparison'}
        """
        return _schema(cls)  # type: ignore[arg-type] # a class is hashable


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    """What checks the fields of a kind; pydantic is loaded where findings are read."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _in_order(value: Any, check: Callable[[Any], Any]) -> Any:
    """Keep the order of the file, which pydantic gives up."""
    checked = check(value)
    return {key: checked[key] for key in value}


@cache
def _schema(kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Complete(GenerateJsonSchema):
        """Files hold every field of a record, also those with a default."""

        def default_schema(self, schema: Any) -> Any:
            return self.generate_inner(schema["schema"])

        def field_is_required(self, field: Any, total: bool) -> bool:
            return field["type"] == "dataclass-field" or super().field_is_required(field, total)

    schema = _reader(kind).json_schema(schema_generator=Complete)
    before: dict[str, Any] = {key: {"const": value} for key, value in kind.head().items()}
    hints = get_type_hints(kind)
    for name in kind.DERIVED:
        part, _, leaf = name.rpartition(".")
        if not part:
            before[leaf] = TypeAdapter(get_type_hints(getattr(kind, leaf).fget)["return"]).json_schema()
            continue
        owner = next(one for one in (hints[part], *getattr(hints[part], "__args__", ())) if hasattr(one, leaf))
        inner = schema["$defs"][owner.__name__]
        inner["properties"][leaf] = TypeAdapter(get_type_hints(getattr(owner, leaf).fget)["return"]).json_schema()
        inner["required"].append(leaf)
    schema["properties"] = before | schema["properties"]
    schema["required"] = [*before, *schema["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


@dataclass(frozen=True)
class Entries:
    """What a mapping of a findings.json holds, beside its type: the type of each key, and of any other.

    Attributes
    ----------
    types : by key
    others : type of keys that are not among them; None where there are none
    optional : keys that may be missing
    """

    types: Mapping[str, Any]
    others: Any = None
    optional: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Return a hash: pydantic keeps such annotations in sets."""
        return id(self)

    def __get_pydantic_core_schema__(self, _source: Any, handler: Any) -> Any:
        """Return what pydantic checks such a mapping by."""
        from pydantic_core import core_schema

        fields = {
            key: core_schema.typed_dict_field(handler.generate_schema(kind), required=key not in self.optional)
            for key, kind in self.types.items()
        }
        behaviour: Any = {"extra_behavior": "forbid"}
        if self.others is not None:
            behaviour = {"extra_behavior": "allow", "extras_schema": handler.generate_schema(self.others)}
        return core_schema.no_info_wrap_validator_function(
            _in_order, core_schema.typed_dict_schema(fields, **behaviour)
        )


@dataclass(frozen=True)
class Whole:
    """Marks a field that holds findings of a kind of their own, as their own file would be."""

    def __get_pydantic_core_schema__(self, source: Any, _handler: Any) -> Any:
        """Return what pydantic checks them by: their own reading."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(source.from_dict, core_schema.dict_schema())


@dataclass(frozen=True)
class Rule:
    """What a record that is read must follow beyond the types of its fields: a function that raises ValueError."""

    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return what pydantic checks such a record by."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True)
class Pattern:
    """The regular expression that a text follows."""

    regex: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return what pydantic checks such a text by."""
        return handler(source) | {"pattern": self.regex}


def cut(lines: list[str], most: int) -> list[str]:
    """Return at most so many lines, none of them too long, with how many more there are."""
    shown = lines if len(lines) <= most else [*lines[: most - 1], f"  and {len(lines) - most + 1} more"]
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in shown]


def _line(row: Mapping[str, Any]) -> str:
    """A row of the frame as a line of text."""
    value = "-" if row.get("value") is None else f"{row['value']:.4g}"
    low = "-" if row.get("low") is None else written(row["low"], ".4g", "down")
    high = "-" if row.get("high") is None else written(row["high"], ".4g", "up")
    limits = "" if (low, high) == ("-", "-") else f" ({low} to {high})"
    name = " ".join(str(row[key]) for key in ("score", "name") if row.get(key))
    return one_line(f"{shorten(name, 60)}: {value}{limits}").replace("", "  ", 1)


def _there(path: str | Path) -> InputError:
    return InputError("path", "a new file", f"{path}, which is there", "name another, or pass overwrite=True")


def plain(value: Any) -> Any:
    """Return plain values: mappings, lists, text and finite numbers; a number that is not finite becomes None.

    Examples
    --------
    >>> plain({"a": (1, float("inf"))})
    {'a': [1, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(value.item()) if hasattr(value, "item") else str(value)


def _canonical(value: Any) -> Any:
    """Return plain values with whole numbers as integers: 1 and 1.0 are equal, and are written alike (RFC 8785)."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _MOST_WHOLE
    return int(value) if whole else value


def _as_written(value: Any) -> Any:
    if is_dataclass(value):
        written_copy = copy.copy(value)
        for name in (f.name for f in fields(value)):
            object.__setattr__(written_copy, name, _as_written(getattr(value, name)))
        return written_copy
    if isinstance(value, tuple):
        return tuple(map(_as_written, value))
    if isinstance(value, Mapping):
        return {str(key): _as_written(item) if is_dataclass(item) else plain(item) for key, item in value.items()}
    return plain(value)


def parse(path: str | Path) -> dict[str, Any]:
    """Read a findings.json of any kind, unchecked but for being a JSON object of a reasonable size.

    Raises
    ------
    InputError
        If it is missing, too large, or no JSON object.
    """
    from miaudit.io.tables import existing_file

    path = existing_file(path, "findings", (".json",))
    if path.stat().st_size > _LARGEST:
        raise InputError(
            "findings", "a file below 200 MB", f"{path.stat().st_size:,} bytes", "this is no findings.json"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(
            "findings", "a JSON file", f"{path.name} ({one_line(str(error))[:100]})", "write it again"
        ) from error
    if not isinstance(content, dict):
        raise InputError("format", "1", repr(type(content).__name__), "this is no findings.json")
    return content


def _refused(content: Any, error: ErrorDetails) -> InputError:
    """Say where a file does not follow its schema, as far as the place is there."""
    where = "findings"
    for part in error["loc"]:
        try:
            content = content[part]
        except (LookupError, TypeError):
            break
        where += f"[{part!r}]"
    if error["type"] in ("missing", "missing_argument"):
        return _against_schema(where, f"no {error['loc'][-1]!r}")
    return _against_schema(where, f"{error['input']!r:.60} ({error['msg']})")


def _against_schema(where: str, received: str) -> InputError:
    return InputError(where, "what the schema of findings.json says", received[:120], "run the audit again")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
