"""Canaries made of texts: phrases of rare words, documents with a changed fact, and documents as they are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.arrays import IntArray
from miaudit.auditing.near_texts import near
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.io import frames

__all__ = ["changed_facts", "held_out", "rare_words", "taken_from"]

_RAREST = 10  # one in so many different words is rare, where that makes as many as are needed
_LEAST = 100
_PART = 1000  # documents that are compared with all others at a time
_TRIES = 20
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
# What a fact is, the first that fits: dates before numbers, names before words.
_FACT = re.compile(
    rf"(?P<date>\b\d{{4}}-\d{{2}}-\d{{2}}\b|\b\d{{1,2}} (?:{_MONTHS}) \d{{4}}\b|\b(?:{_MONTHS}) \d{{1,2}}, \d{{4}}\b)"
    r"|(?P<number>(?<![\w.,])\d+(?:[.,]\d+)*(?![\w]|[.,]\d))"
    r"|(?P<name>(?<=[^\W_] )[^\W\d_a-z][^\W\d_]+(?: [^\W\d_a-z][^\W\d_]+)*\b)"
    r"|(?P<word>\b[^\W\d_]{4,}\b)"
)
_KINDS = ("date", "number", "name", "word")


def rare_words(x: Sequence[str], count: int, rng: np.random.Generator, *, words: int, frame: str) -> list[str]:
    """Texts that say a frame, in which so many rare words stand in the place of ``{}``.

    Rare are words that few documents have: the tenth of all different words with the fewest, ties at random, but a
    hundred at least.
    """
    times = Counter(word for text in x for word in set(re.findall(r"[^\W\d_]{3,}", text)))
    if len(times) < 2 * words:  # a script without spaces, or none of letters
        times = Counter(word for text in x for word in set(text.split()))
    if len(times) < 2:
        raise InputError("data.text", "two different words or more", str(len(times)), "choose another kind")
    known = sorted(times)
    order = rng.permutation(len(known))
    rarest = order[np.argsort([times[known[i]] for i in order], kind="stable")]
    pool = [known[i] for i in rarest[: max(_LEAST, 2 * words, len(known) // _RAREST)]]
    chosen = rng.integers(0, len(pool), (count, words))
    return [frame.replace("{}", " ".join(pool[i] for i in row)) for row in chosen]


# -- a fact of a document changed --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fact:
    kind: str
    value: str

    @property
    def form(self) -> tuple[str, str]:
        """What another fact has to be like: dates and numbers have digits in the same places, names as many words."""
        if self.kind == "name":
            return self.kind, str(self.value.count(" "))
        return self.kind, re.sub(r"\d", "0", re.sub(_MONTHS, "M", self.value)) if self.kind != "word" else ""


def changed_facts(records: Records, count: int, rng: np.random.Generator) -> tuple[Records, IntArray]:
    """Documents drawn at random, each with one fact changed for another of its form from other documents.

    Facts are dates, numbers, capitalised names within a sentence, and rare words; where a document has several forms
    each is as likely, and words are changed in documents without others only. Every place of the fact is changed.

    Returns
    -------
    The canaries, and the rows of the documents that they are made of: these leave the records
    """
    facts = [_facts(text) for text in records.x]
    shared = Counter(fact for own in facts for fact in own)
    rare = {fact for fact, times in shared.items() if fact.kind != "word" or times <= 2}
    pools: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fact in shared:  # in the order of the documents
        if fact in rare:
            pools[fact.form].append(fact.value)
    texts, rows = list[str](), list[int]()
    there = set(records.x)
    for (row,) in _alone(records.x, np.arange(records.n), rng.spawn(1)[0]):
        text = _changed(records.x[row], [fact for fact in facts[row] if fact in rare], pools, rng)
        if text is not None and text not in there:
            there.add(text)
            texts.append(text)
            rows.append(row)
            if len(rows) == count:
                break
    if len(rows) < count or count >= records.n:
        allowed = f"at most {min(len(rows), records.n - 1):,}, of {records.n:,} documents"
        hint = "documents without a fact to change, or with another nearly like them, are passed over: set fewer"
        raise InputError("canaries.count", allowed, f"{count:,}", hint)
    document_rows = np.array(rows)
    labels = None if records.y is None else np.asarray(records.y)[document_rows]
    return Records(texts, labels, None, {}, "canaries", classes=records.classes), document_rows


def _facts(text: str) -> list[_Fact]:
    """The facts of a text, each once; letters that are no capitals begin no name."""
    facts = [_Fact(str(one.lastgroup), one.group()) for one in _FACT.finditer(text)]
    names = [fact.kind != "name" or all(word[0].isupper() for word in fact.value.split()) for fact in facts]
    return list(dict.fromkeys(fact for fact, is_fact in zip(facts, names, strict=True) if is_fact))


def _changed(
    text: str, facts: Sequence[_Fact], pools: dict[tuple[str, str], list[str]], rng: np.random.Generator
) -> str | None:
    """Return the text with one of the facts changed; None where there is none, or no other of its form."""
    of_kind = {kind: [fact for fact in facts if fact.kind == kind] for kind in _KINDS}
    kinds = [kind for kind in _KINDS[:-1] if of_kind[kind]] or [kind for kind in _KINDS[-1:] if of_kind[kind]]
    for kind in (kinds[i] for i in rng.permutation(len(kinds))):
        for fact in (of_kind[kind][i] for i in rng.permutation(len(of_kind[kind]))):
            pool = pools[fact.form]
            for place in rng.integers(0, len(pool), _TRIES).tolist():
                if pool[place] not in text:
                    parts = re.split(rf"(?<![\w.,]){re.escape(fact.value)}(?!\w|[.,]\d)", text)
                    return str(pool[place].join(parts))
    return None


# -- documents as they are ---------------------------------------------------------------------------------------------


def held_out(records: Records, count: int, rng: np.random.Generator) -> tuple[Records, IntArray]:
    """Documents drawn at random, or units with all of their documents, as they are.

    Passed over are documents that say nothing, and those that nearly stand in another (of another unit): a model learns
    them there.

    Returns
    -------
    The canaries, and the rows of the documents that they are: these leave the records
    """
    unit = records.fields.get("unit")
    codes = np.arange(records.n) if unit is None else np.unique(np.asarray(unit), return_inverse=True)[1]
    chosen = [rows for _, rows in zip(range(count), _alone(records.x, codes, rng), strict=False)]
    document_rows = np.sort(np.concatenate([*chosen, np.empty(0, dtype=np.int64)]))
    if len(chosen) < count or len(document_rows) >= records.n:
        most = len(chosen) - (len(document_rows) >= records.n)
        allowed = f"at most {most:,} {'documents' if unit is None else 'units'}, of {records.n:,} documents"
        hint = "those that are empty or nearly stand in another are passed over, and some must stay: set fewer"
        raise InputError("canaries.count", allowed, f"{count:,}", hint)
    return replace(taken_from(records, document_rows), natural=True), document_rows


def _alone(texts: Sequence[str], codes: IntArray, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the rows of each code in a random order of these, but where one says nothing or nearly stands in another's.

    ``rng`` is asked for the order only, at once.
    """
    by_code = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    order = [by_code[code] for code in rng.permutation(len(by_code))]
    for start in range(0, len(order), _PART):
        rows = np.concatenate(order[start : start + _PART])
        beside = near([texts[row] for row in rows], texts, codes[rows], codes)
        shared = {int(row) for row, other in zip(rows, beside, strict=True) if other >= 0 or not texts[row].split()}
        yield from (own for own in order[start : start + _PART] if shared.isdisjoint(own.tolist()))


def taken_from(records: Records, rows: IntArray) -> Records:
    """Some of the records, with all that is known of them."""
    fields = {name: one if name == "covariate_names" else np.asarray(one)[rows] for name, one in records.fields.items()}
    own = {name: getattr(records, name) for name in ("y", "ids", "times", "member")}
    columns: dict[str, Any] = {name: None if one is None else np.asarray(one)[rows] for name, one in own.items()}
    return replace(records, x=frames.taken(records.x, rows), fields=fields, **columns)
