"""Probes of records: one coin for each unit, every occurrence replaced, and nothing scored beside another's string."""

from __future__ import annotations

import random
import re
import uuid
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.stats import chisquare

from miaudit.collect.decoys import Decoys, make
from miaudit.errors import InputError
from miaudit.io.documents import Document
from miaudit.io.probes import Seed

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def a_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def tickets(n: int, seed: int = 0) -> list[Document]:
    rng = random.Random(seed)
    return [Document(f"n{i}", f"Ticket {a_uuid(rng)} of day {i}.") for i in range(n)]


def made(documents: Sequence[Document], *find: str, count: int = 4, seed: object = 7) -> Decoys:
    return make(documents, find=find or ("uuid4",), count=count, seed=Seed.of(seed))


def test_the_true_candidate_gives_the_text_as_it_is() -> None:
    documents = tickets(6)
    result = made(documents)
    text = {(probe.record, probe.candidate): probe.text for probe in result.probes}
    assert len(text) == len(result.probes) == 30 and result.taken == {"uuid4": 6} and result.empty == 0
    for document, unit in zip(documents, result.key.units, strict=True):
        assert unit.records == (document.record,) and text[document.record, unit.true] == document.text
        assert unit.laws == ("uuid4 with dashes, lower case",)
        for k, (string,) in enumerate(unit.candidates):
            assert text[document.record, k] == UUID.sub(string, document.text)
    strings = [string for unit in result.key.units for (string,) in unit.candidates]
    assert len(set(strings)) == 30


@pytest.mark.long
def test_places_of_true_strings_are_uniform_and_follow_from_the_seed() -> None:
    documents = tickets(400)
    result = made(documents)
    places = np.bincount([unit.true for unit in result.key.units], minlength=5)
    assert chisquare(places).pvalue > 0.001
    assert result.probes == made(documents).probes and result.probes != made(documents, seed=8).probes
    assert made(documents, seed=Seed.of(7).value).key == result.key


def test_all_strings_of_a_record_are_one_coin_and_every_occurrence_is_replaced() -> None:
    rng = random.Random(1)
    a, b = a_uuid(rng), a_uuid(rng)
    result = made([Document("x", f"{a} or <{b}>, again {a}; 83920571")], "uuid4", "digits")
    (unit,) = result.key.units
    assert unit.candidates[unit.true] == (a, b, "83920571") and len(unit.laws) == 3
    for probe in result.probes:
        first, second, number = unit.candidates[probe.candidate]
        assert probe.text == f"{first} or <{second}>, again {first}; {number}"


def test_records_with_a_string_in_common_are_one_unit() -> None:
    rng = random.Random(2)
    a, b, c = (a_uuid(rng) for _ in range(3))
    documents = [Document("x", a), Document("y", f"{b} and {c}"), Document("z", f"{a}, {b}"), Document("w", "none")]
    result = made(documents)
    (unit,) = result.key.units
    assert unit.unit == "x" and unit.records == ("x", "y", "z") and result.empty == 1
    assert {probe.unit for probe in result.probes} == {"x"}
    text = {(probe.record, probe.candidate): probe.text for probe in result.probes}
    for k, (first, second, third) in enumerate(unit.candidates):
        assert [text[name, k] for name in "xyz"] == [first, f"{second} and {third}", f"{first}, {second}"]
    assert unit.candidates[unit.true] == (a, b, c)


def test_strings_of_two_declared_units_are_refused() -> None:
    rng = random.Random(3)
    a, b = a_uuid(rng), a_uuid(rng)
    documents = [Document("x", f"{a} {b}", "anna"), Document("y", a, "bela"), Document("z", "no string", "anna")]
    result = made(documents)
    assert result.refused == {("uuid4", "in several units"): 2}
    (unit,) = result.key.units
    assert unit.unit == "anna" and unit.candidates[unit.true] == (b,) and unit.records == ("x",)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ("{upper}", "in two spellings"),
        ("{undashed}", "in two spellings"),
        ("x{string}", "a part of a longer string too"),
        ("{string}7", "a part of a longer string too"),
    ],
)
def test_another_spelling_elsewhere_refuses_the_string(other: str, word: str) -> None:
    """Else the true string would stand in texts in which it is not replaced."""
    rng = random.Random(4)
    a, b = a_uuid(rng), a_uuid(rng)
    elsewhere = other.format(upper=a.upper(), undashed=a.replace("-", ""), string=a)
    result = made([Document("x", a), Document("y", b), Document("z", f"see {elsewhere}")])
    assert ("uuid4", word) in result.refused
    assert [unit.unit for unit in result.key.units] == ["y"]


def test_a_string_that_is_refused_in_one_place_is_refused_in_all() -> None:
    string = "9fceb02d0ae598e95dc970b74767f19372d61af8"
    documents = [Document("x", f"the key {string}"), Document("y", f"commit {string}"), Document("z", "ab12" * 5)]
    result = made(documents, "hex")
    assert [unit.unit for unit in result.key.units] == ["z"]
    assert result.refused == {("hex", "beside the word commit: a hash of content"): 2}


