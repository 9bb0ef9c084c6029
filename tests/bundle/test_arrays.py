"""Arrays of a bundle from a stranger."""

import numpy as np
import pytest

from bundle.test_attacks import stored, with_arrays
from bundle.test_bundle import N, rewritten
from miaudit.bundle.verify import verify
from miaudit.errors import InputError

pytestmark = pytest.mark.long

STRANGE_ARRAYS = {
    "no records": ("records.npz", lambda h: {k: v[:0] for k, v in h.items()}),
    "membership of 2": ("records.npz", lambda h: h.update(member=np.full(N, 2))),
    "membership of -1": ("records.npz", lambda h: h.update(member=np.where(h["member"], 1, -1))),
    "membership as text": ("records.npz", lambda h: h.update(member=np.full(N, "1"))),
    "membership of half": ("records.npz", lambda h: h.update(member=np.full(N, 0.5))),
    "membership twice": ("records.npz", lambda h: h.update(member=np.zeros((N, 2), dtype=bool))),
    "one class": ("records.npz", lambda h: h.update(member=np.ones(N, dtype=bool))),
    "a score that is none": ("records.npz", lambda h: h["score.loss"].__setitem__(0, np.nan)),
    "an infinite score": ("records.npz", lambda h: h["score.loss"].__setitem__(0, np.inf)),
    "scores as text": ("records.npz", lambda h: h.update({"score.loss": np.full(N, "1.0")})),
    "no score": ("records.npz", lambda h: {k: v for k, v in h.items() if not k.startswith("score")}),
    "complex scores": ("records.npz", lambda h: h.update({"score.loss": np.full(N, 1j)})),
    "only hashes": ("records.npz", lambda h: {"hash": np.zeros((N, 32), dtype=np.uint8)}),
    "no propensity": ("propensity.npz", lambda h: {"values": np.empty(0)}),
    "a propensity of 1": ("propensity.npz", lambda h: h.update(values=np.ones(N))),
    "propensities that are none": ("propensity.npz", lambda h: h.update(values=np.full(N, np.nan))),
    "a table of propensities": ("propensity.npz", lambda h: h.update(values=np.full((N, 1), 0.5))),
    "propensities as text": ("propensity.npz", lambda h: h.update(values=np.full(N, "0.5"))),
    "no rows": ("propensity.npz", lambda h: {"values": np.empty(0), "rows": np.empty(0, dtype=int)}),
    "a row twice": ("propensity.npz", lambda h: {"values": np.full(2, 0.5), "rows": np.zeros(2, dtype=int)}),
    "rows that are not there": ("propensity.npz", lambda h: {"values": np.full(1, 0.5), "rows": np.array([N])}),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("case", STRANGE_ARRAYS.values(), ids=STRANGE_ARRAYS)
def test_strange_arrays_are_refused_or_found(tmp_path, case):
    name, change = case
    path = rewritten(stored(tmp_path, "zero-run"), lambda entries: with_arrays(entries, name, change))
    try:
        assert verify(path).status == "failed"
    except InputError as error:
        assert "\n" not in str(error)
