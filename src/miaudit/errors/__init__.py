"""Errors that a user can act on: what was expected, what came, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["ConfigError", "DesignError", "InputError", "MiauditError", "OutputError"]


class MiauditError(Exception):
    """The root of every error that miaudit raises on purpose; the command line prints it in one line."""


class InputError(MiauditError):
    """A value that cannot be used.

    Parameters
    ----------
    argument : str
        The name of the argument, column, file or option.
    allowed : str
        What is permitted there.
    received : str
        What came instead.
    next_step : str
        What the user can do about it.

    Examples
    --------
    >>> raise InputError("confidence", "a number in (0, 1)", "95", "write 0.95 for 95%")
    Traceback (most recent call last):
    miaudit.errors.InputError: confidence: expected a number in (0, 1), received 95; write 0.95 for 95%
    """

    def __init__(self, argument: str, allowed: str, received: str, next_step: str) -> None:
        self.argument = argument
        self.allowed = allowed
        self.received = received
        self.next_step = next_step
        super().__init__(one_line(f"{argument}: expected {allowed}, received {received}; {next_step}"))

    @classmethod
    def of_array(cls, argument: str, allowed: str, received: Any, next_step: str) -> InputError:
        """Return the error for an array of another type or shape than is allowed."""
        return cls(argument, allowed, f"{received.dtype} of shape {received.shape}", next_step)


class ConfigError(MiauditError):
    """A configuration file with problems: all of them, each with its path in the file."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.problems = tuple(one_line(problem) for problem in problems)
        head = f"{one_line(source)}: "
        if len(self.problems) == 1:
            super().__init__(head + self.problems[0])
        else:
            super().__init__(head + f"{len(self.problems)} problems\n" + "\n".join(f"  {p}" for p in self.problems))


class DesignError(MiauditError):
    """Evidence whose design does not support the question; the message names the function that does."""


class OutputError(MiauditError):
    """Results cannot be written where they were asked for; nothing was changed."""


def one_line(text: str) -> str:
    """Fold a message into a single printable line, so that text from a file cannot forge further lines."""
    return " ".join("".join(ch if ch.isprintable() or ch.isspace() else "?" for ch in text).split())


def printable(text: str) -> str:
    """Keep the lines of a text, without what steers a terminal: escape characters come out of names of files too."""
    return "".join(ch if ch.isprintable() or ch in "\n\t" else "?" for ch in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is nearest to a misspelt one, or nothing.

    Examples
    --------
    >>> nearest("fpr_target", ["fpr_targets", "type"])
    'did you mean fpr_targets?'
    >>> nearest("zzz", ["fpr_targets"])
    ''
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""
