"""What every configuration file and its sections are: known keys only, finite numbers, never changed once read."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from miaudit.errors import ConfigError, InputError, nearest, share
from miaudit.errors.extras import missing_modules, pip_line
from miaudit.errors.options import Option, options_of, without_none
from miaudit.io.yaml_file import read_yaml

Whole = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
FilePath = Annotated[Text, "file"]  # must be there when the file has been read; relative to it
FolderPath = Annotated[Text, "folder"]


@dataclass(frozen=True)
class Word:
    """Beside a path in an annotation: a word that may stand in its place, and names nothing that must be there."""

    word: str


# One number stands for a list of one, where there may be any number of them.
OneOrSeveral = BeforeValidator(
    lambda value: (value,) if isinstance(value, int | float) or share.is_percent(value) else value
)


_TRUTH = {"yes": True, "on": True, "no": False, "off": False}  # texts to the reader of YAML, who may mean names


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true where a number belongs, and a number where true or false does: either would be taken for one.

        A percent is the number that it means.
        """
        kinds = set(_leaves(cls.model_fields[str(info.field_name)].annotation))
        if float in kinds and not kinds & {str, Any}:
            value = [*map(share.read, value)] if isinstance(value, list | tuple) else share.read(value)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, bool) and kinds & {int, float} and not kinds & {bool, Any}:
                raise ValueError(f"expected a number, received {str(one).lower()}; write the number itself")
            if kinds <= {bool, type(None)} and isinstance(one, str) and one.lower() in _TRUTH:
                return _TRUTH[one.lower()]
            if isinstance(one, int | float | str) and not isinstance(one, bool) and kinds <= {bool, type(None)}:
                raise ValueError(f"expected true or false, received {one!r:.60}; write one of the two")
        return value

    @classmethod
    def kinds(cls) -> Mapping[str, type[Section]]:
        """Return the sections that may stand in the place of this one, by ``kind``; none where it has no kinds."""
        return {}


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of a section that have their types, limits and words from the records or functions they are for.

    As the annotation of a field, ``Annotated[dict[str, Any], Keys(...)]``, it makes pydantic read a mapping of these
    keys: those that were given come out, with values that the record takes; what was left out, or is none, is left to
    the record.

    Parameters
    ----------
    kinds : the type of each key, an :class:`miaudit.errors.options.Option` and whatever else pydantic reads in its
        annotation
    required : keys that must be there
    make : what the mapping becomes, such as the record itself
    """

    kinds: Mapping[str, Any]
    required: frozenset[str] = frozenset()
    make: Callable[[dict[str, Any]], Any] | None = None

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(_written(kind)), required=name in self.required)
            for name, kind in self.kinds.items()
        }
        config = core_schema.CoreConfig(allow_inf_nan=False)
        mapping = core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=config)
        return core_schema.no_info_after_validator_function(_refusing(self._made), mapping)

    def _made(self, values: dict[str, Any]) -> Any:
        options = {name: value for name, value in values.items() if value is not None}
        return options if self.make is None else self.make(options)


AnySection = type[BaseModel] | Keys


def keys_of(source: Callable[..., Any], *names: str) -> dict[str, Any]:
    """Return the types of options of a record or a function, for :class:`Keys`; all of them where none is named."""
    known, parameters = options_of(source), inspect.signature(source).parameters
    kinds = {}
    for name in names or known:
        kind, option = known[name]
        (plain, optional), default = without_none(kind), parameters[name].default
        if isinstance(plain, type) and is_dataclass(plain) and option.read is None:
            section = Annotated[Any, record_keys(plain)]
            kind = section | None if optional else section
        elif option.read is None and default is not inspect.Parameter.empty:
            option = replace(option, default=default)
        kinds[name] = Annotated[kind, option]
    return kinds


def record_keys(record: Callable[..., Any]) -> Keys:
    """Return the keys of a section that becomes a record."""
    keys, parameters = keys_of(record), inspect.signature(record).parameters
    needed = frozenset(name for name in keys if parameters[name].default is inspect.Parameter.empty)
    return Keys(keys, needed, lambda values: record(**values))


def _refusing(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let what the library refuses pass through pydantic."""

    def made(*values: Any) -> Any:
        try:
            return make(*values)
        except InputError as error:
            raise Refused(error) from None

    return made


