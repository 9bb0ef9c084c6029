"""Decoys have exactly the law of the strings that are taken, and a generator without the filter is noticed."""

from __future__ import annotations

import random
import secrets
import string as characters
import uuid
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

from miaudit.auditing import candidate_law
from miaudit.collect.random_strings import KINDS, decoys_of, kinds_of, law_of, longer_runs, matches, normal, runs
from miaudit.errors import InputError

ALL = kinds_of(list(KINDS))
ALPHABETS = {
    "base32": characters.ascii_uppercase + "234567",
    "base36": characters.ascii_lowercase + characters.digits,
    "base58": "".join(one for one in characters.ascii_letters + characters.digits if one not in "0OIl"),
    "base62": characters.ascii_letters + characters.digits,
}


def decoys(string: str, count: int, seed: int = 0) -> list[str]:
    return decoys_of(string, count, avoid=frozenset(), rng=np.random.default_rng(seed))


def by_position(strings: list[str], alphabet: str, position: int) -> float:
    counts = Counter(one[position] for one in strings)
    assert set(counts) <= set(alphabet)
    return float(chisquare([counts[one] for one in alphabet]).pvalue)


def test_the_law_of_short_numbers_is_exact_by_enumeration() -> None:
    """Every accepted number is equally likely, and without the filter others come."""
    accepted = [str(one) for one in range(1000, 10_000) if law_of(str(one))]
    assert 0.8 < len(accepted) / 9000 < 0.95  # Luhn leaves nine tenths
    rng = np.random.default_rng(3)
    numbers = [one for _ in range(60) for one in decoys_of("4821", 100, avoid=frozenset(), rng=rng)]
    place = {one: k for k, one in enumerate(accepted)}
    bins = np.bincount([place[one] * 50 // len(accepted) for one in numbers], minlength=50)
    size = np.bincount([k * 50 // len(accepted) for k in range(len(accepted))], minlength=50)
    assert chisquare(bins, size / size.sum() * len(numbers)).pvalue > 0.001
    for position in range(4):
        truth = Counter(one[position] for one in accepted)
        seen = Counter(one[position] for one in numbers)
        expected = np.array([truth[d] for d in sorted(truth)]) / len(accepted) * len(numbers)
        assert chisquare([seen[d] for d in sorted(truth)], expected).pvalue > 0.001
    without_filter = [str(one) for one in rng.integers(1000, 10_000, 6000)]
    assert sum(one not in place for one in without_filter) > 300  # the control


def test_the_law_of_a_uuid_by_position() -> None:
    strings = decoys("9b2e9f4e-3c1d-4f6a-8e2b-7d1c5a4b9e3f", 1000)
    hexadecimal = "0123456789abcdef"
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 4 for one in strings)
    assert by_position(strings, "89ab", 19) > 0.001
    p = [by_position(strings, hexadecimal, i) for i in range(36) if i not in (8, 13, 14, 18, 19, 23)]
    assert min(p) > 0.001 / len(p)
    raw = [str(uuid.UUID(bytes=secrets.token_bytes(16))) for _ in range(1000)]  # the control: no fixed bits
    assert Counter(one[19] for one in raw).keys() - set("89ab")


@pytest.mark.parametrize(
    ("string", "alphabet"),
    [
        ("1f0c9d3e5b7a8642", "0123456789abcdef"),
        ("kX9fQ2mZb7LpR4tWcN1sVd", ALPHABETS["base58"]),
        ("4f9x0q8z7k2m5n1p3r6t8w0yzc", ALPHABETS["base36"]),
        ("MFRGG43FMNZGS5DZ2345ABQXTT", ALPHABETS["base32"]),
    ],
)
def test_laws_by_position(string: str, alphabet: str) -> None:
    """All but the last character, whose class is that of the string, are nearly uniform over the alphabet."""
    strings = decoys(string, 1500)
    p = [by_position(strings, alphabet, i) for i in range(len(string) - 1)]
    assert min(p) > 0.001 / len(p)
    assert len(set(strings)) == len(strings)
    assert {law_of(one) for one in strings} == {law_of(string)}


GENERATORS: dict[str, Callable[[random.Random], str]] = {
    "uuid4": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
    "UUID4": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper(),
    "undashed": lambda rng: uuid.UUID(int=rng.getrandbits(128), version=4).hex,
    "token_hex": lambda rng: rng.randbytes(16).hex(),
    "short hex": lambda rng: rng.randbytes(8).hex(),
    "digits": lambda rng: f"{rng.randrange(10**9):09d}",
    "no leading zero": lambda rng: str(rng.randrange(10**9, 10**10)),
    "urlsafe": lambda rng: __import__("base64").urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("="),
    **{name: lambda rng, own=alphabet: "".join(rng.choices(own, k=24)) for name, alphabet in ALPHABETS.items()},
}


@pytest.mark.parametrize("name", GENERATORS)
def test_strings_of_other_generators_have_the_law_of_their_decoys(name: str) -> None:
    """True strings of Python's own generators, as they are found, rank uniformly beside decoys by their form."""
    other, rng = random.Random(5), np.random.default_rng(6)
    rows: list[list[str]] = []
    while len(rows) < 150:
        found = [one for one in matches(f"id {GENERATORS[name](other)} of a ticket", ALL) if not one.reason]
        if len(found) == 1:
            string = found[0].string
            rows.append([string, *decoys_of(string, 9, avoid=frozenset(), rng=rng)])
    law = candidate_law.of_format(np.array(rows, dtype=object), np.random.default_rng(7))
    assert law is not None and not law.refuted, (name, law)
    statistics: tuple[Callable[[str], float], ...] = (
        lambda one: sum(map(str.isdigit, one)),
        lambda one: sum(map(ord, one)),
        lambda one: ord(one[-1]),
        lambda one: len(set(one)),
    )
    for statistic in statistics:
        values = np.array([[statistic(one) for one in row] for row in rows], float)
        values += 1e-6 * rng.random(values.shape)  # ties in random order
        ranks = (values[:, 1:] < values[:, :1]).sum(axis=1)
        assert chisquare(np.bincount(ranks, minlength=10)).pvalue > 1e-4, name


def test_decoys_without_the_filter_are_noticed() -> None:
    """The control: numbers that passed the filter beside numbers that did not."""
    rng = np.random.default_rng(8)
    rows = []
    while len(rows) < 2000:
        number = str(rng.integers(10**8, 10**9))
        if law_of(number):
            rows.append([number, *map(str, rng.integers(10**8, 10**9, 9))])
    passes = np.array([[bool(law_of(one)) for one in row] for row in rows])
    values = passes + 0.5 * rng.random(passes.shape)
    ranks = (values[:, 1:] < values[:, :1]).sum(axis=1)
    assert chisquare(np.bincount(ranks, minlength=10)).pvalue < 1e-6


def test_decoys_avoid_strings_of_the_data_and_end() -> None:
    avoid = {str(one) for one in range(1000, 10_000) if one % 3}
    numbers = decoys_of("4821", 50, avoid=avoid, rng=np.random.default_rng(0))
    assert all(int(one) % 3 == 0 for one in numbers) and "4821" not in numbers
    everything = {str(one) for one in range(1000, 10_000)}
    with pytest.raises(InputError, match="fewer decoys of 4 digits"):
        decoys_of("4821", 1, avoid=everything, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="a date"):
        decoys("20240131", 1)


def test_what_is_taken_does_not_depend_on_the_value_of_other_random_strings() -> None:
    """Else a string beside a number would be taken only if it ends with a letter, and its decoys would not."""
    rng, ends = random.Random(9), Counter[bool]()
    for _ in range(200):
        code = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        first, number, second = matches(f"{code} 83920571 {rng.randbytes(8).hex()}x", ALL)
        assert not first.reason and number.reason in ("", "a part of a longer number") and second.kind == "base64"
        ends[number.reason == ""] += code[-1].isdigit()
    assert ends[False] == 0 and ends[True] > 80
    (number, *_) = matches("12 83920571", ALL)
    assert number.reason == "a part of a longer number"  # the control: what is there is no random string


def test_matches_of_a_text() -> None:
    text = (
        "Id 9b2e9f4e-3c1d-4f6a-8e2b-7d1c5a4b9e3f; key=kX9fQ2mZb7LpR4tWcN1sVd&n=0x1f0c9d3e5b7a8642, "
        "short 1f0c9d3e5b7a, applicationServer2Handler, 83920571 (20240131)"
    )
    seen = [(one.kind, text[one.start : one.end] == one.string, one.reason) for one in matches(text, ALL)]
    assert seen == [
        ("uuid4", True, ""),
        ("base64", True, ""),
        ("hex", True, ""),
        ("hex", True, "shorter than 16 characters"),
        ("base64", True, "made of words"),
        ("digits", True, ""),
        ("digits", True, "a date"),
    ]
    assert [one.kind for one in matches(text, kinds_of(["uuid4"]))] == ["uuid4"]
    assert len(list(runs("a-b c"))) == 3 and len(list(longer_runs("a-b c"))) == 2
    assert normal("9B2E9F4E-3C1D-4F6A-8E2B-7D1C5A4B9E3F") == "9b2e9f4e3c1d4f6a8e2b7d1c5a4b9e3f"


@pytest.mark.parametrize("words", [[], ["uuid5"], ["hex", "hex:20"], ["digits:3"], ["digits:x"], ["uuid4:16"]])
def test_words_that_name_no_kind(words: list[str]) -> None:
    with pytest.raises(InputError, match="find"):
        kinds_of(words)
