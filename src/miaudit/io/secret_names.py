"""Names of columns that look like secrets, or are some: they are counted, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["left_out", "looks_secret", "words"]

_WORDS = re.compile(
    "passwords?|passwd|pwd|passphrase|passcode|passport|secrets?|credentials?|ssn|iban|cvv|cvc|apikey|creditcard|bearer"
)
_PHRASES = re.compile(
    r"(^|_)((api|access|private|secret|ssh|encryption|auth|signing)_key|(credit|debit|bank)_card|card_(number|no|num)|"
    r"social_security|bank_account|account_(number|no)|(.*_)?token$|pin(_code)?$)"
)
_VALUES = re.compile(
    r".*[^\s@]+@[^\s@]+\.\w+.*"  # an address of electronic mail
    r"|(sk|pk|rk|ghp|gho|ghs|glpat|xox[abps]|AKIA|ASIA|eyJ|hf)[-_A-Za-z0-9.]{12,}"  # keys, as services hand them out
    r"|[0-9a-fA-F]{20,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){3,}.*"  # IBAN
    r"|\d{3}-\d{2}-\d{4}|[+(]?\d[\d ()-]{8,}"  # numbers of a person, a card, a telephone
)
_MIXED = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d.*\d)[A-Za-z0-9+/=]{20,}")


@lru_cache(1 << 17)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name, in small letters: of first_name, firstName or FIRST-NAME first and name.

    Examples
    --------
    >>> words("isMember"), words("target_loss.0")
    (('is', 'member'), ('target', 'loss', '0'))
    """
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return tuple(word for word in re.split(r"[^a-z0-9]+", apart) if word)


def looks_secret(name: str) -> bool:
    """Whether a name is that of a secret, such as password, or looks like one itself, such as a key or an address.

    Examples
    --------
    >>> [name for name in ("age", "api_key", "authToken", "token_loss", "anna@example.org") if looks_secret(name)]
    ['api_key', 'authToken', 'anna@example.org']
    """
    parts = words(name)
    whole = name.strip()
    named = any(_WORDS.fullmatch(part) for part in parts) or _PHRASES.search("_".join(parts)) is not None
    return named or _VALUES.fullmatch(whole) is not None or _MIXED.fullmatch(whole) is not None


def left_out(names: Iterable[str]) -> str:
    """Say how many of the names look like secrets; nothing where none does.

    Examples
    --------
    >>> left_out(["age", "ssn", "password"])
    '2 columns with names that look like secrets were left out'
    """
    count = sum(map(looks_secret, names))
    were = "a column with a name that looks like a secret was" if count == 1 else f"{count:,} columns with names that"
    return "" if not count else f"{were}{'' if count == 1 else ' look like secrets were'} left out"
