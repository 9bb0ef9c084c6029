"""The digest of evidence: equal content has an equal digest in every file format."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["content_digest", "streamed_digest"]

_BLOCK = 100_000


def content_digest(held: Mapping[str, NDArray[Any] | None], end: str) -> str:
    """Hash names, shapes and little-endian bytes of arrays, in their order; labels as text, so that formats agree.

    Parameters
    ----------
    held : arrays by name; None is left out
    end : text that is hashed after them

    Examples
    --------
    >>> content_digest({"a": np.array([0.0])}, "") == content_digest({"a": np.array([-0.0]), "b": None}, "")
    True
    """
    present = {name: (values.shape, _blocks(values)) for name, values in held.items() if values is not None}
    return streamed_digest(present, end)


def _blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))


def streamed_digest(held: Mapping[str, tuple[tuple[int, ...], Iterable[NDArray[Any]]]], end: str) -> str:
    """As :func:`content_digest`, of arrays that come in blocks of any length, each with the shape of the whole.

    Examples
    --------
    >>> whole = content_digest({"a": np.arange(3.0)}, "")
    >>> whole == streamed_digest({"a": ((3,), [np.arange(2.0), np.array([2.0])])}, "")
    True
    """
    state = hashlib.sha256(b"miaudit evidence 1")
    for name, (shape, blocks) in held.items():
        state.update(f"|{name}|{shape}|".encode())
        for block in blocks:
            if block.dtype.kind in "biuUO" and block.dtype != np.bool_:
                texts = map(str, block.tolist())
                state.update("".join([f"{len(text)}:{text}" for text in texts]).encode())
            else:
                # Adding zero turns -0.0 into 0.0, which text formats do not keep apart.
                plain = block.astype("?") if block.dtype == np.bool_ else (block + 0.0).astype("<f8")
                state.update(np.ascontiguousarray(plain).tobytes())
    state.update(end.encode())
    return state.hexdigest()
