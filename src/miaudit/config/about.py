"""The section of a configuration file on what is audited, when and by whom, for the first lines of the page."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from miaudit.config.section import File, Keys
from miaudit.errors import InputError, nearest
from miaudit.errors.options import Option
from miaudit.findings.about import About

_LONGEST = 200


def _text(name: str) -> Any:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
            hint = f'write it in quotes: {name}: "{value}"' if isinstance(value, int | float) else "write a line"
            raise InputError(name, f"text of at most {_LONGEST} characters", repr(value)[:60], hint)
        return value.strip()

    return read


def _date(value: object) -> str:
    """A calendar date, which YAML may have read as one: no file knows what day it is when it is used."""
    try:
        return datetime.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        hint = "write the day itself, so that equal files give equal findings"
        raise InputError("date", "a date, such as 2026-03-01", repr(value)[:60], hint) from None


_MEANING = {
    "model": "What was audited: its name.",
    "version": "And its version, in quotes where it is a number.",
    "owner": "Who answers for the model.",
    "purpose": "What the model is for.",
    "data": "What it was trained on, and who stands outside.",
    "by": "Who ran the audit.",
}
ABOUT = Keys(
    {
        **{name: Annotated[str | None, Option(meaning, read=_text(name))] for name, meaning in _MEANING.items()},
        "date": Annotated[str | None, Option("Of the audit: 2026-03-01. No clock is read.", read=_date)],
    }
)


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the section that texts such as "model=triage" state, as the command line has them.

    Raises
    ------
    InputError
        For a text without a name or a value, another name, and a name that is stated twice.

    Examples
    --------
    >>> pairs_of(["model=triage", "date=2026-03-01"])
    {'model': 'triage', 'date': '2026-03-01'}
    """
    names, section = ", ".join(ABOUT.kinds), dict[str, str]()
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value or name not in ABOUT.kinds:
            allowed, hint = f"NAME=VALUE with a name of {names}", "write model=triage or date=2026-03-01"
            raise InputError("about", allowed, repr(text)[:60], nearest(name, ABOUT.kinds) or hint)
        if name in section:
            raise InputError("about", "each name once", f"{name} twice", "state it once")
        section[name] = value
    return section


class Stated(File):
    """A file, or a command line, that may state what it is about.

    Examples
    --------
    >>> Stated.model_validate({"about": {"model": "triage", "date": "2026-03-01"}}).stated.line
    'Model triage · 2026-03-01'
    """

    about: Annotated[dict[str, Any], ABOUT] = Field(default_factory=dict)

    @property
    def stated(self) -> About | None:
        """What is stated, for findings and their page; None where nothing is."""
        return About(**self.about) if self.about else None