def _written(kind: Any) -> Any:
    """The type that a file has for that of an option: in its words, with its limits, and texts that are not endless."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return Text
    if origin is Annotated:
        option = next((note for note in inside[1:] if isinstance(note, Option)), None)
        door = inside[0] if option is None else _door(inside[0], option)
        others = tuple(note for note in inside[1:] if note is not option)
        return Annotated[(door, *others)] if others else door
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_written(one) for one in inside)]  # noqa: UP007 - made of a list
    if origin is Sequence or origin is tuple:
        parts = (inside[0], ...) if origin is Sequence else inside
        several: Any = tuple[tuple(one if one is ... else _written(one) for one in parts)]  # type: ignore[misc]
        return Annotated[several, OneOrSeveral] if inside[1:] == (...,) else several
    return kind


def _door(kind: Any, option: Option) -> Any:
    """The type of one option; what is refused is refused in its words."""
    plain, optional = without_none(kind)
    if option.read is not None:
        read = _refusing(option.read)
        return Annotated[Any, PlainValidator(lambda value: None if value is None else read(value))]
    if option.words_of(plain) is None and plain not in (int, float, bool):
        return _written(kind)
    plain = plain if option.choices is None else str

    def checked(value: Any, inner: Callable[[Any], Any]) -> Any:
        if value is None and optional:
            return None
        value = share.read(value) if option.is_share(plain) else value
        try:
            parsed = value if isinstance(value, bool) or plain is bool else inner(value)
        except ValidationError:
            parsed = value
        if not option.permits(plain, parsed):
            raise Refused(option.refusal("", plain, value))
        return parsed

    return Annotated[plain | None if optional else plain, WrapValidator(checked)]


def with_limits(content: Any, limits: Sequence[str]) -> Any:
    """Return the content of a file with the limits of the command line in the place of its own.

    Examples
    --------
    >>> with_limits({"reporting": {"primary_metric": "auc", "prior": 0.1}}, ["auc=0.6"])
    {'reporting': {'prior': 0.1, 'limits': ['auc=0.6']}}
    """
    if not limits or not isinstance(content, Mapping):
        return content
    reporting = content.get("reporting")
    own = reporting if isinstance(reporting, Mapping) else {}
    replaced = ["primary_metric"] if "synthetic" in content else ["primary_metric", "threshold_for_concern"]
    rest = {name: value for name, value in own.items() if name not in replaced}  # a table's threshold is no such limit
    return {**content, "reporting": {**rest, "limits": list(limits)}}


def without_figures(content: Any) -> Any:
    """Return the content of a file that asks for no charts.

    Examples
    --------
    >>> without_figures({"reporting": {"prior": 0.1}})
    {'reporting': {'prior': 0.1, 'figures': False}}
    """
    own = content.get("reporting") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(own, Mapping | None):
        return content  # which is refused as it is
    return {**content, "reporting": {**(own or {}), "figures": False}}


class File(Section):
    """A whole configuration file."""

    @model_validator(mode="before")
    @classmethod
    def _empty_sections(cls, content: Any) -> Any:
        """A section that is named and left empty has its defaults."""
        return {k: v for k, v in content.items() if v is not None} if isinstance(content, dict) else content

    def refused(self) -> Iterator[str]:
        """Say what the library refuses of it, a line for each."""
        return iter(())

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each; relative paths start at ``base``."""
        return missing(self, base)

    def extras(self) -> Iterator[str]:
        """Name the extras of the installation that are needed, of :data:`miaudit.errors.extras.EXTRAS`."""
        return iter(())


def missing(section: Section, base: Path, where: str = "") -> Iterator[str]:
    """Say which files and folders that a section names are not there, a line for each; ``where`` is its own place."""
    for name, field in type(section).model_fields.items():
        value, notes = getattr(section, name), [*field.metadata, *_leaves(field.annotation)]
        for key, one in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(one, Section):
                yield from missing(one, base, f"{where}{name}.{key}{'.' * bool(key)}")
        for what, is_there in (("file", Path.is_file), ("folder", Path.is_dir)):
            word = any(isinstance(note, Word) and note.word == value for note in notes)
            if what in notes and value is not None and not word and not is_there(base / value):
                yield missing_line(f"{where}{name}", what, value, base)


