"""Probes with scores: the lines of a file of probes, to each of which a model's numbers were added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.errors.checks import is_number
from miaudit.io import probes, tables
from miaudit.io.probes import Probe
from miaudit.io.server_answers import SENTINEL, ServerAnswers
from miaudit.io.token_records import LARGEST, ROUNDING, Limits, Place, check_label, json_object, numbered_lines

__all__ = ["LOG_PROBABILITY", "REFERENCE", "ScoredProbes", "holds", "read", "read_lines", "score_names"]

LOG_PROBABILITY, REFERENCE = "log_probability", "reference_log_probability"
_TOKENS = "token_logprobs"  # a list, of which the sum is taken
_ANSWERS = ("logprobs", "prompt_logprobs", "choices")  # what servers call their answers
_KNOWN = (LOG_PROBABILITY, "score", _TOKENS, *_ANSWERS)
_SCORES = f"a score on each line: {LOG_PROBABILITY}, score, {_TOKENS} or a server's answer"


@dataclass(frozen=True, eq=False)
class ScoredProbes:
    """Probes with their scores.

    Attributes
    ----------
    name : of the file
    rows : n probes, in the order of the file
    scores : arrays (n,) by name; higher means more member-like, unless the file holds losses
    reference : array (n,), log-probabilities of a reference model, or None
    notes : what was left out of servers' answers, in sentences
    """

    name: str
    rows: tuple[Probe, ...]
    scores: dict[str, NDArray[np.float64]]
    reference: NDArray[np.float64] | None
    notes: tuple[str, ...] = ()


def holds(path: str | Path) -> bool:
    """Whether the first line of a .jsonl file is of a probe."""
    path = Path(path)
    if path.suffix.lower() != probes.SUFFIX or not path.is_file():
        return False
    with path.open("rb") as handle:
        try:
            _, line = next(numbered_lines(handle, path.name, Limits().line_bytes))
            content = json.loads(line)  # NaN too, which is refused later, by the number of its line
        except (StopIteration, InputError, ValueError, RecursionError):
            return False
    return isinstance(content, dict) and {"record", "candidate"} <= content.keys()


class Line(NamedTuple):
    """A probe, what else its line says, and where that is."""

    probe: Probe
    more: dict[str, Any]
    at: Place


def read_lines(path: str | Path) -> list[Line]:
    """Read probes, and what else each line says.

    Raises
    ------
    InputError
        With the number of the line, for one that is no probe.
    """
    path = tables.existing_file(path, "probes", (probes.SUFFIX,))
    lines = list[Line]()
    with path.open("rb") as handle:
        for number, line in numbered_lines(handle, path.name, Limits().line_bytes):
            at = Place(path.name, number)
            content = json_object(line, at)
            more = {name: value for name, value in content.items() if name not in Probe._fields}
            lines.append(Line(_probe(content, at), more, at))
    if not lines:
        raise InputError("probes", "a line or more", f"none in {path.name}", "miaudit decoys writes them")
    return lines


def read(path: str | Path, score: Sequence[str] = ()) -> ScoredProbes:
    """Read probes with their scores.

    Parameters
    ----------
    path : .jsonl file as miaudit decoys wrote it, with a number or more on each line
    score : names of the numbers; default: ``log_probability``, ``score``, the sum of ``token_logprobs``, or the sum of
        the log-probabilities of a server's answer, whichever is on the first line

    Raises
    ------
    InputError
        With the number of the line, for one that is no probe, or has no score or one that is no finite number.
    """
    lines, answers = read_lines(path), ServerAnswers()
    first = lines[0]
    names = tuple(score) or (_default(first),)
    scores = {
        LOG_PROBABILITY if name in (_TOKENS, *_ANSWERS) else name: np.array(
            [_score(line, name, answers) for line in lines]
        )
        for name in names
    }
    reference = None
    if REFERENCE in first.more and REFERENCE not in names:
        reference = np.array([_score(line, REFERENCE, answers) for line in lines])
    rows = tuple(line.probe for line in lines)
    return ScoredProbes(Path(path).name, rows, scores, reference, answers.notes)


def _probe(content: dict[str, Any], at: Place) -> Probe:
    missing = [field for field in Probe._fields if field not in content]
    if missing:
        hint = "keep the lines that miaudit decoys wrote, and add the score to each"
        at.refuse("keys", ", ".join(Probe._fields), f"none named {missing[0]}", hint)
    candidate = content["candidate"]
    if type(candidate) is not int or candidate < 0:
        at.refuse("candidate", "a whole number from 0", repr(candidate)[:40], "keep the lines as they were written")
    labels = {name: check_label(content[name], name, at) for name in ("record", "unit", "text")}
    return Probe(labels["record"], labels["unit"], candidate, labels["text"])


def score_names(first: Line) -> tuple[str, ...]:
    """Return the name of the score that is read where nobody names one; else all numbers of a line, any of which is it.

    Examples
    --------
    >>> at, probe = Place("s.jsonl", 1), Probe("r", "u", 0, "a")
    >>> score_names(Line(probe, {"score": -3, "length": 1}, at)), score_names(Line(probe, {"ppl": 3, "zlib": 2}, at))
    (('score',), ('ppl', 'zlib'))
    """
    known = next((name for name in _KNOWN if first.more.get(name) is not None), None)
    numbers = tuple(name for name, value in first.more.items() if is_number(value))
    return numbers if known is None else (known,)


def _default(first: Line) -> str:
    """The name of the score that is read where nobody names one."""
    names = score_names(first)
    if not set(names) & set(_KNOWN):
        received = f"none of these names, but {', '.join(names[:6])}" if names else "none"
        hint = f"name it: --score {names[0]}" if names else "score the texts first"
        first.at.refuse("score", _SCORES, received, hint)
    return names[0]


def _score(line: Line, name: str, answers: ServerAnswers) -> float:
    content, at = line.more, line.at
    value = content.get(name)
    if name in _ANSWERS and value is not None:
        plain = answers.plain({**content, "text": line.probe.text}, at.number, at.refuse)
        return _sum(plain["logprobs"], name, at)
    if isinstance(value, list):
        return _sum(value, name, at)
    if name not in content:
        hint = nearest(name, content) or "score every line: a candidate without a score would be guessed"
        at.refuse("score", f"a number named {name}", "none", hint)
    return _number(value, name, at)


def _sum(values: Any, name: str, at: Place) -> float:
    """The sum of the log-probabilities of tokens; the first may be null, since nothing is before it."""
    values = values[1:] if isinstance(values, list) and values[:1] == [None] else values
    if not isinstance(values, list) or not values:
        at.refuse(name, "a list of log-probabilities", repr(values)[:40], "one for each token of the text")
    numbers = [_number(value, name, at) for value in values]
    wrong = next((one for one in numbers if one > ROUNDING or one == SENTINEL), None)
    if wrong is not None:
        received = "probabilities or losses" if wrong > 0 else "a server's word for minus infinity"
        at.refuse(name, "log-probabilities, at most 0", f"{wrong:g}: {received}", "write natural logarithms")
    return float(np.sum(numbers))


def _number(value: Any, name: str, at: Place) -> float:
    if not is_number(value) or not abs(value) <= LARGEST:
        received = "null" if value is None else repr(value)[:40]
        at.refuse(name, f"a finite number up to {LARGEST:g}", received, "score every line")
    return float(value)
