"""What every configuration file and its sections are: known keys only, finite numbers, never changed once read."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
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
    for item in error.errors():
        where = ".".join(
            str(part) for part in item["loc"] if not str(part).startswith(("tuple[", "function-", "str", "constrained"))
        )
        where = where or "file"
        if item["type"] == "extra_forbidden":
            known = _keys_at(item["loc"][:-1], file)
            hint = nearest(str(item["loc"][-1]), known) or f"known here: {', '.join(known) or 'none'}"
            yield f"{where}: unknown key; {hint}"
        elif item["type"] in ("model_type", "dict_type"):
            yield f"{where}: expected a section of keys, received {item['input']!r:.60}; indent its keys below it"
        elif item["type"] == "tuple_type":
            yield f"{where}: expected a list, received {item['input']!r:.60}; write [a, b]"
        elif item["type"] == "missing":
            yield f"{where}: expected a value, received none; add it"
        elif item["type"] == "value_error" and isinstance(refused := item["ctx"]["error"], Refused):
            section, _, key = where.rpartition(".")
            yield f"{section}.{refused.place(key)}: {str(refused).partition(': ')[2]}"
        elif item["type"] == "value_error":
            yield f"{where}: {item['msg'].removeprefix('Value error, ')}"
        else:
            received = repr(item["input"])[:60]
            yield f"{where}: {item['msg'][0].lower() + item['msg'][1:]}, received {received}; correct the value"


def _keys_at(location: tuple[int | str, ...], file: type[BaseModel]) -> list[str]:
    if not location:
        return list(file.model_fields)
    model: type[BaseModel] = file
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            continue  # a name inside a mapping of sections
        inner = next(_models_in(field.annotation), None)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


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
