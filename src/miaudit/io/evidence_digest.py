"""The digest of evidence: equal content has an equal digest in every file format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["content_digest"]

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
    state = hashlib.sha256(b"miaudit evidence 1")
    for name, values in held.items():
        if values is None:
            continue
        state.update(f"|{name}|{values.shape}|".encode())
        for start in range(0, len(values), _BLOCK):
            block = values[start : start + _BLOCK]
            if block.dtype.kind in "biuUO" and block.dtype != np.bool_:
                texts = map(str, block.tolist())
                state.update("".join([f"{len(text)}:{text}" for text in texts]).encode())
            else:
                # Adding zero turns -0.0 into 0.0, which text formats do not keep apart.
                plain = block.astype("?") if block.dtype == np.bool_ else (block + 0.0).astype("<f8")
                state.update(np.ascontiguousarray(plain).tobytes())
    state.update(end.encode())
    return state.hexdigest()
