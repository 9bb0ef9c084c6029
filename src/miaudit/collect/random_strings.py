"""Random strings in texts: which there are, the law of each, and more strings of the same law.

A law is uniform over all strings that :func:`law_of` describes alike. Any generator that draws characters uniformly,
from whichever of the usual alphabets, has that law given the description: case, length and the smallest alphabet, and
passing the filter by which strings are taken (:mod:`miaudit.collect.string_forms`).
"""

from __future__ import annotations

import re
import string as characters
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.collect import string_forms
from miaudit.errors import InputError, nearest
from miaudit.errors.checks import check_generator

__all__ = ["KINDS", "Kind", "Match", "decoys_of", "kinds_of", "law_of", "longer_runs", "matches", "runs"]

KINDS = {"uuid4": 32, "hex": 16, "base64": 20, "digits": 8}  # fewest characters, without dashes, by default
_FEWEST = {"uuid4": 32, "hex": 12, "base64": 12, "digits": 6}
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_RUN = re.compile(rf"(?<![0-9A-Za-z]){_UUID}(?![0-9A-Za-z])|[0-9A-Za-z]+")
_LONGER = re.compile(r"[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*")
_LOWER, _UPPER, _DIGITS = characters.ascii_lowercase, characters.ascii_uppercase, characters.digits
_HEX = {"lower": _DIGITS + "abcdef", "upper": _DIGITS + "ABCDEF"}
_ALPHABETS = {  # the smallest first
    "base32": _UPPER + "234567",
    "Crockford's base32": string_forms.CROCKFORD,
    "base36 in upper case": _DIGITS + _UPPER,
    "base36 in lower case": _DIGITS + _LOWER,
    "base58": "".join(one for one in _DIGITS + _UPPER + _LOWER if one not in "0OIl"),
    "base62": _DIGITS + _UPPER + _LOWER,
}
_ENDS = ("AQgw", "EIMUYcko048s")  # last characters of base64 where two or four bits are empty
_TRIES = 100_000


@dataclass(frozen=True)
class Kind:
    """A kind of random strings, and the fewest characters that are taken for one.

    Attributes
    ----------
    name : one of :data:`KINDS`
    least : fewest characters
    """

    name: str
    least: int


@dataclass(frozen=True)
class Match:
    """A string of a kind in a text.

    Attributes
    ----------
    start, end : its place
    string : the string itself
    kind : name of the kind
    reason : why it is refused; empty where it is taken
    """

    start: int
    end: int
    string: str
    kind: str
    reason: str = ""


def kinds_of(names: Sequence[str]) -> tuple[Kind, ...]:
    """Return the kinds that words name, such as "uuid4" or "digits:8", each once.

    Raises
    ------
    InputError
        For no word, an unknown one, one twice, and lengths at which a string would be guessed.

    Examples
    --------
    >>> kinds_of(["hex", "digits:10"])
    (Kind(name='hex', least=16), Kind(name='digits', least=10))
    """
    kinds = list[Kind]()
    allowed = f"kinds of strings: {', '.join(KINDS)}, or one with its fewest characters, such as digits:8"
    for word in names:
        name, colon, count = word.strip().partition(":")
        if name not in KINDS:
            raise InputError("find", allowed, repr(word)[:40], nearest(name, KINDS) or "choose from these")
        least = KINDS[name]
        if colon:
            if name == "uuid4" or not count.isdecimal() or not _FEWEST[name] <= int(count) <= 1000:
                few = "uuid4, without a length" if name == "uuid4" else f"{name}:{_FEWEST[name]} to {name}:1000"
                raise InputError("find", few, repr(word)[:40], f"{name} alone takes the usual length")
            least = int(count)
        if name in [kind.name for kind in kinds]:
            raise InputError("find", "each kind once", f"{name} twice", "name it once, with the fewest characters")
        kinds.append(Kind(name, least))
    if not kinds:
        raise InputError("find", allowed, "none", "uuid4,hex,base64,digits:8 takes all")
    return tuple(kinds)


def runs(text: str) -> Iterator[re.Match[str]]:
    """Yield UUIDs with dashes, and runs of letters and digits, in their order."""
    return _RUN.finditer(text)


def longer_runs(text: str) -> Iterator[re.Match[str]]:
    """Yield runs of letters and digits, also with dashes between them, that may hold a string as a part."""
    return _LONGER.finditer(text)


def matches(text: str, kinds: Sequence[Kind]) -> Iterator[Match]:
    """Yield all strings of some kinds in a text, those that are refused too, with the reason.

    Examples
    --------
    >>> text = "Ticket 9b2e9f4e-3c1d-4f6a-8e2b-7d1c5a4b9e3f of 20240131, order 83920571."
    >>> [(one.kind, one.string[:8], one.reason) for one in matches(text, kinds_of(["uuid4", "digits"]))]
    [('uuid4', '9b2e9f4e', ''), ('digits', '20240131', 'a date'), ('digits', '83920571', '')]
    """
    least = {kind.name: kind.least for kind in kinds}
    around = _masked(text)
    for start, end, string in _strings(text):
        kind = _kind(string)
        if kind not in least:
            continue
        short = len(string) < least[kind]
        if short and (len(string) < _FEWEST[kind] or kind == "digits" or not law_of(string)):
            continue
        reason = f"shorter than {least[kind]} characters" if short else _reason(string)
        yield Match(start, end, string, kind, reason or string_forms.reason_of_context(around, start, end, string))


