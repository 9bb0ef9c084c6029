"""A language model asked to go on from the beginning of texts: how far what it says is from what stands there.

An edit distance is kept of each answer, and no answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from miaudit.arrays import IntArray
from miaudit.attacks.extraction import edit_distances
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.io.token_records import TokenRecords
from miaudit.jobs import executor, resumable
from miaudit.jobs.resources import Resources
from miaudit.jobs.resumable import Store, digest

if TYPE_CHECKING:
    from miaudit.models.text import LanguageModel

__all__ = ["Asking", "PassageAnswers", "ask_passages"]


@dataclass(frozen=True)
class Asking:
    """How a model is asked to go on.

    Attributes
    ----------
    samples : continuations drawn of each passage, beside the likeliest one; 0 for none
    temperature, top_k : of the draws
    passages : of each text, from its beginning
    batch : passages in one pass through the model
    seed : of the draws

    Examples
    --------
    >>> Asking(samples=5).top_k
    0
    """

    samples: Annotated[int, Option("Continuations drawn of each passage; 0: the likeliest only.", ge=0)] = 20
    temperature: Annotated[float, Option("Of the draws; 1 is the model's own distribution.", gt=0, le=100)] = 1.0
    top_k: Annotated[int, Option("Likeliest tokens that a draw chooses from; 0: all.", ge=0)] = 0
    passages: Annotated[int, Option("Passages asked of each text, from its beginning.", ge=1)] = 1
    batch: Annotated[int, Option("Passages in one pass through the model.", ge=1)] = 16
    seed: Annotated[int, Option("Of the draws.", ge=0)] = 0

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, eq=False)
class PassageAnswers:
    """What a model answered about m passages.

    Attributes
    ----------
    record : array (m,), the text that each passage is of
    greedy : array (m,), edit distance of the likeliest continuation, in tokens
    drawn : array (m, samples), of those that were drawn
    model : what it is called
    asking : how it was asked
    notes : what was left out, in sentences
    """

    record: IntArray
    greedy: IntArray
    drawn: IntArray
    model: str
    asking: Asking
    notes: tuple[str, ...] = ()


def ask_passages(
    records: TokenRecords,
    folder: str | Path,
    *,
    base: str | Path | None = None,
    prefix: int,
    suffix: int,
    asking: Asking | None = None,
    device: str = "auto",
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PassageAnswers:
    """Give a model the tokens before each passage, and no others, and compare what it says with the passage.

    Parameters
    ----------
    records : with ``text`` and ``tokens``, by which the tokenizer is checked
    folder : of the model, as ``save_pretrained`` writes it
    base : folder of the model that it adapts, where it is an adapter
    prefix, suffix : tokens that are given, and that are compared
    asking : how, and how often
    device : "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1"
    store : folder in which distances are kept as they come, so that a killed run goes on where it stopped
    progress : called with (finished, all) passes through the model

    Raises
    ------
    InputError
        For records without text or tokens, and another tokenizer than theirs.
    """
    from miaudit.models import text

    asking = asking or Asking()
    if records.text is None or records.tokens is None:
        missing = " and ".join(name for name in ("text", "tokens") if getattr(records, name) is None)
        raise InputError("keys", "text and tokens on every line, to ask a model", f"no {missing}", "miaudit collect")
    adapted: dict[str, Any] = {} if base is None else {"base": base}
    model = text.load(folder, device=device, **adapted)
    cut = _cut(model, records, prefix, suffix, asking.passages)
    if not len(cut.record):
        empty = np.empty((0, 1 + asking.samples), dtype=np.int64)
        limit = "" if model.longest is None else f" within the {model.longest:,} that the model reads"
        none = f"Nothing was asked: no text has a passage of {suffix} tokens after {prefix}{limit}."
        return PassageAnswers(cut.record, empty[:, 0], empty[:, 1:], model.name, asking, (*cut.notes, none))
    distances = _asked(model, cut, suffix, asking, _decides(folder, base, cut, asking), store, progress)
    return PassageAnswers(cut.record, distances[:, 0], distances[:, 1:], model.name, asking, cut.notes)


class _Cut(NamedTuple):
    """Passages: the text of each, the tokens that are given and those that follow (m, suffix), and what is left out."""

    record: IntArray
    beginnings: list[IntArray]
    true: IntArray
    notes: tuple[str, ...]


def _cut(model: LanguageModel, records: TokenRecords, prefix: int, suffix: int, most: int) -> _Cut:
    from miaudit.models.text import cut_tokens

    assert records.text is not None and records.tokens is not None  # noqa: S101 - as the caller saw
    special = list(model.tokenizer.all_special_ids)
    beginnings, true, owner, broken = [], [], [], 0
    for i, (row, scored) in enumerate(zip(*cut_tokens(model, records.text), strict=True)):
        at, tokens = np.flatnonzero(scored), records.tokens[records.offsets[i] : records.offsets[i + 1]]
        _check_tokens(row[at], tokens, records.ids[i])
        lead = row[: np.argmin(np.isin(row, special))]  # special tokens that come before every text
        for before, own in _passages(row, at[: len(tokens)], lead, prefix, suffix, most):
            if before is None:
                broken += 1
                continue
            if not len(before):
                hint = "the tokenizer puts no token before a text"
                raise InputError("prefix", "a token or more, for a model to go on from", str(prefix), hint)
            beginnings.append(before)
            true.append(row[own])
            owner.append(i)
    notes = (f"{broken:,} passages hold a special or unknown token and were not asked.",) if broken else ()
    return _Cut(np.array(owner, dtype=np.int64), beginnings, np.array(true).reshape(-1, suffix), notes)


def _passages(
    row: IntArray, at: IntArray, lead: IntArray, prefix: int, suffix: int, most: int
) -> list[tuple[IntArray | None, IntArray]]:
    """The tokens before each passage of a text and the places of its own; None before one with a special token."""
    passages: list[tuple[IntArray | None, IntArray]] = []
    for start in range(prefix, len(at) - suffix + 1, suffix)[:most]:
        own = at[start : start + suffix]
        before = row[: own[0]] if start == prefix else np.r_[lead, row[at[start - prefix] : own[0]]]
        passages.append((before if own[-1] - own[0] == suffix - 1 else None, own))
    return passages


def _check_tokens(own: IntArray, expected: IntArray, name: str) -> None:
    both = min(len(own), len(expected))
    differ = np.flatnonzero(own[:both] != expected[:both])
    if len(differ):
        at = int(differ[0])
        received = f"token {expected[at]} and not {own[at]} at {at} of text {name[:40]!r}"
        hint = "ask the model that the log-probabilities are of, or collect them again"
        raise InputError("tokens", "those of the model's own tokenizer", received, hint)


def _decides(folder: str | Path, base: str | Path | None, cut: _Cut, asking: Asking) -> dict[str, str]:
    """Digests of all that decides the answers: the model's files as they lie, the passages, how it is asked."""
    folders = [Path(one) for one in (folder, base) if one is not None]
    lying = [(file, file.stat()) for place in folders for file in sorted(place.iterdir()) if file.is_file()]
    files = [f"{file.name} {status.st_size} {status.st_mtime_ns}" for file, status in lying]
    options = " ".join(f"{name} {value}" for name, value in asdict(asking).items())
    return {"model": digest(files), "passages": digest([*cut.beginnings, cut.true]), "options": options}


