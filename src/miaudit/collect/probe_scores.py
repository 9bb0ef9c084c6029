"""From scored probes and their key to evidence of the design "matched"; and a language model's scores of probes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.collect.outputs import Collected
from miaudit.collect.random_strings import normal, runs
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import atomic, probes, scored_probes
from miaudit.io.probes import Key, Probe
from miaudit.io.scored_probes import LOG_PROBABILITY, REFERENCE, Line, ScoredProbes
from miaudit.jobs.resumable import digest

if TYPE_CHECKING:
    from miaudit.models.language import SavedLanguage
    from miaudit.models.targets import Target

__all__ = ["collect_scores", "from_probes", "key_of"]

_AT_ONCE = 256  # texts between two reports of progress
_OTHER_KEY = "name the key that miaudit decoys wrote with these probes, and keep their lines as they were"


def from_probes(
    path: str | Path,
    *,
    key: str | Path | None = None,
    score: str | Sequence[str] | None = None,
    reference: str | Path | None = None,
    signal: str = "score",
    design: str | None = "matched",
) -> Collected:
    """Read scored probes and their key as evidence of the design "matched".

    Scores of the records of a unit are added up.

    Parameters
    ----------
    path : .jsonl file of scored probes (:func:`miaudit.io.scored_probes.read`)
    key : file of the key; default: the one beside the probes
    score : name of the score, or several names
    reference : the same probes, scored by a model that never saw any of the strings
    signal : "score" (higher is more member-like) or "loss"
    design : "matched"; anything else is refused

    Raises
    ------
    InputError
        For a key of other probes, candidates without a score or with two, texts that were changed, and strings of one
        unit in the texts of another.
    """
    if design != "matched":
        hint = "add --design matched (evaluation.design) if the model was trained on the true strings"
        raise InputError("design", "matched, for probes with decoys", str(design or "none"), hint)
    read = scored_probes.read(path, [score] if isinstance(score, str) else score or ())
    opened = Key.read(key_of(path) if key is None else key)
    order = _order(read, opened)
    _check_strings(read, opened, order)
    other = read.reference if reference is None else _of_reference(reference, read, opened)
    values = {name: _by_unit(one, order) for name, one in read.scores.items()}
    text = np.array([["\n".join(unit.candidates[k]) for k in unit.true_first] for unit in opened.units], dtype=object)
    evidence = Evidence.matched(
        true={name: one[:, 0] for name, one in values.items()},
        decoys={name: one[:, 1:] for name, one in values.items()},
        unit=[unit.unit for unit in opened.units],
        text=text,
        reference=None if other is None else _pair(_by_unit(other, order)),
        source=read.name,
        signal=signal,  # type: ignore[arg-type] # refused there if it is another
    )
    return Collected(evidence, read.notes)


def key_of(path: str | Path) -> Path:
    """Return the path of the key of probes: beside them, or of the only key in their folder."""
    own = probes.beside(path)
    if own.is_file():
        return own
    others = sorted(own.parent.glob(f"*{probes.KEY_SUFFIX}"))
    return others[0] if len(others) == 1 else own


def collect_scores(
    target: Target,
    path: str | Path,
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write probes again with the log-probability of each text: the sum over its tokens. Needs no key.

    Parameters
    ----------
    target : a language model in a folder; its reference model, if there is one, scores the texts too
    path : .jsonl file of probes
    out : .jsonl file of scored probes; while it is made its lines are in a hidden file beside it, from which a later
        call goes on
    overwrite : whether a file of that name may be replaced
    progress : called with (finished, all) texts

    Returns
    -------
    How many texts were scored

    Raises
    ------
    InputError
        For another target, a file that holds no probes, and a file ``out`` that is there.
    """
    from miaudit.models.fine_tuned import lying
    from miaudit.models.language import SavedLanguage

    if not isinstance(target, SavedLanguage):
        hint = "add target: {kind: language-model, folder: ...}, or score the texts yourself"
        raise InputError("target", "a language model in a folder, for probes", target.name, hint)
    place = Path(out)
    if place.suffix.lower() != probes.SUFFIX:
        raise InputError("--out", "a name ending in .jsonl, for probes", place.name, "write --out scored.jsonl")
    if place.exists() and not overwrite:
        raise InputError("--out", "a new file", f"{place}, which exists", "name another, or add --overwrite")
    lines = scored_probes.read_lines(path)
    part = place.with_name(f".{place.name}.part")
    decides = [target.identity(), *lying(*target.folders), *(json.dumps(line.probe) for line in lines)]
    with _part(part, digest(decides)) as (done, add):
        for start in range(len(done), len(lines), _AT_ONCE):
            add(_scored(target, lines[start : start + _AT_ONCE]))
            if progress is not None:
                progress(len(done), len(lines))
        atomic.write_text(place, "".join(done), replace=overwrite)
    part.unlink()
    return len(lines)


def _scored(target: SavedLanguage, lines: Sequence[Line]) -> list[str]:
    """Lines of a file with the scores of their texts."""
    sums = _sums(target, [line.probe.text for line in lines])
    texts = []
    for line, numbers in zip(lines, zip(*sums.values(), strict=True), strict=True):
        scores = {name: round(number, 5) for name, number in zip(sums, numbers, strict=True)}
        texts.append(json.dumps({**line.probe._asdict(), **line.more, **scores}, ensure_ascii=False) + "\n")
    return texts


