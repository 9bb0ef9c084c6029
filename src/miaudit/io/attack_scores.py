"""Attack scores by name: finite, equally long, and higher for members, whatever the file held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError, nearest
from miaudit.io import numeric
from miaudit.io.labels import frozen, same_length

__all__ = ["Signal", "checked", "each_once"]

Signal = Literal["score", "loss"]
Floats = NDArray[np.float64]


def checked(named: Mapping[Any, ArrayLike], source: str, signal: str) -> tuple[dict[str, Floats], str]:
    """Return finite scores (n,) by name, and where they came from; losses are turned by their sign.

    Examples
    --------
    >>> checked({"score": [0.5, 2.0]}, "file.csv", "loss")
    ({'loss': array([-0.5, -2. ])}, 'file.csv (losses, turned by their sign)')
    """
    each_once("score", [_name(name) for name in named])
    scores = {_name(name): numeric.finite(values, str(name), 1) for name, values in named.items()}
    n = len(next(iter(scores.values())))
    for name, values in scores.items():
        same_length(name, values, n)
    return _turned(scores, source, signal)


def each_once(argument: str, names: Sequence[str]) -> None:
    """Refuse a name that is there twice: a file would keep one of the two."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(argument, "names of their own", f"{twice!r} twice", "rename one: only one would be kept")


def _turned(scores: dict[str, Floats], source: str, signal: str) -> tuple[dict[str, Floats], str]:
    """Scores of which higher means more member-like, and where they came from, which says if losses were turned."""
    if signal == "score":
        return scores, source
    if signal != "loss":
        other = signal in ("logits", "probabilities")
        hint = "miaudit.collect.from_outputs takes these" if other else nearest(str(signal), ("score", "loss"))
        raise InputError("signal", "score or loss", repr(signal), hint or "turn other scores by their sign")
    turned = {"loss" if list(scores) == ["score"] else name: frozen(-values) for name, values in scores.items()}
    return turned, f"{source} (losses, turned by their sign)".strip()


def _name(name: object) -> str:
    text = str(name)
    if not text or len(text) > 200 or not text.isprintable():
        raise InputError("score", "names of 1 to 200 printable characters", repr(text[:40]), "choose a plain name")
    return text
