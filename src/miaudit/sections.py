"""What every section of a configuration file is: known keys only, finite numbers, never changed once it was read."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from miaudit.errors import InputError

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