def missing_line(key: str, kind: str, value: str, base: Path) -> str:
    """Say that a file or folder of the configuration is not there."""
    return (
        f"{key}: expected an existing {kind}, received {value} (looked for {base / value}); "
        "paths are relative to the configuration file"
    )


AnyFile = TypeVar("AnyFile", bound=File)


def read_mapping(path: str | Path, guide: str) -> dict[Any, Any]:
    """Read a .yaml or .yml file as plain values, unchecked but for being a mapping; errors name ``guide``, its page.

    Raises
    ------
    InputError
        If it is missing, no YAML, or no mapping.
    """
    content = read_yaml(path, "config")
    if not isinstance(content, dict):
        received = "an empty file" if content is None else type(content).__name__
        raise InputError("config", "a YAML mapping with sections", received, f"see {guide}")
    return content


def validated(content: dict[Any, Any], kind: type[AnyFile], path: str | Path) -> AnyFile:
    """Check what :func:`read_mapping` gives as a file of a kind; relative paths in it start at the folder of ``path``.

    Raises
    ------
    ConfigError
        With every problem of the file, each with its path in it; an unknown key comes with the nearest known one.
    """
    try:
        config = kind.model_validate(content)
    except ValidationError as error:
        messages = list(problems(error, kind))
    else:
        messages = list(config.refused()) or list(config.missing_files(Path(path).parent))
    if messages:
        raise ConfigError(Path(path).name, messages)
    extras = sorted(set(config.extras()))
    absent = missing_modules(extras)
    if absent:
        received = f"an installation without {', '.join(absent)}"
        raise InputError(Path(path).name, "all that it needs", received, pip_line(*extras))
    return config