class _Pass(NamedTuple):
    """Passages that go through the model together, by their numbers, and the seed of their draws."""

    rows: IntArray
    seed: int


def _asked(
    model: LanguageModel,
    cut: _Cut,
    suffix: int,
    asking: Asking,
    decides: Mapping[str, str],
    store: str | Path | None,
    progress: Callable[[int, int], None] | None,
) -> IntArray:
    """Return distances (m, 1 + samples): of the likeliest continuation first."""
    order = np.array(sorted(range(len(cut.record)), key=lambda i: -len(cut.beginnings[i])), dtype=np.int64)
    together = np.split(order, range(asking.batch, len(order), asking.batch))
    seeds = np.random.default_rng(asking.seed).integers(2**62, size=len(together))
    jobs = [_Pass(rows, int(seed)) for rows, seed in zip(together, seeds, strict=True)]

    def task(asked: LanguageModel, batch: Sequence[_Pass]) -> list[IntArray]:
        return [_distances(asked, cut, suffix, asking, one) for one in batch]

    with nullcontext() if store is None else Store.alone(store, decides, "answers") as place:
        done = resumable.finish(
            task,
            model,
            jobs,
            place=place,
            what="passes",
            failure=lambda number, problem: f"pass {number + 1}: {problem}",
            executor=executor.Local(each=Resources(threads=_threads())),
            progress=resumable.counted(progress),
        )
        distances = np.empty((len(order), 1 + asking.samples), dtype=np.int64)
        for number, one in enumerate(jobs):
            distances[one.rows] = done[number] if place is None else place.read(number)
    return distances


def _distances(model: LanguageModel, cut: _Cut, suffix: int, asking: Asking, one: _Pass) -> IntArray:
    from miaudit.models.continuation import continuations

    beginnings, true = [cut.beginnings[row] for row in one.rows], cut.true[one.rows]
    rng = np.random.default_rng(one.seed)
    distances = np.empty((len(true), 1 + asking.samples), dtype=np.int64)
    distances[:, 0] = edit_distances(continuations(model, beginnings, suffix, rng=rng), true)
    if asking.samples:
        how: dict[str, Any] = {"samples": asking.samples, "temperature": asking.temperature, "top_k": asking.top_k}
        samples = continuations(model, beginnings, suffix, **how, rng=rng).reshape(-1, suffix)
        distances[:, 1:] = edit_distances(samples, np.repeat(true, asking.samples, axis=0)).reshape(len(true), -1)
    return distances


def _threads() -> int:
    import torch

    return torch.get_num_threads()
