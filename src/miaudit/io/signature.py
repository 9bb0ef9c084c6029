"""Signatures from SHA-256 alone: SLH-DSA-SHA2-128f of FIPS 205, deterministic, without a context string.

The key may sign any number of messages: a second signature gives nothing away, also one made from a copy of a key file.
(A one-time signature gives away parts of its key with each further message: from five anybody forges a sixth.) Ed25519
would need the package cryptography, also of each stranger who verifies a bundle; this needs no package.

What a key should sign once is recorded before it signs, as :class:`Use`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic

SEED_BYTES = PUBLIC_BYTES = 32
_N = 16  # bytes of a hash
_LAYERS, _HEIGHT = 22, 3  # of the trees of one-time keys
_CHAINS, _TOP = 35, 15  # of a one-time key: 32 digits from 0 to 15 of a message, and 3 of their checksum
_TREES, _BITS = 33, 6  # of the few-time key below them, one tree for each 6 bits of a digest
BYTES = _N * (1 + _TREES * (1 + _BITS) + _LAYERS * (_CHAINS + _HEIGHT))
_CHAIN, _ONE_TIME, _TREE, _FEW_TIME, _ROOTS, _CHAIN_SECRET, _FEW_TIME_SECRET = (bytes([k]) for k in range(7))


def public_of(seed: bytes) -> bytes:
    """Return the public key (32 bytes) of a secret seed (32 random bytes).

    Examples
    --------
    >>> seed = bytes(32)
    >>> signed = sign(seed, b"in time: a, b")
    >>> holds(public_of(seed), b"in time: a, b", signed), holds(public_of(seed), b"in time: a, b, c", signed)
    (True, False)
    """
    return _Key.of(seed).public


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature (17,088 bytes) of a message under a seed; the same for the same message."""
    return _Key.of(seed).sign(message)


def holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature matches message and public key; any bytes are allowed."""
    if len(signature) != BYTES or len(public) != PUBLIC_BYTES:
        return False
    parts = [signature[i : i + _N] for i in range(0, BYTES, _N)]
    hashes = _Hashes(public[:_N])
    digits, tree, leaf = _chosen(parts[0], public, message)
    below = 1 + _TREES * (1 + _BITS)
    node = hashes.of_few_time(tree, leaf, digits, parts[1:below])
    for layer in range(_LAYERS):
        part = parts[below + layer * (_CHAINS + _HEIGHT) :][: _CHAINS + _HEIGHT]
        node = hashes.of_one_time(layer, tree, leaf, node, part)
        tree, leaf = tree >> _HEIGHT, tree % 2**_HEIGHT
    return hmac.compare_digest(node, public[_N:])


@dataclass(eq=False)
class Use:
    """The one thing that a secret is used for: recorded in memory and in its file, on the disk, before it is used.

    The same use may be repeated, so that a process that was killed on the way can be run again. A copy of the file
    knows nothing of the use of another.

    Attributes
    ----------
    path : the file of the secret (JSON, with the key ``signed``); None where it is in memory only
    signed : what it was used for, as plain values; None before

    Examples
    --------
    >>> use = Use()
    >>> use.record({"scores": ["a"]}), use.record({"scores": ["a"]})
    (None, None)
    >>> use.record({"scores": ["b"]})
    Traceback (most recent call last):
    miaudit.errors.InputError: secret: expected what it signed first (scores: a), received scores: b; a secret signs ...
    """

    path: Path | None = None
    signed: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.signed, Mapping | None):
            raise InputError("signed", "what the secret signed", repr(self.signed)[:40], "use the file as it was")

    def check(self, wanted: Mapping[str, Any]) -> None:
        """Refuse any other use than the recorded one.

        Raises
        ------
        InputError
            If it was used for something else.
        """
        if self.signed is not None and self.signed != wanted:
            hint = "a secret signs once: hand out what it signed first, or begin again with a new secret"
            raise InputError("secret", f"what it signed first ({_named(self.signed)})", _named(wanted), hint)

    def record(self, wanted: Mapping[str, Any]) -> None:
        """Record a use, before it.

        Raises
        ------
        InputError
            If it was used for something else, or the file is no longer there.
        OutputError
            If the use cannot be recorded in the file.
        """
        self.check(wanted)
        if self.path is not None:
            path = Path(self.path).resolve()  # a link stays one
            try:
                with atomic.turn(path.parent):
                    content = json.loads(path.read_text(encoding="utf-8"))
                    self.signed = content.get("signed")
                    self.check(wanted)
                    if self.signed is None:
                        text = json.dumps({**content, "signed": wanted}, sort_keys=True, separators=(",", ":")) + "\n"
                        atomic.write_text(path, text, mode=0o600)
            except (OSError, ValueError, AttributeError) as error:
                message = one_line(f"{path}: its use cannot be recorded there, and nothing was signed ({error})")
                raise OutputError(message[:300]) from error
        self.signed = wanted


def _named(use: Mapping[str, Any]) -> str:
    """Name a use in a few words."""

    def short(value: Any) -> str:
        if isinstance(value, list | tuple):
            return (", ".join(map(short, value[:3])) + (f" and {len(value) - 3:,} more" if len(value) > 3 else "")) or (
                "none"
            )
        return "none" if value is None else f"{value[:12]}..." if len(str(value)) > 12 else str(value)

    return "; ".join(f"{name}: {short(value)}" for name, value in use.items())


@dataclass(frozen=True)
class _Key:
    """A secret key: ``secret`` and ``public_seed`` make the trees, ``blinding`` the random part of a digest."""

    secret: bytes
    blinding: bytes
    public_seed: bytes

    @classmethod
    def of(cls, seed: bytes) -> _Key:
        digest = hashlib.shake_256(b"miaudit signature\x00" + seed).digest(3 * _N)
        return cls(digest[:_N], digest[_N : 2 * _N], digest[2 * _N :])

    @cached_property
    def public(self) -> bytes:
        top = _levels(self._one_time_keys(_LAYERS - 1, 0), self._hashes.node, _address(_LAYERS - 1, 0, _TREE, 0))
        return self.public_seed + top[-1][0]

    def sign(self, message: bytes) -> bytes:
        blinded = hmac.digest(self.blinding, self.public_seed + _framed(message), "sha256")[:_N]
        digits, tree, leaf = _chosen(blinded, self.public, message)
        node, parts = self._few_time(tree, leaf, digits)
        parts = [blinded, *parts]
        for layer in range(_LAYERS):
            chains = [
                self._hashes.chain(layer, tree, leaf, i, self._chain_secret(layer, tree, leaf, i), 0, digit)
                for i, digit in enumerate(_digits(node))
            ]
            levels = _levels(self._one_time_keys(layer, tree), self._hashes.node, _address(layer, tree, _TREE, 0))
            parts += [*chains, *_path(levels, leaf)]
            node, tree, leaf = levels[-1][0], tree >> _HEIGHT, tree % 2**_HEIGHT
        return b"".join(parts)

    @cached_property
    def _hashes(self) -> _Hashes:
        return _Hashes(self.public_seed)

    def _chain_secret(self, layer: int, tree: int, leaf: int, chain: int) -> bytes:
        return self._hashes(_address(layer, tree, _CHAIN_SECRET, leaf, chain), self.secret)

    def _one_time_keys(self, layer: int, tree: int) -> list[bytes]:
        """Public one-time keys of a tree, its leaves."""
        return [
            self._hashes.joined(
                layer,
                tree,
                leaf,
                [
                    self._hashes.chain(layer, tree, leaf, i, self._chain_secret(layer, tree, leaf, i), 0, _TOP)
                    for i in range(_CHAINS)
                ],
            )
            for leaf in range(2**_HEIGHT)
        ]

    def _few_time(self, tree: int, leaf: int, digits: Sequence[int]) -> tuple[bytes, list[bytes]]:
        """Public few-time key, and the signature of the digits under it."""
        parts, roots = [], []
        at, secret_at = _address(0, tree, _FEW_TIME, leaf), _address(0, tree, _FEW_TIME_SECRET, leaf)
        for i, digit in enumerate(digits):
            first = i << _BITS
            secrets = [self._hashes(_at(secret_at, 0, first + j), self.secret) for j in range(2**_BITS)]
            leaves = [self._hashes(_at(at, 0, first + j), secret) for j, secret in enumerate(secrets)]
            levels = _levels(leaves, self._hashes.node, at, first)
            parts += [secrets[digit], *_path(levels, digit)]
            roots.append(levels[-1][0])
        return self._hashes(_address(0, tree, _ROOTS, leaf), b"".join(roots)), parts


class _Hashes:
    """Hashes of a public seed, each under an address of its own (FIPS 205, section 11.2.1)."""

    def __init__(self, public_seed: bytes) -> None:
        self._start = hashlib.sha256(public_seed + bytes(64 - _N))

    def __call__(self, address: bytes, content: bytes) -> bytes:
        state = self._start.copy()
        state.update(address + content)
        return state.digest()[:_N]

    def chain(self, layer: int, tree: int, leaf: int, chain: int, value: bytes, start: int, stop: int) -> bytes:
        head = _address(layer, tree, _CHAIN, leaf, chain)[:-4]
        for step in range(start, stop):
            value = self(head + step.to_bytes(4, "big"), value)
        return value

    def node(self, address: bytes, height: int, index: int, left: bytes, right: bytes) -> bytes:
        return self(_at(address, height, index), left + right)

    def joined(self, layer: int, tree: int, leaf: int, ends: Sequence[bytes]) -> bytes:
        return self(_address(layer, tree, _ONE_TIME, leaf), b"".join(ends))

    def of_one_time(self, layer: int, tree: int, leaf: int, message: bytes, part: Sequence[bytes]) -> bytes:
        """Root of the tree in which a one-time signature of the message lies."""
        ends = [self.chain(layer, tree, leaf, i, part[i], digit, _TOP) for i, digit in enumerate(_digits(message))]
        node = self.joined(layer, tree, leaf, ends)
        return self._climbed(node, leaf, part[_CHAINS:], _address(layer, tree, _TREE, 0))

    def of_few_time(self, tree: int, leaf: int, digits: Sequence[int], parts: Sequence[bytes]) -> bytes:
        """Public few-time key under which the digits are signed."""
        roots, at = [], _address(0, tree, _FEW_TIME, leaf)
        for i, digit in enumerate(digits):
            secret, *path = parts[i * (1 + _BITS) : (i + 1) * (1 + _BITS)]
            index = (i << _BITS) + digit
            roots.append(self._climbed(self(_at(at, 0, index), secret), index, path, at))
        return self(_address(0, tree, _ROOTS, leaf), b"".join(roots))

    def _climbed(self, node: bytes, index: int, path: Sequence[bytes], address: bytes) -> bytes:
        for height, sibling in enumerate(path, start=1):
            pair = (sibling, node) if index % 2 else (node, sibling)
            index //= 2
            node = self.node(address, height, index, *pair)
        return node


def _levels(leaves: list[bytes], node: Any, address: bytes, first: int = 0) -> list[list[bytes]]:
    """Levels of a tree, from its leaves, of which the first has this index, to its root."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below, height = levels[-1], len(levels)
        start = first >> height
        levels.append(
            [node(address, height, start + i, below[2 * i], below[2 * i + 1]) for i in range(len(below) // 2)]
        )
    return levels


def _path(levels: Sequence[Sequence[bytes]], leaf: int) -> list[bytes]:
    """Nodes beside the path from a leaf to the root."""
    return [level[(leaf >> height) ^ 1] for height, level in enumerate(levels[:-1])]


def _address(layer: int, tree: int, kind: bytes, leaf: int, chain: int = 0) -> bytes:
    head = bytes([layer]) + tree.to_bytes(8, "big") + kind
    return head + leaf.to_bytes(4, "big") + chain.to_bytes(4, "big") + bytes(4)


def _at(address: bytes, height: int, index: int) -> bytes:
    return address[:-8] + height.to_bytes(4, "big") + index.to_bytes(4, "big")


def _digits(message: bytes) -> list[int]:
    """Digits of 16 bytes and of their checksum: to raise one lowers another."""
    digits = [half for byte in message for half in (byte >> 4, byte & 15)]
    check = sum(_TOP - digit for digit in digits)
    return [*digits, check >> 8, check >> 4 & 15, check & 15]


def _framed(message: bytes) -> bytes:
    """Return the message with the length of its context string, none (FIPS 205, algorithm 22)."""
    return b"\x00\x00" + message


def _chosen(blinded: bytes, public: bytes, message: bytes) -> tuple[list[int], int, int]:
    """Digits that the few-time key signs, and which of these keys it is: its tree and leaf."""
    inner = hashlib.sha256(blinded + public + _framed(message)).digest()
    seed = blinded + public[:_N] + inner
    digest = b"".join(hashlib.sha256(seed + i.to_bytes(4, "big")).digest() for i in (0, 1))[:34]
    bits = int.from_bytes(digest[:25], "big")
    digits = [bits >> (200 - _BITS * (i + 1)) & (2**_BITS - 1) for i in range(_TREES)]
    tree = int.from_bytes(digest[25:33], "big") % 2 ** (_HEIGHT * (_LAYERS - 1))
    return digits, tree, digest[33] % 2**_HEIGHT
