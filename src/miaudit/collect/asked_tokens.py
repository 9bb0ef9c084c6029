"""A language model in a folder asked once: the log-probabilities of all tokens, in a file that needs no model after.

Texts of like length are asked together, and what was answered is kept as it comes, so that a killed run goes on where
it stopped.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miaudit.auditing.extraction import in_both
from miaudit.collect.campaign import Campaign
from miaudit.collect.canary_texts import taken_from
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.io import atomic, tables, token_files, token_records
from miaudit.io.token_files import SUFFIXES
from miaudit.jobs.resumable import digest
from miaudit.models.fine_tuned import lying

if TYPE_CHECKING:
    from miaudit.models.language import SavedLanguage
    from miaudit.models.text import TokenOutputs

__all__ = ["collect_tokens"]

_AT_ONCE = 256  # texts between two writes


def collect_tokens(
    campaign: Campaign,
    path: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[str, ...]:
    """Ask a model for the log-probabilities of the tokens of all texts, and write them as ``miaudit audit`` reads them.

    Parameters
    ----------
    campaign : of a language model in a folder, with texts whose membership is known; of canaries beside others these
        alone are asked about, since the others are no half of a draw
    path : .jsonl or .parquet file; while it is made its lines stand in a hidden file beside it, from which a later
        call goes on
    overwrite : whether a file of that name may be replaced
    progress : called with (finished, all) texts

    Returns
    -------
    What was left out, and controls that are among the members, in sentences

    Raises
    ------
    InputError
        For another target, texts whose membership is not stated, and a file that is there.
    """
    place = tables.require_suffix(path, "--out", SUFFIXES)
    if place.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{place}, which exists", "name another, or add --overwrite")
    target, campaign = _asked(campaign), _of_canaries(campaign)
    records = campaign.records
    assert records.member is not None  # noqa: S101 - as _asked saw
    texts, part = list(records.x), place.with_name(f".{place.name}.part")
    descriptions = _descriptions(records)
    with _kept(part, _what(target, campaign)) as (done, add):
        left = sorted((row for row in range(len(texts)) if row not in done), key=lambda row: -len(texts[row]))
        for start in range(0, len(left), _AT_ONCE):
            rows = left[start : start + _AT_ONCE]
            outputs, reference = target.tokens([texts[row] for row in rows])
            for i, row in enumerate(rows):
                add(row, _answer(descriptions[row], outputs, reference, i))
            if progress is not None:
                progress(len(done), len(texts))

    _write(place, [done[row].line for row in range(len(texts))])
    part.unlink()
    near = in_both(texts, np.asarray(records.member, np.bool_))
    return (*_length_notes(done.values(), target), *((near,) if near else ()))


def _descriptions(records: Records) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the line of each text holds before the numbers of its tokens, and after them."""
    ids, member = range(records.n) if records.ids is None else records.ids.tolist(), np.asarray(records.member)
    labels = {name: records.fields[name] for name in ("unit", "group") if records.fields.get(name) is not None}
    descriptions = []
    for row, text in enumerate(records.x):
        rest = {"text": text, **{name: str(values[row]) for name, values in labels.items()}}
        if records.times is not None:
            rest["times"] = int(records.times[row]) * bool(member[row])
        descriptions.append(({"id": str(ids[row]), "member": bool(member[row])}, rest))
    return descriptions


def _length_notes(answers: Collection[_Answer], target: SavedLanguage) -> tuple[str, ...]:
    """How many texts were scored in windows, and how many in part only, in sentences."""
    from miaudit.models.text import in_windows

    cut = sum(answer.cut for answer in answers)
    beginning = (
        f"{cut:,} of {len(answers):,} texts are longer than {target.longest} tokens: only their beginning was asked."
    )
    windows = np.array([answer.windows for answer in answers])
    return (*in_windows(windows, target.context), *((beginning,) if cut else ()))


def _of_canaries(campaign: Campaign) -> Campaign:
    """The campaign with its canaries only, where there are some; without ids each has its row number."""
    records = campaign.records
    if records.canary is None:
        return campaign
    rows = np.flatnonzero(records.canary)
    ids = records.ids if records.ids is not None else np.arange(records.n)
    alone = taken_from(replace(records, ids=ids, canary=None), rows)
    return replace(campaign, records=alone)


