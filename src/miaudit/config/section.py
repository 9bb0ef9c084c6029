"""What every configuration file and its sections are: known keys only, finite numbers, never changed once read."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from miaudit.errors import ConfigError, InputError, nearest
from miaudit.io import yaml_file
from miaudit.io.tables import existing_file

Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true where a number belongs, and a number where true or false does: either would be taken for one."""
        kinds = set(_leaves(cls.model_fields[str(info.field_name)].annotation))
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, bool) and kinds & {int, float} and not kinds & {bool, Any}:
                raise ValueError(f"expected a number, received {str(one).lower()}; write the number itself")
            if isinstance(one, int | float | str) and not isinstance(one, bool) and kinds <= {bool, type(None)}:
                raise ValueError(f"expected true or false, received {one!r:.60}; write one of the two")
        return value

    @classmethod
    def kinds(cls) -> Mapping[str, type[Section]]:
        """Return the sections that may stand in the place of this one, by ``kind``; none where it has no kinds."""
        return {}


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

    def missing_files(self, base: Path) -> Iterator[str]:  # noqa: ARG002 - of the kinds that name files
        """Say which files are not there, a line for each; relative paths start at ``base``."""
        return iter(())


AnyFile = TypeVar("AnyFile", bound=File)


def read_mapping(path: str | Path, guide: str) -> dict[Any, Any]:
    """Read a configuration file as plain values, unchecked but for being a mapping.

    Parameters
    ----------
    path : of a .yaml or .yml file
    guide : the page that explains its keys, for the error

    Raises
    ------
    InputError
        If it is missing, no YAML, or no mapping.
    """
    content = yaml_file.read(existing_file(path, "config", (".yaml", ".yml")), "config")
    if not isinstance(content, dict):
        found = "an empty file" if content is None else type(content).__name__
        raise InputError("config", "a YAML mapping with sections", found, f"see {guide}")
    return content


def validated(content: dict[Any, Any], kind: type[AnyFile], path: str | Path) -> AnyFile:
    """Check the plain values of a configuration file.

    Parameters
    ----------
    content : as :func:`read_mapping` gives it
    kind : what the file must be
    path : where it came from; relative paths in it start at its folder

    Raises
    ------
    ConfigError
        With every problem of the file, each with its path in it; an unknown key comes with the nearest known one.
    """
    try:
        config = kind.model_validate(content)
    except ValidationError as error:
        found = list(problems(error, kind))
    else:
        found = list(config.refused()) or list(config.missing_files(Path(path).parent))
    if found:
        raise ConfigError(Path(path).name, found)
    return config


class Refused(ValueError):
    """What the library refuses, on its way through pydantic: it knows its place below the key."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error))
        self.error = error

    def place(self, key: str) -> str:
        """Return the path of the value from its key on."""
        argument = self.error.argument
        return argument if re.match(rf"{re.escape(key)}\b", argument) else key


def problems(error: ValidationError, file: type[BaseModel]) -> Iterator[str]:
    """Put what pydantic found into lines: the path of the value, what is expected, what came, what to do.

    Parameters
    ----------
    error : what was raised
    file : the model of the whole file, for the keys that are known at a place
    """
    found = error.errors()
    for item in found:
        keys, inside, kind, kinds = _place(item["loc"], file)
        where, above = ".".join(keys) or "file", ".".join(keys[:-1]) or "file"
        if item["type"] == "extra_forbidden":
            yield _of_unknown_key(keys[-1], where, above, inside, kind, kinds)
        elif item["type"] == "missing" and kind:
            beside = [one for one in found if one["type"] != "missing" and one["loc"][:-1] == item["loc"][:-1]]
            if not beside:  # the key may be there, misspelt
                yield f"{above}: expected {keys[-1]} for kind {kind}, received none; add it"
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
            section, _, key = where.rpartition(".")
            yield f"{section}.{refused.place(key)}: {str(refused).partition(': ')[2]}"
        elif item["type"] == "value_error":
            yield f"{where}: {item['msg'].removeprefix('Value error, ')}"
        else:
            received = repr(item["input"])[:60]
            yield f"{where}: {item['msg'][0].lower() + item['msg'][1:]}, received {received}; correct the value"


def _of_unknown_key(
    key: str, where: str, above: str, section: type[BaseModel] | None, kind: str, kinds: Mapping[str, type[BaseModel]]
) -> str:
    """Say that a key belongs to another kind of section, or to none."""
    known = list(section.model_fields) if section else []
    if any(key in other.model_fields for other in kinds.values()):
        own = ", ".join(name for name in known if name not in ("kind", "name")) or "none besides"
        return f"{above}: expected keys of kind {kind} ({own}), received {key}; remove it"
    return f"{where}: unknown key; {nearest(key, known) or 'known here: ' + (', '.join(known) or 'none')}"


def _place(
    location: tuple[int | str, ...], file: type[BaseModel]
) -> tuple[list[str], type[BaseModel] | None, str, Mapping[str, type[BaseModel]]]:
    """Return the keys that lead to a value, the section that has the last of them, its kind, and all kinds of it."""
    keys: list[str] = []
    section: type[BaseModel] | None = file
    kind, kinds = "", _kinds_of(file)
    for number, part in enumerate(location, start=1):
        if part in kinds and not kind:
            section, kind = kinds[str(part)], str(part)
            continue
        if str(part).startswith(("tuple[", "function-", "str", "constrained")):
            continue
        keys.append(str(part))
        field = section.model_fields.get(str(part)) if section else None
        if field is not None and number < len(location):  # else a name inside a mapping of sections, or the value
            section = next(_models_in(field.annotation), None)
            kind, kinds = "", _kinds_of(section)
    return keys, section, kind, kinds


def _kinds_of(section: type[BaseModel] | None) -> Mapping[str, type[BaseModel]]:
    return section.kinds() if section and issubclass(section, Section) else {}


def _leaves(kind: Any) -> Iterator[Any]:
    """The plain types that an annotation is made of."""
    inside = typing.get_args(kind)
    if inside and typing.get_origin(kind) is not Literal:
        for inner in inside:
            yield from _leaves(inner)
    else:
        yield kind


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    """The sections that an annotation allows, such as those of a mapping or of a section that may be left out."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in typing.get_args(kind):
        yield from _models_in(inner)
