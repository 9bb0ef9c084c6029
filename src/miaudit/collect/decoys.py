"""Decoys: for each record its random strings, and more strings of the same law, as probes for a model to score."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.auditing import candidate_law
from miaudit.collect import string_forms
from miaudit.collect.random_strings import Kind, Match, decoys_of, kinds_of, law_of, longer_runs, matches, normal, runs
from miaudit.errors import InputError
from miaudit.errors.checks import whole
from miaudit.io.documents import Document, digest_of, read_documents
from miaudit.io.probes import Key, KeyUnit, Probe, Seed, write
from miaudit.io.probes import digest_of as digest_of_probes

__all__ = ["Decoys", "Document", "Key", "Probe", "Seed", "make", "read_documents", "write"]

_HASH_LENGTHS = (32, 40, 56, 64, 96, 128)
_SEVERAL = "in several units"
_NUMBER = re.compile("[0-9]{6,}")
_MOST_SCREENED, _OTHERS = 400, 9  # strings of a law that are tested against chance, and decoys of each in that test
_SCREEN_LEVEL = 1e-4


@dataclass(frozen=True)
class Decoys:
    """Probes of records, their key, and what was taken and refused.

    Attributes
    ----------
    probes : K + 1 texts of each record
    key : which candidates are true
    taken : number of strings by kind
    refused : number of strings by kind and reason
    empty : records without a string that is taken, which are in no probe
    """

    probes: tuple[Probe, ...]
    key: Key
    taken: Mapping[str, int]
    refused: Mapping[tuple[str, str], int]
    empty: int


def make(
    documents: Sequence[Document],
    *,
    find: Sequence[str],
    count: int = 20,
    seed: Seed,
    progress: Callable[[int, int], None] | None = None,
) -> Decoys:
    """Find random strings in texts, and draw decoys of the same laws.

    All strings of a unit are one coin: a candidate replaces all of them, wherever they are in its records. Records
    without units are units of their own, but those that have a string in common are one.

    Parameters
    ----------
    documents : texts
    find : kinds of strings (:func:`miaudit.collect.random_strings.kinds_of`)
    count : K, the number of decoys of each unit, from 1
    seed : that decoys and the places of true strings are drawn from; secret until the scores are in
    progress : called with (finished, all) units

    Raises
    ------
    InputError
        For texts without a random string.

    Examples
    --------
    >>> made = make([Document("a", "Order 83920571 came.")], find=["digits"], count=1, seed=Seed.of(7))
    >>> [probe.text for probe in made.probes], made.key.units[0].true
    (['Order 83920571 came.', 'Order 90295428 came.'], 0)
    """
    kinds, count = kinds_of(find), whole("count", count, "20 are usual", low=1, high=1000)
    documents = tuple(documents)
    rng, of_screen = seed.generator().spawn(2)
    strings = _Strings.of(documents, kinds, of_screen)
    units = _units(documents, strings)
    if not units:
        raise InputError("find", "a random string in one of the texts", strings.summary, _advice(kinds))
    probes, members = list[Probe](), list[KeyUnit]()
    for unit, rows in units.items():
        own = list(dict.fromkeys(string for row in rows for string in strings.of_row[row]))
        members.append(_unit(unit, [documents[row] for row in rows], own, count, strings.every, rng))
        probes += _probes(members[-1], [documents[row] for row in rows])
        if progress is not None:
            progress(len(members), len(units))
    digest = digest_of(documents)
    key = Key(digest_of_probes(probes), digest, seed.value, seed.commitment(digest), tuple(members))
    empty = len(documents) - sum(len(one.records) for one in members)
    return Decoys(tuple(probes), key, strings.taken, strings.refused, empty)


@dataclass(frozen=True)
class _Strings:
    """Strings of all texts.

    Attributes
    ----------
    of_row : strings that are taken, by document
    every : what no decoy may be
    taken : occurrences by kind
    refused : occurrences by kind and reason
    """

    of_row: tuple[tuple[str, ...], ...]
    every: frozenset[str]
    taken: Mapping[str, int]
    refused: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, documents: tuple[Document, ...], kinds: Sequence[Kind], rng: np.random.Generator) -> _Strings:
        every_match = [list(matches(one.text, kinds)) for one in documents]
        reasons = _reasons(documents, every_match)
        others = (one.string for of_document in every_match for one in of_document if one.string not in reasons)
        reasons |= dict(_unlike_chance(others, rng))
        refused, taken = Counter[tuple[str, str]](), Counter[str]()
        for one in (one for of_document in every_match for one in of_document):
            if one.string in reasons:
                refused[one.kind, reasons[one.string]] += 1
            else:
                taken[one.kind] += 1
        of_row = tuple(
            tuple(dict.fromkeys(one.string for one in of_document if one.string not in reasons))
            for of_document in every_match
        )
        return cls(of_row, frozenset(_every(documents, every_match)), dict(taken), dict(refused))

    @property
    def summary(self) -> str:
        """What is there instead of a random string."""
        if not self.refused:
            return "none of these kinds"
        (kind, reason), often = max(self.refused.items(), key=lambda one: one[1])
        return f"{sum(self.refused.values()):,} that are refused, {often:,} of them {kind}: {reason}"


def _reasons(documents: tuple[Document, ...], every_match: Sequence[Sequence[Match]]) -> dict[str, str]:
    """Strings that are refused, each with the reason: one that is refused in one place is refused in all."""
    reasons = {one.string: one.reason for of_document in every_match for one in of_document if one.reason}
    for document, of_document in zip(documents, every_match, strict=True):
        if any(len(one.string) in _HASH_LENGTHS for one in of_document):
            hashes = set(string_forms.digests_of([document.text, document.record, document.unit or ""]))
            hashed = (one.string for one in of_document if one.string.lower() in hashes)
            reasons |= dict.fromkeys(hashed, "a hash of content of its record")
    return {**dict(_shared(documents, every_match)), **reasons}


def _unlike_chance(strings: Iterable[str], rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Yield the strings of each law whose characters identify them beside decoys, as those of counters do."""
    of_law = defaultdict[str, list[str]](list)
    for string in dict.fromkeys(strings):
        of_law[law_of(string)].append(string)
    for own in of_law.values():
        rows = [[string, *decoys_of(string, _OTHERS, avoid=set(), rng=rng)] for string in own[:_MOST_SCREENED]]
        check = candidate_law.of_format(np.array(rows, dtype=object), rng)
        if check is not None and check.p_value < _SCREEN_LEVEL:
            yield from (
                (string, "unlike chance: characters that other strings have too, as of a counter") for string in own
            )