@contextlib.contextmanager
def _part(part: Path, decides: str) -> Iterator[tuple[list[str], Callable[[list[str]], None]]]:
    """Read the lines that an earlier run of the same left in a file, as far as they are whole, and add to them."""
    part.parent.mkdir(parents=True, exist_ok=True)
    done, end = list[str](), 0
    with part.open("a+b") as handle:
        handle.seek(0)
        if handle.readline() == decides.encode() + b"\n":
            end = handle.tell()
            for line in handle:
                if not line.endswith(b"\n"):
                    break
                done.append(line.decode("utf-8"))
                end += len(line)
        handle.truncate(end)
        if not end:
            handle.write(decides.encode() + b"\n")

        def add(texts: list[str]) -> None:
            handle.write("".join(texts).encode("utf-8"))
            handle.flush()
            done.extend(texts)

        yield done, add


def _sums(target: SavedLanguage, texts: Sequence[str]) -> dict[str, list[float]]:
    outputs, reference = target.tokens(texts)
    both = {LOG_PROBABILITY: outputs} | ({} if reference is None else {REFERENCE: reference})
    return {name: np.add.reduceat(one.log_p, one.offsets[:-1]).tolist() for name, one in both.items()}


Order = list[list[list[int]]]  # for each unit and each candidate, the true one first, the rows of its records


def _order(read: ScoredProbes, key: Key) -> Order:
    """Find the rows of each candidate; refuse rows that are missing, double, unknown or changed."""
    place = dict[tuple[str, int], int]()
    for row, probe in enumerate(read.rows):
        before = place.setdefault((probe.record, probe.candidate), row)
        if before != row:
            received = f"lines {before + 1} and {row + 1}"
            raise InputError("probes", f"one line for candidate {probe.candidate} of {probe.record[:40]!r}", received,
                             "remove one: it was scored twice")  # fmt: skip
    known = {record: unit for unit in key.units for record in unit.records}
    strange = next((probe for probe in read.rows if probe.record not in known), None)
    if strange is not None:
        received = f"record {strange.record[:40]!r} of {read.name}, which the key does not know"
        raise InputError("key", "the key of these probes", received, _OTHER_KEY)
    order = [
        [[_row(place, read.name, record, k) for record in unit.records] for k in unit.true_first] for unit in key.units
    ]
    if probes.digest_of(read.rows) != key.probes:
        received = f"other texts, units or candidates in {read.name}"
        raise InputError("key", "the key of these probes, whose digest it holds", received, _OTHER_KEY)
    return order


def _row(place: dict[tuple[str, int], int], name: str, record: str, candidate: int) -> int:
    row = place.get((record, candidate))
    if row is None:
        received = f"none for candidate {candidate} of {record[:40]!r} in {name}"
        raise InputError("probes", "a score of every candidate", received, "score all lines that miaudit decoys wrote")
    return row


def _check_strings(read: ScoredProbes, key: Key, order: Order) -> None:
    """Refuse a true string in two units, or in the text of another, and decoys that are in a training text."""
    owner, decoys = dict[str, int](), dict[str, int]()
    for number, unit in enumerate(key.units):
        for string in map(normal, unit.candidates[unit.true]):
            if owner.setdefault(string, number) != number:
                names = f"{key.units[owner[string]].unit[:40]!r} and {unit.unit[:40]!r}"
                hint = "equal strings are one unit: make the probes again"
                raise InputError("key", "each true string in one unit", f"one in {names}", hint)
        others = (k for k in unit.true_first[1:])
        decoys |= dict.fromkeys((normal(string) for k in others for string in unit.candidates[k]), number)
    for number, rows in enumerate(order):
        for row in rows[0]:
            _check_text(read.rows[row], number, owner, decoys, key)


def _check_text(probe: Probe, number: int, owner: dict[str, int], decoys: dict[str, int], key: Key) -> None:
    for run in runs(probe.text):
        string = normal(run.group().removeprefix("0x"))
        if string in decoys:
            received = f"one of {key.units[decoys[string]].unit[:40]!r} in the text of {probe.record[:40]!r}"
            raise InputError("key", "decoys that are in no training text", received, "make the probes again")
        if owner.get(string, number) != number:
            received = f"one of {key.units[owner[string]].unit[:40]!r} in the text of {probe.record[:40]!r}"
            hint = "make the probes again: a string must not be scored beside another unit's true string"
            raise InputError("key", "true strings in the texts of their own unit only", received, hint)


def _of_reference(path: str | Path, read: ScoredProbes, key: Key) -> FloatArray:
    """Scores (n,) of a reference model, in the order of the audited probes."""
    other = scored_probes.read(path)
    place = {(probe.record, probe.candidate): row for row, probe in enumerate(other.rows)}
    if len(place) != len(other.rows) or probes.digest_of(other.rows) != key.probes:
        received = f"others in {other.name}"
        raise InputError("reference", "the same probes, scored by a reference model", received, _OTHER_KEY)
    values = next(iter(other.scores.values()))
    return values[[place[probe.record, probe.candidate] for probe in read.rows]]


def _by_unit(values: FloatArray, order: Order) -> FloatArray:
    """Scores (units, K + 1), of the true candidate first, added up over the records of each unit."""
    sums: FloatArray = np.array([[values[rows].sum() for rows in of_unit] for of_unit in order])
    return sums


def _pair(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values[:, 0], values[:, 1:]
