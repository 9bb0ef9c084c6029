"""Strings that chance did not draw are refused by their form or by what stands around them."""

from __future__ import annotations

import base64
import hashlib
import uuid

import numpy as np
import pytest

from miaudit.collect.string_forms import digests_of, reason, reason_of_context


@pytest.mark.parametrize(
    ("string", "word"),
    [
        ("648f2476-eb6a-11f1-910e-02fc00000001", "UUIDv1"),
        (str(uuid.uuid3(uuid.NAMESPACE_DNS, "a.example")), "UUIDv3"),
        (str(uuid.uuid5(uuid.NAMESPACE_DNS, "a.example")), "UUIDv5"),
        ("018f4d2a-7c3b-7e21-9a4d-5b6c7d8e9f01", "UUIDv7"),
        ("018f4d2a7c3b7e219a4d5b6c7d8e9f01", "UUIDv7"),
        ("00000000-0000-0000-0000-00000000000a", "another version"),
        ("507f1f77bcf86cd799439011", "ObjectId"),
        ("20240229", "a date"),
        ("29022024", "a date"),
        ("02292024", "a date"),
        ("20240131235959", "a date"),
        ("240131", "a date"),
        ("1706659200", "a time"),
        ("1706659200123", "a time"),
        ("1706659200123456", "a time"),
        ("175928847299117063", "snowflake"),
        ("9780306406157", "ISBN"),
        ("0306406152", "ISBN"),
        ("4539578763621486", "Luhn"),
        ("77777777", "different digits"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "ULID"),
        ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", "KSUID"),
        ("cjld2cjxh0000qzrmn831i7rn", "CUID"),
        ("9m4e2mr0ui3e8a215n4g", "XID"),
        ("AKIAQ4TX2WZ7KRPL5MNB", "fixed beginning"),
        ("MIIBIjANBgkqhkiG9w0BAQEF", "structure"),
        ("applicationServer2Handler", "words"),
        (base64.b64encode(b"a text that can be read").decode().rstrip("="), "encoded text"),
        ("0x5aAeb6053F3E94C9b9A09f33669435E7".removeprefix("0x"), "mixed case"),
    ],
)
def test_forms_that_are_refused(string: str, word: str) -> None:
    assert word in reason(string)


def test_forms_that_are_taken() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert reason(str(uuid.UUID(bytes=rng.bytes(16), version=4))) == ""
    taken = [reason(rng.bytes(16).hex()) == "" for _ in range(400)]
    assert np.mean(taken) > 0.8  # the others look like a UUID of another version


def test_check_digits_are_those_of_other_implementations() -> None:
    """The ISBN and Luhn digits that are refused are one of the ten possible last digits each."""
    rng = np.random.default_rng(1)
    for length in (8, 13, 15, 16):
        for _ in range(20):
            head = "".join(map(str, rng.integers(5, 10, length - 1)))
            refused = [digit for digit in "0123456789" if "check digit" in reason(head + digit)]
            assert 1 <= len(refused) <= 2, (head, refused)


def around(text: str, string: str) -> str:
    start = text.index(string)
    return reason_of_context(text, start, start + len(string), string)


@pytest.mark.parametrize(
    "text",
    [
        "commit {}",
        "md5: {}",
        "{} sha1",
        "see https://example.org/tree/{}",
    ],
)
def test_context_of_a_hash(text: str) -> None:
    string = hashlib.sha1(b"x", usedforsecurity=False).hexdigest()
    assert "a hash of content" in around(text.format(string), string)
    assert around(f"the key {string} of a person", string) == ""


def test_context_of_tokens_and_numbers() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.AbCd1234EfGh5678IjKl90"
    assert "JWT" in around(token, "AbCd1234EfGh5678IjKl90")
    for text in ("call +34567891", "of 12-34567891", "of 34567891/2", "of 34567891 2"):
        assert around(text, "34567891") == "a part of a longer number"
    assert around("of 34567891.", "34567891") == ""


def test_hashes_of_content() -> None:
    text = "first line\nsecond word"
    held = set(digests_of([text]))
    assert hashlib.sha256(b"first line").hexdigest() in held
    assert hashlib.md5(b"word", usedforsecurity=False).hexdigest() in held
    assert hashlib.sha1(b"blob 4\0word", usedforsecurity=False).hexdigest() in held  # as git names a file
    assert hashlib.sha256(b"another").hexdigest() not in held
