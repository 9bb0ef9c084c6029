"""Canaries that somebody gives beside the data: put behind it, or refused by what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit.collect.canary_table import beside, described, joined, keys_of
from miaudit.collect.records import Records
from miaudit.errors import InputError

X = np.arange(20.0).reshape(10, 2)
DATA = Records(X, np.arange(10) % 2, None, {"group": np.arange(10), "unit": np.arange(10) // 2}, "data.npz")


def given(x: Any, y: Any, **more: Any) -> Records:
    return Records(np.asarray(x), None if y is None else np.asarray(y), None, {}, "canaries.npz", **more)


def test_a_record_leaves_for_a_canary_that_has_another_label_only() -> None:
    found = beside(DATA, given([[0.0, 1.0], [50.0, 50.0]], [1, 1]), "by hand")
    assert found.n == 11
    np.testing.assert_array_equal(found.x[:9], X[1:])
    np.testing.assert_array_equal(np.asarray(found.y), [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1])
    assert np.flatnonzero(found.canary).tolist() == [9, 10]
    assert (found.made, found.source, dict(found.fields)) == ("by hand", "data.npz with 2 canaries", {})


def test_classes_that_are_texts_keep_their_numbers() -> None:
    data = Records(X, np.array(["cat", "dog"] * 5), None, {}, "data")
    found = beside(data, given([[9.0, 0.0], [9.0, 1.0]], ["dog", "dog"]))
    assert found.classes == ("cat", "dog")
    assert np.asarray(found.y)[-2:].tolist() == [1, 1]


def test_ids_are_of_the_kind_of_the_data() -> None:
    ends = given([[9.0, 0.0], [9.0, 1.0]], [0, 1])
    texts = beside(Records(X, DATA.y, None, {}, "", np.array(list("abcdefghij"))), ends)
    numbers = beside(Records(X, DATA.y, None, {}, "", np.arange(5, 15)), ends)
    assert np.asarray(texts.ids)[-2:].tolist() == ["canary-0", "canary-1"]
    assert np.asarray(numbers.ids)[-2:].tolist() == [15, 16]
    own = given([[9.0, 0.0], [9.0, 1.0]], [0, 1], ids=np.array([7, 99]))
    with pytest.raises(InputError, match="other ids for canaries"):
        beside(Records(X, DATA.y, None, {}, "", np.arange(5, 15)), own)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ([[0.0, 1.0], [50.0, 50.0]], [0, 1], "received canary 0, which is record 0"),
        ([[50.0, 50.0], [50.0, 50.0]], [0, 1], "received row 1 as row 0"),
        ([[50.0], [51.0]], [0, 1], "expected records of shape (2,), as the data, received shape (1,)"),
        ([[50.0, 50.0], [51.0, 50.0]], [0, 7], "received 7, which no record of the data has"),
        ([[50.0, 50.0], [51.0, 50.0]], ["a", "b"], "expected labels as those of the data, received int64"),
        ([[50.0, 50.0], [51.0, 50.0]], None, "expected labels as those of the data, received none"),
        ([[50.0, 50.0]], [1], "expected two canaries or more, received 1"),
    ],
)
def test_canaries_that_cannot_be_used_are_refused(x: Any, y: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        beside(DATA, given(x, y))
    assert said.replace("received int64", "") in str(error.value)


def test_values_that_the_type_of_the_data_does_not_hold_are_refused() -> None:
    data = Records(X.astype(np.uint8), DATA.y, None, {}, "")
    whole = beside(data, given([[50, 50], [51, 50]], [0, 1]))
    assert whole.x.dtype == np.uint8
    with pytest.raises(InputError, match="expected values that uint8 holds"):
        beside(data, given([[50.5, 50], [51, 50]], [0, 1]))
    with pytest.raises(InputError, match="expected rows of numbers, as the data, received texts"):
        beside(data, Records(["a", "b"], np.array([0, 1]), None, {}, ""))


def test_all_records_leaving_is_refused() -> None:
    with pytest.raises(InputError, match="none that stay"):
        beside(DATA, given(X, 1 - np.asarray(DATA.y)))


def test_memberships_are_drawn_for_canaries() -> None:
    known = Records(X, DATA.y, np.arange(10) % 2, {}, "")
    with pytest.raises(InputError, match=r"data\.member: expected none"):
        beside(known, given([[50.0, 50.0], [51.0, 50.0]], [0, 1]))


def test_keys_and_joins() -> None:
    assert keys_of(np.array([[0.0], [-0.0]]))[0] == keys_of(np.array([[0.0], [-0.0]]))[1]
    assert joined(["a"], ["b"]) == ["a", "b"]
    assert described(Records(["a"], None, None, {}, "")) == "texts without labels"