def _strings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield runs with their places, without the sign 0x of hexadecimal numbers."""
    for run in runs(text):
        start, end = run.span()
        string = run.group()
        if string[:2] in ("0x", "0X") and re.fullmatch(r"[0-9a-fA-F]+", string[2:]):
            start, string = start + 2, string[2:]
        yield start, end, string


def _masked(text: str) -> str:
    """Return a text with x for each character of a random string of any kind.

    So what stands around a string does not depend on other random strings: else one that is taken would have another
    law than its decoys.
    """
    parts, last = list[str](), 0
    for start, end, string in _strings(text):
        if len(string) >= _FEWEST.get(_kind(string), 1) and law_of(string):
            parts += [text[last:start], "x" * (end - start)]
            last = end
    return "".join([*parts, text[last:]])


def law_of(string: str) -> str:
    """Describe the law of a string: all strings with the same description are equally likely. Empty of a refused one.

    Examples
    --------
    >>> law_of("9b2e9f4e-3c1d-4f6a-8e2b-7d1c5a4b9e3f"), law_of("83920571")
    ('uuid4 with dashes, lower case', '8 digits, the first from 1')
    >>> law_of("1f0c9d3e5b7a8642"), law_of("20240131")
    ('16 characters of hex, lower case', '')
    """
    return "" if _reason(string) else _description(string)


def decoys_of(string: str, count: int, *, avoid: set[str] | frozenset[str], rng: np.random.Generator) -> list[str]:
    """Draw strings from the law of a string: different ones, none of them the string itself.

    Parameters
    ----------
    string : a string with a law
    count : how many
    avoid : strings that no decoy may be, as :func:`normal` writes them
    rng : draws them

    Raises
    ------
    InputError
        For a string without a law, and a law with too few strings.

    Examples
    --------
    >>> decoys_of("83920571", 2, avoid=frozenset(), rng=np.random.default_rng(0))
    ['86523000', '18695697']
    """
    rng, law = check_generator(rng), law_of(string)
    if not law:
        raise InputError("string", "a random string", _reason(string) or "another", "leave it out")
    alphabet = _alphabet(string)
    decoys, taken = list[str](), {normal(string)}
    for _ in range(_TRIES + count):
        decoy = _shaped(string, "".join(alphabet[i] for i in rng.integers(len(alphabet), size=len(string))))
        same = normal(decoy)
        if same not in taken and same not in avoid and law_of(decoy) == law:
            taken.add(same)
            decoys.append(decoy)
            if len(decoys) == count:
                return decoys
    raise InputError("count", f"fewer decoys of {law}", f"{count:,}", "leave such short strings out, or ask for fewer")


def normal(string: str) -> str:
    """Return a string without dashes, hex in lower case: two spellings of one identifier are equal then."""
    bits = string.replace("-", "")
    return bits.lower() if re.fullmatch(r"[0-9a-fA-F]+", bits) else string


def _kind(string: str) -> str:
    bits = string.replace("-", "")
    if "-" in string:
        return "uuid4"
    if bits.isdecimal():
        return "digits" if bits.isascii() else ""
    if re.fullmatch(r"[0-9a-fA-F]+", bits):
        return "uuid4" if _is_uuid4(bits) else "hex"
    return "base64"


def _is_uuid4(bits: str) -> bool:
    return len(bits) == 32 and bits[12] == "4" and bits[16] in "89abAB"


def _reason(string: str) -> str:
    if _kind(string) == "base64" and not _alphabet(string):
        return "without letters of both kinds and digits: a word or a name"
    return string_forms.reason(string)


def _description(string: str) -> str:
    kind = _kind(string)
    if kind == "digits":
        return f"{len(string)} digits, the first {'0' if string[0] == '0' else 'from 1'}"
    if kind in ("uuid4", "hex"):
        case = "lower case" if string == string.lower() else "upper case"
        dashes = "with" if "-" in string else "without"
        return f"uuid4 {dashes} dashes, {case}" if kind == "uuid4" else f"{len(string)} characters of hex, {case}"
    name = next(name for name, alphabet in _ALPHABETS.items() if set(string) <= set(alphabet))
    end = next((end for end in _ENDS if string[-1] in end), "")
    return f"{len(string)} characters of {name}{f', the last of {end}' if end else ''}"


def _alphabet(string: str) -> str:
    """The characters that a string may have; empty where it is not of letters and digits as its alphabet needs."""
    kind = _kind(string)
    if kind == "digits":
        return _DIGITS
    if kind in ("uuid4", "hex"):
        return _HEX["lower" if string == string.lower() else "upper"]
    lower, upper, digit = (any(one in string for one in some) for some in (_LOWER, _UPPER, _DIGITS))
    if not digit or not (lower or upper):
        return ""
    return next(alphabet for alphabet in _ALPHABETS.values() if set(string) <= set(alphabet))


def _shaped(string: str, draw: str) -> str:
    """Return a draw with the dashes of a string; of a uuid4 also with its fixed bits."""
    if _kind(string) != "uuid4":
        return draw
    dashed, bits = "-" in string, draw.replace("-", "")
    bits = bits[:32]
    variants = "89ab" if string == string.lower() else "89AB"
    bits = f"{bits[:12]}4{bits[13:16]}{variants[int(bits[16], 16) % 4]}{bits[17:]}"
    return f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}" if dashed else bits
