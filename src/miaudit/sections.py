"""What every section of a configuration file is: known keys only, finite numbers, never changed once it was read."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from miaudit.errors import InputError, nearest

Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    """The sections that an annotation allows, such as those of a mapping or of a section that may be left out."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in typing.get_args(kind):
        yield from _models_in(inner)
