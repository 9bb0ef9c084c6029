"""Forms of strings that chance did not draw: identifiers with a time, dates, check digits, words, encoded texts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import date

__all__ = ["digests_of", "reason", "reason_of_context"]

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_YEARS = range(1900, 2101)
_FIRST, _LAST = 946_684_800, 2_208_988_800  # seconds from 1970: the years 2000 to 2039
_EPOCHS = (1_288_834_974_657, 1_420_070_400_000)  # milliseconds: where the numbers of Twitter and Discord begin
_WORD = re.compile(r"[A-Z]?[a-z]{5,}|[A-Z]{5,}")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_HASHED = re.compile(
    r"\b(commits?|committed|git|trees?|blobs?|parents?|revisions?|merge|sha-?\d*|md5|hash(?:es)?|digest|checksum|etag|"
    r"integrity|fingerprint)\b",
    re.IGNORECASE,
)
_AROUND = 40  # characters before a string in which such a word counts; half as many after it
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UUID_NAMES = {
    "1": "a UUIDv1: it holds a time",
    "2": "a UUIDv2: it holds a time",
    "3": "a UUIDv3: it is a hash of a name",
    "5": "a UUIDv5: it is a hash of a name",
    "6": "a UUIDv6: it holds a time",
    "7": "a UUIDv7: it holds a time",
}


def reason(string: str) -> str:
    """Say why the form of a string shows that chance did not draw it whole; empty where it does not.

    The reason follows from the string alone. So decoys that pass the same test have the law of the strings that do.

    Examples
    --------
    >>> reason("20240131"), reason("4539578763621486")
    ('a date', 'a number with a check digit (Luhn)')
    >>> reason("83920571"), reason("507f1f77bcf86cd799439011")
    ('', 'an ObjectId: it holds a time')
    >>> reason("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    'a UUIDv1: it holds a time'
    """
    bits = string.replace("-", "")
    if _HEX.fullmatch(bits) is None and re.fullmatch(r"[0-9a-fA-F]+", bits):
        return "in mixed case: a generator writes one case, or a checksum hides in the other"
    if len(bits) == 32 and _HEX.fullmatch(bits) and not bits.isdecimal():
        return _of_uuid(bits, dashed="-" in string)
    if string.isdecimal():
        return _of_digits(string)
    if _HEX.fullmatch(string):
        return "an ObjectId: it holds a time" if len(string) == 24 and _is_time(int(string[:8], 16)) else ""
    return _of_letters(string)


def reason_of_context(text: str, start: int, end: int, string: str) -> str:
    """Say why what stands around a string shows that chance did not draw it; empty where it does not.

    Parameters
    ----------
    text : in which other random strings may be masked
    start, end : place of the string
    string : the string

    Examples
    --------
    >>> text = "commit 9fceb02d0ae598e95dc970b74767f19372d61af8"
    >>> reason_of_context(text, 7, len(text), text[7:])
    'beside the word commit: a hash of content'
    """
    before, after = text[max(0, start - 200) : start], text[end : end + _AROUND // 2]
    token = re.split(r"\s", before)[-1]
    if re.search(r"eyJ[\w-]*\.", token):
        return "a part of a signed token (JWT)"
    if string.isdecimal() and re.search(r"(\d[-.,:/ ]|\+)$", before):
        return "a part of a longer number"
    if string.isdecimal() and re.match(r"[-.,:/ ]\d", after):
        return "a part of a longer number"
    if _HEX.fullmatch(string) and len(string) in (32, 40, 56, 64, 96, 128):
        word = _HASHED.search(before[-_AROUND:]) or _HASHED.search(after)
        if word is not None:
            return f"beside the word {word.group().lower()}: a hash of content"
    return ""


def digests_of(texts: Iterable[str]) -> Iterator[str]:
    """Yield usual hashes of texts, and of their lines and words, in lower-case hexadecimal.

    Examples
    --------
    >>> "900150983cd24fb0d6963f7d28e17f72" in set(digests_of(["x abc"]))
    True
    """
    for text in texts:
        for part in {text, text.strip(), *text.splitlines(), *text.split()}:
            data = part.encode("utf-8", "surrogatepass")
            for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
                yield hashlib.new(name, data, usedforsecurity=False).hexdigest()
            blob = b"blob %d\0" % len(data) + data
            yield hashlib.new("sha1", blob, usedforsecurity=False).hexdigest()


def _of_uuid(bits: str, *, dashed: bool) -> str:
    version, variant = bits[12], bits[16] in "89abAB"
    if set(bits) == {"0"}:
        return "the nil UUID"
    if variant and version == "4":
        return ""
    if variant and version in _UUID_NAMES:
        return _UUID_NAMES[version]
    return "a UUID of another version than 4" if dashed else ""


def _of_digits(digits: str) -> str:
    checks = (
        (_is_date(digits), "a date"),
        (_is_stamp(digits), "a time in seconds or parts of them"),
        (_is_snowflake(digits), "a number that holds a time (snowflake)"),
        (len(digits) in (8, 10, 12, 13, 14) and _has_book_check(digits), "a number with a check digit (ISBN, EAN)"),
        (_luhn(digits), "a number with a check digit (Luhn)"),
        (len(set(digits)) <= 2, "a number of one or two different digits"),
    )
    return next((words for is_so, words in checks if is_so), "")


def _of_letters(string: str) -> str:
    words = [word for word in _WORD.findall(string) if len(_VOWEL.findall(word)) >= 2]
    checks = (
        (2 * sum(map(len, words)) >= len(string), "made of words"),
        (string.startswith(("MII", "AAAAB3", "AAAAC3", "AAAAE2")), "a key or a certificate: it has a structure"),
        (_is_text(string), "an encoded text (base64)"),
        (len(string) == 26 and set(string) <= set(CROCKFORD) and string[0] in "01", "a ULID: it holds a time"),
        (len(string) == 27 and string[0] in "012", "a KSUID: it holds a time"),
        (re.fullmatch(r"c[0-9a-z]{24}", string) is not None, "a CUID: it holds a time"),
        (re.fullmatch(r"[0-9a-v]{20}", string) is not None, "an XID: it holds a time"),
        (re.fullmatch(r"A[KS]IA[A-Z2-7]{16}", string) is not None, "a key with a fixed beginning"),
    )
    return next((words for is_so, words in checks if is_so), "")


def _is_text(string: str) -> bool:
    """Whether a string is base64 of a text that can be read."""
    try:
        data = base64.b64decode(string + "=" * (-len(string) % 4), validate=True)
    except binascii.Error:
        return False
    return bool(data) and sum(32 <= byte < 127 or byte in (9, 10, 13) for byte in data) >= 0.9 * len(data)


def _is_time(seconds: int) -> bool:
    return _FIRST <= seconds < _LAST


def _is_stamp(digits: str) -> bool:
    """Whether a number is a time in seconds, milli-, micro- or nanoseconds from 1970."""
    more = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}.get(len(digits))
    return more is not None and _is_time(int(digits) // more)


def _is_snowflake(digits: str) -> bool:
    if not 17 <= len(digits) <= 19:
        return False
    stamp = int(digits) >> 22
    return any(_is_time((stamp + epoch) // 1000) for epoch in _EPOCHS)


def _is_date(digits: str) -> bool:
    """Whether digits are a date: of 6 or 8, or of 12 or 14 with a time of day."""
    if len(digits) in (12, 14):
        clock = digits[8:]
        day, hour, rest = digits[:8], clock[:2], clock[2:]
        return int(hour) < 24 and all(int(rest[i : i + 2]) < 60 for i in range(0, len(rest), 2)) and _is_date(day)
    if len(digits) == 8:
        year = ((digits[:4], digits[4:6], digits[6:]),)
        last = ((digits[4:], digits[2:4], digits[:2]), (digits[4:], digits[:2], digits[2:4]))
        return any(_is_day(*map(int, parts)) for parts in (*year, *last))
    if len(digits) == 6:
        a, b, c = (int(digits[i : i + 2]) for i in (0, 2, 4))
        return any(_is_day(2000 + y, m, d) for y, m, d in ((a, b, c), (c, b, a), (c, a, b)))
    return False


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        return date(year, month, day).year in _YEARS
    except ValueError:
        return False


def _luhn(digits: str) -> bool:
    doubled = sum(sum(divmod(2 * int(one), 10)) for one in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def _has_book_check(digits: str) -> bool:
    """Whether the last digit is the check digit of EAN-8, ISBN-10, UPC, EAN-13 (ISBN-13) or GTIN-14."""
    numbers = [int(one) for one in digits]
    if len(numbers) == 10:
        return sum((10 - i) * one for i, one in enumerate(numbers)) % 11 == 0
    weighted = sum(one * (3 if i % 2 else 1) for i, one in enumerate(reversed(numbers)))
    return weighted % 10 == 0