def _write(place: Path, lines: list[str]) -> None:
    """Write the lines of all texts: as they are, or as columns."""
    if place.suffix.lower() not in token_records.SUFFIXES:
        numbered = ((number, line.encode()) for number, line in enumerate(lines, start=1))
        token_files.write(place, token_records.of_lines(numbered, place.name, token_records.Limits()))
        return

    def write(target: Path) -> None:
        with target.open("w", encoding="utf-8", newline="\n") as handle:
            handle.writelines(f"{line}\n" for line in lines)

    atomic.write_atomically(place, write)


class _Answer(NamedTuple):
    """The line of a text in the file, whether only its beginning was asked, and in how many windows."""

    cut: bool
    windows: int
    line: str


def _asked(campaign: Campaign) -> SavedLanguage:
    from miaudit.models.language import SavedLanguage

    if not isinstance(campaign.target, SavedLanguage):
        hint = "name an evidence file (.npz), or a target of kind language-model with a folder"
        raise InputError("--out", "tokens of a language model in a folder", campaign.target.name, hint)
    if campaign.records.member is None:
        raise InputError("data.member", "a column that says which texts were trained on", "none", "name it")
    return campaign.target


def _answer(
    description: tuple[dict[str, Any], dict[str, Any]], outputs: TokenOutputs, reference: TokenOutputs | None, i: int
) -> _Answer:
    """The answer about text i, with the line that the file holds of it."""
    head, rest = description
    line = json.dumps({**head, **_numbers(outputs, reference, i), **rest}, allow_nan=False)
    return _Answer(bool(outputs.truncated[i]), int(outputs.windows[i]), line)


def _numbers(outputs: TokenOutputs, reference: TokenOutputs | None, i: int) -> dict[str, Any]:
    """What a file holds of the tokens of text i; log-probabilities with five digits after the point."""
    own = slice(outputs.offsets[i], outputs.offsets[i + 1])
    row: dict[str, Any] = {"logprobs": _rounded(outputs.log_p[own])}
    if outputs.mean is not None and outputs.std is not None:
        row |= {"mean": _rounded(outputs.mean[own]), "std": _rounded(outputs.std[own])}
    row |= {"top1": outputs.top1[own].tolist(), "tokens": outputs.tokens[own].tolist()}
    if reference is not None:
        other = slice(reference.offsets[i], reference.offsets[i + 1])
        row["reference_logprobs"] = _rounded(reference.log_p[other])
        row["same_tokens"] = bool(np.array_equal(outputs.tokens[own], reference.tokens[other]))
    row["windows"] = int(outputs.windows[i])
    return row


def _rounded(values: Any) -> list[float]:
    numbers: list[float] = (np.round(values, 5) + 0.0).tolist()
    return numbers


def _what(target: SavedLanguage, campaign: Campaign) -> str:
    """Digest of everything that decides the file: the model's files as they lie, how it is asked, the texts."""
    records = campaign.records
    files = lying(*target.folders)
    member = np.asarray(records.member).astype(np.int64)
    often = [] if records.times is None else [digest(records.times)]
    return digest([target.identity(), *files, digest(list(records.x)), digest(member), *often])


@contextlib.contextmanager
def _kept(part: Path, what: str) -> Iterator[tuple[dict[int, _Answer], Callable[[int, _Answer], None]]]:
    """Read what an earlier run of the same left in a file, and add to it; lines of other runs are no longer of use."""
    part.parent.mkdir(parents=True, exist_ok=True)
    done, end = _left(part, what) if part.is_file() else ({}, 0)
    with part.open("r+b" if end else "wb") as handle:
        handle.truncate(end)
        handle.seek(end)
        if not end:
            handle.write(json.dumps({"of": what}).encode() + b"\n")

        def add(row: int, answer: _Answer) -> None:
            handle.write(f"[{row}, {json.dumps(answer.cut)}, {answer.windows}, {answer.line}]\n".encode())
            handle.flush()
            done[row] = answer

        yield done, add


def _left(part: Path, what: str) -> tuple[dict[int, _Answer], int]:
    """Return the answers that stand in a file whole, and where they end; none of another model or other texts."""
    done: dict[int, _Answer] = {}
    end = 0
    with part.open("rb") as handle, contextlib.suppress(ValueError, TypeError, KeyError):
        first = handle.readline()
        if not first.endswith(b"\n") or json.loads(first)["of"] != what:
            return {}, 0
        end = len(first)
        for line in handle:
            if not line.endswith(b"\n"):
                break
            row, cut, windows, content = json.loads(line)
            if not isinstance(content, dict):
                break
            done[int(row)] = _Answer(bool(cut), int(windows), json.dumps(content))
            end += len(line)
    return done, end
