"""Fits on different records whose outputs are equal to the last digit: the models are one model, read from a cache.

Two trainings on different records hardly ever give the same outputs. Labels do: two good models may agree on every
record. So outputs that are labels only count where all fits agree, and nothing else does.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray
from miaudit.errors import InputError

__all__ = ["EqualOutputs", "require_different"]

_FEWEST_RECORDS = 10  # with outputs beyond labels, and by which two trainings differ
_MOST_NAMED = 6


class EqualOutputs:
    """Outputs of fits, looked at one after the other: only digests are kept.

    Examples
    --------
    >>> seen = EqualOutputs()
    >>> soft, learned = np.random.default_rng(0).random((40, 2)), np.arange(40) < 20
    >>> seen.add("model 0", soft, learned), seen.add("model 1", soft, ~learned)
    (None, None)
    >>> seen.sentence
    'equal outputs of model 0 and model 1, which learned different records'
    """

    def __init__(self) -> None:
        self._groups: dict[bytes, list[tuple[str, BoolArray]]] = defaultdict(list)
        self._soft: dict[bytes, bool] = {}
        self._count = 0

    def add(self, name: str, outputs: NDArray[Any], learned: BoolArray) -> None:
        """Look at what one fit says of all records (n, ...), and which of them it learned (m,)."""
        values = np.ascontiguousarray(outputs, dtype=np.float32)
        key = hashlib.blake2b(values.tobytes(), digest_size=16, person=f"{values.shape}".encode()[:16]).digest()
        if key in self._groups and key not in self._soft:
            self._soft[key] = _beyond_labels(values)
        self._groups[key].append((name, np.asarray(learned, dtype=np.bool_)))
        self._count += 1

    @property
    def sentence(self) -> str:
        """Which fits have equal outputs although they learned different records; empty where none do."""
        for key, group in self._groups.items():
            names = [name for name, _ in group]
            apart = max((int(np.count_nonzero(group[0][1] != own)) for _, own in group[1:]), default=0)
            soft = self._soft.get(key, False) and apart >= _FEWEST_RECORDS
            if soft or (apart > 0 and len(group) == self._count):
                listed = names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], f"{len(names)} in all"]
                return f"equal outputs of {', '.join(listed[:-1])} and {listed[-1]}, which learned different records"
        return ""

    def require_none(self, argument: str = "outputs") -> None:
        """Refuse equal outputs.

        Raises
        ------
        InputError
            It names the fits.
        """
        if self.sentence:
            hint = "check that each fit trains anew on its own rows and reads no cache or file of another fit"
            raise InputError(argument, "outputs of its own from each fit", self.sentence, hint)


def require_different(
    outputs: Iterable[NDArray[Any]], included: BoolArray, names: Sequence[str], argument: str = "outputs"
) -> None:
    """Refuse fits that learned different records and have equal outputs.

    Parameters
    ----------
    outputs : of each fit, on the same records
    included : array (M, n) of bool, which records each fit learned
    names : of the fits, for the message

    Raises
    ------
    InputError
        It names the fits.
    """
    seen = EqualOutputs()
    for values, learned, name in zip(outputs, included, names, strict=True):
        seen.add(name, values, learned)
    seen.require_none(argument)


def _beyond_labels(values: NDArray[np.float32]) -> bool:
    """Whether outputs say more than one label each: many records are none of the commonest rows, one for each class."""
    rows = values.reshape(len(values), -1)
    count = np.sort(np.unique(rows, axis=0, return_counts=True)[1])[::-1]
    return int(count[max(2, rows.shape[1]) :].sum()) >= _FEWEST_RECORDS