def _shared(documents: tuple[Document, ...], every_match: Sequence[Sequence[Match]]) -> Iterator[tuple[str, str]]:
    """Yield the strings that are in two units or in two spellings, with the reason."""
    spelled, owners = defaultdict[str, set[str]](set), defaultdict[str, set[str | None]](set)
    for document, of_document in zip(documents, every_match, strict=True):
        for one in of_document:
            spelled[normal(one.string)].add(one.string)
            owners[one.string].add(document.unit)
    for same in spelled.values():
        for string in same:
            if len(same) > 1:
                yield string, "in two spellings"
            elif len(owners[string]) > 1:
                yield string, _SEVERAL
    yield from _inside(documents, owners)


def _inside(documents: tuple[Document, ...], owners: Mapping[str, set[str | None]]) -> Iterator[tuple[str, str]]:
    """Yield the strings that are also a part of longer runs of letters and digits, where no kind takes them."""
    lengths = sorted({len(string) for string in owners})
    for document in documents:
        for run in longer_runs(document.text):
            longer = run.group()
            for length in lengths:
                for start in range(len(longer) - length + 1):
                    part = longer[start : start + length]
                    if part in owners and _is_cut(longer, start, start + length):
                        yield part, "a part of a longer string too"


def _is_cut(longer: str, start: int, end: int) -> bool:
    """Whether letters or digits are next to a part of a run; the sign 0x of hexadecimal numbers does not count."""
    before = start > 0 and longer[start - 1].isalnum() and longer[:start] not in ("0x", "0X")
    return before or (end < len(longer) and longer[end].isalnum())


def _every(documents: tuple[Document, ...], every_match: Sequence[Sequence[Match]]) -> Iterator[str]:
    """Yield what no decoy may be: runs of letters and digits, and all numbers that are a part of them."""
    lengths = {len(one.string) for of_document in every_match for one in of_document if one.kind == "digits"}
    for document in documents:
        yield from (normal(run.group()) for run in runs(document.text))
        for run in _NUMBER.finditer(document.text) if lengths else ():
            digits = run.group()
            for length in lengths:
                yield from (digits[i : i + length] for i in range(len(digits) - length + 1))


def _units(documents: tuple[Document, ...], strings: _Strings) -> dict[str, list[int]]:
    """Rows of the documents of each unit that has a string, by name, in their order."""
    with_strings = [row for row, own in enumerate(strings.of_row) if own]
    owner = dict[str, int]()  # the first row of each string, or of each unit
    first = dict[int, int]()

    def root(row: int) -> int:
        while first.setdefault(row, row) != row:
            row = first[row]
        return row

    for row in with_strings:
        unit = documents[row].unit
        names = strings.of_row[row] if unit is None else (f"\0{unit}",)
        for name in names:
            a, b = root(owner.setdefault(name, row)), root(row)
            first[max(a, b)] = min(a, b)
    rows = defaultdict[int, list[int]](list)
    for row in with_strings:
        rows[root(row)].append(row)
    return {_name(documents[start]): of_unit for start, of_unit in rows.items()}


def _name(document: Document) -> str:
    return document.record if document.unit is None else document.unit


def _unit(
    unit: str,
    documents: Sequence[Document],
    own: Sequence[str],
    count: int,
    every: frozenset[str],
    rng: np.random.Generator,
) -> KeyUnit:
    """Draw the candidates of a unit, and the place of the true one, which is as likely to be any."""
    true = int(rng.integers(count + 1))
    columns = [decoys_of(string, count, avoid=every, rng=rng) for string in own]
    candidates = list(zip(*columns, strict=True))
    candidates.insert(true, tuple(own))
    return KeyUnit(unit, tuple(one.record for one in documents), true, tuple(map(law_of, own)), tuple(candidates))


def _probes(unit: KeyUnit, documents: Sequence[Document]) -> Iterator[Probe]:
    """Texts of each candidate: its strings wherever the true ones are."""
    own = unit.candidates[unit.true]
    pattern = re.compile("|".join(re.escape(one) for one in sorted(own, key=len, reverse=True)))
    for document in documents:
        for number, strings in enumerate(unit.candidates):
            instead = dict(zip(own, strings, strict=True))
            text = pattern.sub(lambda match, to=instead: to[match.group()], document.text)  # type: ignore[misc]
            yield Probe(document.record, unit.unit, number, text)


def _advice(kinds: Sequence[Kind]) -> str:
    others = [name for name in ("uuid4", "hex", "base64", "digits") if name not in [kind.name for kind in kinds]]
    more = f"add {', '.join(others)} to --find, or " if others else ""
    return f"{more}audit by canaries instead: docs/canaries.md"