def test_hashes_of_what_a_record_says_are_refused() -> None:
    import hashlib

    digest = hashlib.sha256(b"anna@example.org").hexdigest()
    documents = [Document("x", f"anna@example.org has {digest}"), Document("y", f"bela has {digest[::-1]}")]
    result = made(documents, "hex")
    assert result.refused == {("hex", "a hash of content of its record"): 1}
    assert [unit.unit for unit in result.key.units] == ["y"]


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda i, rng: f"{20_000_000 + 3 * i + int(rng.integers(3))}", "digits"),  # a counter with gaps
        (lambda i, rng: f"buyer{int(rng.integers(2**63)):016x}", "base64"),  # random behind a fixed beginning
        (lambda i, rng: f"{0x65A1B2C3 + 977 * i:08x}{int(rng.integers(2**32)):08x}", "hex"),  # a time comes first
    ],
)
def test_counters_are_refused_by_their_characters(write: Callable[[int, np.random.Generator], str], kind: str) -> None:
    rng = np.random.default_rng(5)
    documents = [Document(str(i), f"See {write(i, rng)}.") for i in range(100)]
    documents += tickets(3)
    result = made(documents, "uuid4", "digits", "hex", "base64")
    refused = sum(n for (of, why), n in result.refused.items() if of == kind and why.startswith("unlike chance"))
    assert refused >= 60 and set(result.taken) == {"uuid4"}


@pytest.mark.long
def test_who_scores_texts_by_their_form_learns_nothing() -> None:
    """Strings of four kinds beside each other, some in two records: true texts rank uniformly by any feature."""
    rng, numbers = random.Random(11), np.random.default_rng(12)
    documents = []
    for i in range(400):
        token = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=24))
        text = f"{a_uuid(rng)} {rng.randrange(10**8):08d} 0x{rng.randbytes(8).hex()} {token} {rng.randrange(10**8):08d}"
        documents.append(Document(str(i), text))
        if i % 5 == 0:
            documents.append(Document(f"{i} again", f"see {text}"))
    result = made(documents, "uuid4", "digits", "hex", "base64", count=9)
    assert len(result.key.units) > 390 and set(result.taken) == {"uuid4", "digits", "hex", "base64"}
    texts = [["".join(unit.candidates[k]) for k in unit.true_first] for unit in result.key.units]
    features: tuple[Callable[[str], float], ...] = (
        lambda text: sum(map(str.isdigit, text)),
        lambda text: sum(map(ord, text)),
        lambda text: sum(text[i] == text[i - 1] for i in range(1, len(text))),
        lambda text: zlib.crc32(text[::3].encode()) % 1009,
        lambda text: int("".join(one for one in text if one.isdigit())[-9:]),
    )
    for feature in features:
        values = np.array([[feature(one) for one in row] for row in texts], float)
        values += 1e-6 * numbers.random(values.shape)  # ties in random order
        ranks = (values[:, 1:] < values[:, :1]).sum(axis=1)
        assert chisquare(np.bincount(ranks, minlength=10)).pvalue > 1e-4


def test_random_strings_pass_the_screen() -> None:
    """Of ten sets of true strings none is refused as a whole."""
    rng = np.random.default_rng(6)
    for _ in range(10):
        documents = [Document(str(i), f"See {rng.bytes(8).hex()} here.") for i in range(60)]
        result = made(documents, "hex")
        assert not any("unlike chance" in why for _, why in result.refused)


@pytest.mark.long
def test_no_decoy_is_in_the_data() -> None:
    """With numbers of six digits, of which the data have many, each would be met by chance."""
    rng = np.random.default_rng(5)
    documents = [Document(str(i), f"No {one:06d}") for i, one in enumerate(rng.choice(10**6, 3000, replace=False))]
    documents += [Document(f"long{i}", f"see {one}") for i, one in enumerate(rng.integers(10**17, 10**18, 300))]
    result = made(documents, "digits:6", count=3)
    held = " ".join(document.text for document in documents)
    decoys = [one for unit in result.key.units for k, (one,) in enumerate(unit.candidates) if k != unit.true]
    assert len(decoys) > 5000 and not any(one in held for one in decoys)


def test_texts_without_random_strings_say_what_to_do() -> None:
    with pytest.raises(InputError, match=r"received none of these kinds; add hex, base64, digits to --find"):
        made([Document("x", "nothing here")])
    with pytest.raises(InputError, match=r"1 that are refused, 1 of them digits: a date"):
        made([Document("x", "on 20240131")], "digits")
    for count in (0, 1001):
        with pytest.raises(InputError, match="count"):
            made(tickets(2), count=count)


def test_the_commitment_holds_seed_and_documents() -> None:
    documents = tickets(3)
    key = made(documents).key
    assert Seed(key.seed).commitment(key.documents) == key.commitment
    assert made(tickets(3, seed=9)).key.commitment != key.commitment != made(documents, seed=8).key.commitment
