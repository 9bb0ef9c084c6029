"""Which score a verdict is about where an audit has several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options

__all__ = ["EVERY_SCORE", "Bonferroni", "Declared", "Exploratory", "Headline", "Split", "headline_named"]


@dataclass(frozen=True)
class Declared:
    """The score that counts was named beforehand; the others are shown beside it."""

    score: str


@dataclass(frozen=True)
class Bonferroni:
    """The strongest score counts, and every interval is widened for having looked at all of them."""


@dataclass(frozen=True)
class Split:
    """The strongest score on a random share of the units counts, and is measured on the rest."""

    share: Annotated[float, Option("Of the units, to choose on.", "0.5 is the default", ge=0.1, le=0.9)] = 0.5

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Exploratory:
    """The strongest score counts, uncorrected: labelled exploratory, and no evidence of anything."""


Headline = Declared | Bonferroni | Split | Exploratory
EVERY_SCORE = Bonferroni()


def headline_named(text: object) -> Headline:
    """Map the word at the door to its record: bonferroni, split, exploratory, or the name of a score.

    Raises
    ------
    InputError
        For what is no name.

    Examples
    --------
    >>> headline_named("split"), headline_named("loss")
    (Split(share=0.5), Declared(score='loss'))
    """
    known: dict[str, Headline] = {"bonferroni": Bonferroni(), "split": Split(), "exploratory": Exploratory()}
    if not isinstance(text, str) or not 1 <= len(text) <= 1000:
        raise InputError("headline", f"{', '.join(known)}, or the name of a score", repr(text)[:60], "name one")
    return known.get(text, Declared(text))
