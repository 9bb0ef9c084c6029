"""A one-time signature from hashes alone (Lamport 1979).

The public key is one SHA-256; a signature holds, for each bit of the message's digest, the secret of that bit and the
hash of the other bit's. Forging one means to find a preimage of SHA-256. **One key signs one message**: a second
signature under the same key gives away further secrets.
"""

from __future__ import annotations

import hashlib
import hmac

SEED_BYTES = PUBLIC_BYTES = 32
_BITS, _PART = 256, 32
BYTES = _BITS * 2 * _PART


def public_of(seed: bytes) -> bytes:
    """Return the public key (32 bytes) of a secret seed (32 random bytes).

    Examples
    --------
    >>> seed = bytes(32)
    >>> signed = sign(seed, b"in time: a, b")
    >>> holds(public_of(seed), b"in time: a, b", signed), holds(public_of(seed), b"in time: a, b, c", signed)
    (True, False)
    """
    return _sha256(b"".join(_sha256(_secret(seed, i, bit)) for i in range(_BITS) for bit in (0, 1)))


def sign(seed: bytes, message: bytes) -> bytes:
    """Return the signature (16,384 bytes) of a message under a seed."""
    parts = []
    for i, bit in enumerate(_bits(message)):
        told, kept = _secret(seed, i, bit), _sha256(_secret(seed, i, 1 - bit))
        parts += [told, kept]
    return b"".join(parts)


def holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature matches message and public key; any bytes are allowed."""
    if len(signature) != BYTES:
        return False
    hashes = []
    for i, bit in enumerate(_bits(message)):
        told, kept = (signature[(2 * i + j) * _PART : (2 * i + j + 1) * _PART] for j in (0, 1))
        pair = (_sha256(told), kept)
        hashes += [pair[bit], pair[1 - bit]]
    return hmac.compare_digest(_sha256(b"".join(hashes)), public)


def _bits(message: bytes) -> list[int]:
    digest = _sha256(message)
    return [digest[i // 8] >> i % 8 & 1 for i in range(_BITS)]


def _secret(seed: bytes, i: int, bit: int) -> bytes:
    return hmac.digest(seed, b"miaudit signature\x00" + bytes([i, bit]), "sha256")


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