class Refused(ValueError):
    """What the library refuses, on its way through pydantic: it knows its place below the key."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error))
        self.error = error

    def place(self, where: str, keys: Iterable[str]) -> str:
        """Return the path of the value: that of pydantic, or more of it where the library says more."""
        argument, (section, dot, key) = self.error.argument, where.rpartition(".")
        if re.match(rf"{re.escape(key)}\b", argument):
            return f"{section}{dot}{argument}"
        return f"{where}.{argument}" if re.split(r"\W", argument)[0] in keys else where


def problems(error: ValidationError, file: type[BaseModel]) -> Iterator[str]:
    """Put what pydantic found into lines: the path of the value, what is expected, what came, what to do.

    Parameters
    ----------
    error : what was raised
    file : the model of the whole file, for the keys that are known at a place
    """
    errors = error.errors()
    for item in errors:
        place = _Place.of(item["loc"], file)
        where = place.name
        if "env" in item["loc"] and item["type"] != "value_error":  # what it received may be a secret
            yield f"{where}: expected a text for each name, received something else, not shown; put it into quotes"
        elif item["type"] == "extra_forbidden":
            yield _of_unknown_key(place)
        elif item["type"] == "missing" and place.kind:
            beside = [one for one in errors if one["type"] != "missing" and one["loc"][:-1] == item["loc"][:-1]]
            if not beside:  # the key may be there, misspelt
                yield f"{place.above}: expected {place.keys[-1]} for kind {place.kind}, received none; add it"
        elif item["type"] == "union_tag_invalid":
            tags = item["ctx"]["expected_tags"].replace("'", "")
            hint = nearest(item["ctx"]["tag"], tags.split(", ")) or "choose one"
            yield f"{where}.kind: expected one of {tags}, received {item['ctx']['tag']!r:.60}; {hint}"
        elif item["type"] in ("model_type", "dict_type", "model_attributes_type"):
            yield f"{where}: expected a section of keys, received {item['input']!r:.60}; indent its keys below it"
        elif item["type"] == "tuple_type":
            yield f"{where}: expected a list, received {item['input']!r:.60}; write [a, b]"
        elif item["type"] in ("missing", "union_tag_not_found"):
            where = where if item["type"] == "missing" else f"{where}.kind"
            yield f"{where}: expected a value, received none; add it"
        elif item["type"] == "value_error" and isinstance(refused := item["ctx"]["error"], Refused):
            yield f"{refused.place(where, place.below)}: {str(refused).partition(': ')[2]}"
        elif item["type"] == "value_error":
            yield f"{where}: {item['msg'].removeprefix('Value error, ')}"
        else:
            received = repr(item["input"])[:60]
            yield f"{where}: {item['msg'][0].lower() + item['msg'][1:]}, received {received}; correct the value"


def _of_unknown_key(place: _Place) -> str:
    """Say that a key belongs to another kind of section, or to none."""
    key, known = place.keys[-1], list(keys_in(place.section)) if place.section else []
    if any(key in keys_in(other) for other in place.kinds.values()):
        own = ", ".join(name for name in known if name not in ("kind", "name")) or "none besides"
        return f"{place.above}: expected keys of kind {place.kind} ({own}), received {key}; remove it"
    return f"{place.name}: unknown key; {nearest(key, known) or 'known here: ' + (', '.join(known) or 'none')}"


def options_in(section: AnySection, above: str = "") -> Iterator[tuple[str, Any, Option]]:
    """Yield each option that a file may say: its path, its type, and what is said of it."""
    for name, kind in keys_in(section).items():
        inner = next(sections_in(kind), None)
        if inner is not None:
            yield from options_in(inner, f"{above}{name}.")
        elif typing.get_origin(kind) is Annotated:
            plain, *notes = typing.get_args(kind)
            yield from ((f"{above}{name}", plain, note) for note in notes if isinstance(note, Option))


def keys_in(section: AnySection) -> Mapping[str, Any]:
    """Return the keys of a section, or of a whole file, each with its annotation."""
    if isinstance(section, Keys):
        return section.kinds
    return {name: (field.annotation, *field.metadata) for name, field in section.model_fields.items()}


def sections_in(kind: Any) -> Iterator[AnySection]:
    """The sections that an annotation allows, such as those of a mapping or of a section that may be left out."""
    if isinstance(kind, Keys) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        yield kind
    for inner in kind if isinstance(kind, tuple) else typing.get_args(kind):
        yield from sections_in(inner)


class _Place(typing.NamedTuple):
    """Where a value stands: the keys that lead to it, the section that has the last of them, its kind and its kinds."""

    keys: list[str]
    section: AnySection | None
    kind: str
    kinds: Mapping[str, type[BaseModel]]

    @classmethod
    def of(cls, location: tuple[int | str, ...], file: AnySection) -> _Place:
        """Follow the keys from a file on; pydantic puts in between what it tried, and the names of kinds."""
        place = cls([], file, "", _kinds_of(file))
        for number, part in enumerate(map(str, location), start=1):
            if part in place.kinds and not place.kind:
                place = place._replace(section=place.kinds[part], kind=part)
            elif not part.startswith(("tuple[", "function-", "str", "constrained")):
                place.keys.append(part)
                if number < len(location):
                    inside = _section_at(place.section, part)
                    place = place if inside is place.section else cls(place.keys, inside, "", _kinds_of(inside))
        return place

    @property
    def name(self) -> str:
        """The keys, joined by dots."""
        return ".".join(self.keys) or "file"

    @property
    def above(self) -> str:
        """The section of the last key."""
        return ".".join(self.keys[:-1]) or "file"

    @property
    def below(self) -> list[str]:
        """The keys that the value itself may have."""
        inside = _section_at(self.section, self.keys[-1] if self.keys else "")
        return list(keys_in(inside)) if inside else []


def _section_at(section: AnySection | None, key: str) -> AnySection | None:
    """The section that is the value of a key; the same one for a key that it has not, a name inside a mapping."""
    kind = keys_in(section).get(key) if section else None
    return section if kind is None else next(sections_in(kind), None)


def _kinds_of(section: AnySection | None) -> Mapping[str, type[BaseModel]]:
    return section.kinds() if isinstance(section, type) and issubclass(section, Section) else {}


def _leaves(kind: Any) -> Iterator[Any]:
    """The plain types that an annotation is made of."""
    inside = typing.get_args(kind)
    if inside and typing.get_origin(kind) is not Literal:
        for inner in inside:
            yield from _leaves(inner)
    else:
        yield kind
