"""From answers that a model gave elsewhere to what it repeats: private texts beside texts that it cannot have seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Self

import numpy as np

from miaudit.arrays import BoolArray, IntArray
from miaudit.attacks.common_runs import CommonRuns, TokenRows, covered
from miaudit.auditing.extraction import ExtractionPlan, by_runs, in_both, judge, way
from miaudit.collect.extraction_units import MOST_NAMED, Came, Units
from miaudit.findings.extraction import ExtractionFindings, Generations, Named, Rate, Told, Way
from miaudit.io import generations
from miaudit.io.generations import AnswerBatch, AnswerFile, KnownTexts
from miaudit.metrics.classical import clopper_pearson

__all__ = ["audit_generations", "words"]

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # written without blanks: each character is a token
_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")
_SURE = 0.999  # that texts of both kinds were not asked about equally often
_UNEQUAL = 1.2  # times as many answers about a text of one kind
_WHY_NOT = "Answers hold no scores."


def words(text: str) -> list[str]:
    """Cut a text into tokens: words, marks, and single characters of Chinese and Japanese, in lower case.

    Examples
    --------
    >>> words("Don't tell Ann: 12.5東京")
    ['don', "'", 't', 'tell', 'ann', ':', '12', '.', '5', '東', '京']
    """
    return _TOKEN.findall(text.lower())


def audit_generations(
    answers: str | Path,
    texts: str | Path,
    controls: str | Path,
    plan: ExtractionPlan | None = None,
    *,
    design: str = "",
    names: bool = False,
    progress: Callable[[int, int], None] | None = None,
    repeat: Mapping[str, Any] | None = None,
) -> ExtractionFindings:
    """Say how many private texts stand in answers of a model, beside controls that it was not trained on.

    A text comes out if ``plan.suffix`` of its tokens (:func:`words`) stand in one answer in a row, and nearly if they
    do with ``plan.near`` of them inserted, left out or replaced. What the prompt of an answer holds does not count: the
    prompt itself, where it stands before the answer, and 8 tokens of it or more in a row.

    Parameters
    ----------
    answers : .jsonl file with ``answer`` (or ``text``) on each line; optionally ``prompt``, and ``targets``, the ids of
        the texts that the answer is compared with, in place of all
    texts, controls : .jsonl files of private texts and of controls, with ``text`` and optionally ``id`` and ``unit``
    plan : of its options suffix, near, confidence and limits are read
    design : "one-run" or "multi-run" if coins decided which of all texts were trained on, "zero-run" if not; empty if
        nobody knows
    names : whether to name the texts that come out, by their ids, and their units
    progress : called with the megabytes of answers that were read and that there are
    repeat : what repeats the work

    Notes
    -----
    One pass over the answers. Memory grows with the texts and controls alone.

    Raises
    ------
    InputError
        For a line that cannot be read, with its number, and for units that have texts of both kinds.
    """
    plan = plan or ExtractionPlan()
    held = generations.read_texts(texts, controls)
    file = AnswerFile(answers, held)
    runs, tally = _streamed(file, held, plan, progress)
    lengths = runs.passages.lengths
    has = (lengths >= plan.suffix) & (tally.targets > 0 if tally.targeted else True)
    units = Units.of(held, has)
    came = _came(runs, has, tally, plan)
    ways = _ways(came, units, plan)
    about = tally.about(held.member, has, Path(texts).name, Path(controls).name)
    counts = [int(np.count_nonzero(has & rows)) for rows in (held.member, ~held.member)]
    return ExtractionFindings(
        verdict=judge(ways, plan, design, unit=units.what, lack=_lack(counts, about, plan)),
        members=ways[0].members,
        controls=ways[0].controls,
        difference=ways[0].difference,
        ways=tuple(ways),
        queries=(),
        repetitions=(),
        most_exposure=0.0,
        told=Told("loss", 0.1, Rate(None, 0.0, 1.0), _WHY_NOT),
        named=_named(held, runs, came, tally.lines) if names else (),
        units=units.named(came) if names else (),
        counts=_counts(counts, len(has)) | units.counts,
        plan=_plan(plan),
        design=design,
        runs=by_runs(units.largest(runs.longest), units.member, plan) if all(counts) else (),
        generations=about,
        notes=(*held.notes, *file.notes, *_notes(held, lengths, has, about, plan)),
        source=Path(answers).name,
        repeat=dict(repeat or {}),
    )


@dataclass(frozen=True, eq=False)
class _Vocabulary:
    """Numbers of the tokens of all texts and controls; a token that none of them has equals no other."""

    numbers: Mapping[str, int]

    @classmethod
    def of(cls, texts: Sequence[str]) -> tuple[Self, TokenRows]:
        numbers: dict[str, int] = {}
        parts = []
        for text in texts:
            tokens = words(text)
            parts.append(np.fromiter((numbers.setdefault(t, len(numbers)) for t in tokens), np.int32, len(tokens)))
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(numbers), TokenRows(np.concatenate([np.zeros(0, dtype=np.int32), *parts]), offsets)

    def rows(self, texts: Sequence[str]) -> TokenRows:
        """Return answers or prompts as numbers."""
        parts = [words(text) for text in texts]
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        numbers = map(self.numbers.get, chain.from_iterable(parts), repeat(-1))
        return TokenRows(np.fromiter(numbers, np.int32, int(offsets[-1])), offsets)


@dataclass(eq=False)
class _Tally:
    """What the answers were, counted as they come.

    Attributes
    ----------
    targets : array (n,), answers that name each text as their target
    prompted : array (n,) of bool, whether a prompt holds a part of the text
    """

    targets: IntArray
    prompted: BoolArray
    answers: int = 0
    tokens: int = 0
    short: int = 0
    targeted: bool = False
    _lines: list[IntArray] = field(default_factory=list)

    @classmethod
    def of(cls, n: int) -> Self:
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_))

    def add(self, batch: AnswerBatch, tokens: IntArray, least: int) -> None:
        """Count the answers of a batch, and their tokens (m,) beyond their prompts."""
        self.answers += len(tokens)
        self.tokens += int(tokens.sum())
        self.short += int(np.count_nonzero(tokens < least))
        self._lines.append(batch.lines)
        if batch.targets is not None:
            self.targeted = True
            pairs = np.unique(batch.targets, axis=0)
            self.targets += np.bincount(pairs[:, 1], minlength=len(self.targets))

    @property
    def lines(self) -> IntArray:
        """Number of the line of each answer."""
        return np.concatenate(self._lines)

    def about(self, member: BoolArray, has: BoolArray, texts: str, controls: str) -> Generations:
        """Return what the findings hold of it."""
        kinds = [has & member, has & ~member]
        members, others = (int(np.count_nonzero(self.prompted & rows)) for rows in kinds)
        own, other = (float(self.targets[rows].mean()) if self.targeted and rows.any() else None for rows in kinds)
        return Generations(texts, controls, self.answers, self.tokens, self.short, own, other, members, others)


def _streamed(
    file: AnswerFile, held: KnownTexts, plan: ExtractionPlan, progress: Callable[[int, int], None] | None
) -> tuple[CommonRuns, _Tally]:
    """Compare all answers of a file with the texts, a part at a time."""
    vocabulary, passages = _Vocabulary.of(held.text)
    runs = CommonRuns(passages, least=plan.suffix, edits=int(plan.near * plan.suffix + 1e-9))
    tally = _Tally.of(len(held.ids))
    for batch in file.batches():
        tally.add(batch, _compared(batch, vocabulary, runs, tally), plan.suffix)
        if progress is not None:
            progress(batch.read >> 20, max(batch.size >> 20, 1))
    return runs, tally


def _compared(batch: AnswerBatch, vocabulary: _Vocabulary, runs: CommonRuns, tally: _Tally) -> IntArray:
    """Compare the answers with the texts, without what their prompts hold; return how many tokens each has."""
    answers = vocabulary.rows(batch.text)
    tokens = answers.lengths
    if any(batch.prompt):
        prompts = vocabulary.rows(batch.prompt)
        tally.prompted[runs.prompted(prompts)] = True
        echo = covered(answers, prompts, runs.echo)
        answers = TokenRows(np.where(echo, np.int32(-1), answers.tokens), answers.offsets)
        tokens = tokens - np.bincount(answers.owner(np.flatnonzero(echo)), minlength=len(tokens))
    runs.add(answers, first=tally.answers, targets=batch.targets)
    return tokens


def _came(runs: CommonRuns, has: BoolArray, tally: _Tally, plan: ExtractionPlan) -> list[Came]:
    window = f"({plan.suffix:,} tokens in a row, in {tally.answers:,} answers)"
    came = [Came("answers", f"word for word {window}", has & (runs.longest >= plan.suffix), has)]
    if runs.allowed:
        near = f"but for {runs.allowed} edited token{'' if runs.allowed == 1 else 's'}"
        came.append(Came("answers-near", f"{near} {window}", has & (runs.edits <= runs.allowed), has))
    return came


def _ways(came: Sequence[Came], units: Units, plan: ExtractionPlan) -> list[Way]:
    """The shares in each way, whose limits hold together."""
    each = 1 - (1 - plan.confidence) / len(came)
    return [Way(one.name, one.words, *way(*units.came(one), each)) for one in came]


def _plan(plan: ExtractionPlan) -> dict[str, float | int]:
    """The options that were read as plain values, with both sides of the limit."""
    of_answers = {"suffix": plan.suffix, "near": plan.near, "confidence": plan.confidence}
    return {**of_answers, "limit": plan.threshold, "within": plan.negligible}


def _lack(counts: Sequence[int], about: Generations, plan: ExtractionPlan) -> str:
    """Say why the answers cannot say what is memorised; nothing where they can."""
    for kind, count in zip(("private texts", "controls"), counts, strict=True):
        if not count:
            return (
                f"no {kind} have {plan.suffix} tokens and an answer to compare with. Texts of both kinds are needed, "
                "or boilerplate would count as memorised: lower --suffix, or add texts."
            )
    if about.short == about.answers:
        return (
            f"no answer has {plan.suffix} tokens beyond its prompt, so none can hold a passage. Lower --suffix, or ask "
            "for longer answers."
        )
    targets = about.targets_of_members or 0.0, about.targets_of_controls or 0.0
    if max(targets) > _UNEQUAL * min(targets):
        return (
            f"a private text is the target of {targets[0]:,.1f} answers on average, a control of {targets[1]:,.1f}. "
            "Ask about both equally often."
        )
    prompted = about.prompted_members, about.prompted_controls
    limits = [clopper_pearson(k, n, _SURE) for k, n in zip(prompted, counts, strict=True)]
    if limits[0][0] > limits[1][1] or limits[1][0] > limits[0][1]:
        return (
            f"prompts hold a part of {prompted[0]:,} of {counts[0]:,} private texts, and of {prompted[1]:,} of "
            f"{counts[1]:,} controls. Ask about both in the same way: with the beginnings of the controls, too."
        )
    return ""


def _counts(counts: Sequence[int], texts: int) -> dict[str, int]:
    members, controls = counts
    with_passage = members + controls
    return {
        "members": members,
        "controls": controls,
        "passages": with_passage,
        "too_short": texts - with_passage,
    }


def _named(held: KnownTexts, runs: CommonRuns, came: Sequence[Came], lines: IntArray) -> tuple[Named, ...]:
    """The texts that come out, those with the longest run first."""
    out = np.stack([one.out for one in came], axis=1)
    rows = np.flatnonzero(out.any(axis=1))
    rows = rows[np.lexsort((runs.edits[rows], -runs.longest[rows]))][:MOST_NAMED]
    return tuple(
        Named(
            held.ids[row],
            bool(held.member[row]),
            None,
            None,
            tuple(one.name for one, yes in zip(came, out[row], strict=True) if yes),
            int(runs.longest[row]),
            int(lines[runs.answer[row]]),
        )
        for row in rows
    )


def _notes(held: KnownTexts, lengths: IntArray, has: BoolArray, about: Generations, plan: ExtractionPlan) -> list[str]:
    shared = in_both(held.text, held.member)
    notes = [shared] if shared else []
    short = int(np.count_nonzero(lengths < plan.suffix))
    if short:
        notes.append(f"{short:,} texts have fewer than {plan.suffix:,} tokens and take no part.")
    idle = len(has) - int(has.sum()) - short
    if idle:
        notes.append(f"{idle:,} texts are the target of no answer and take no part.")
    if about.short:
        notes.append(
            f"{about.short:,} of {about.answers:,} answers have fewer than {plan.suffix:,} tokens beyond their prompt: "
            "no passage can stand in them word for word."
        )
    mean = [float(lengths[has & rows].mean()) for rows in (held.member, ~held.member) if (has & rows).any()]
    if len(mean) == 2 and max(mean) > 1.2 * min(mean):
        notes.append(
            f"Private texts have {mean[0]:,.0f} tokens on average, controls {mean[1]:,.0f}: a longer text has more "
            "passages, one of which may come out. Compare texts of one length."
        )
    return notes
