"""Rows of the design "matched": what is stored, summed and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import matched_rows


def evidence(rng: np.random.Generator, n: int = 6, k: int = 3) -> Evidence:
    return Evidence.matched(true=rng.normal(size=n), decoys=rng.normal(size=(n, k)))


def candidates(one: Evidence, name: str = "score") -> np.ndarray:
    assert one.unit_codes is not None
    return one.scores[name][matched_rows.places(one.unit_codes, one.member)]


def test_each_true_string_keeps_its_decoys_in_any_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    one = evidence(rng)
    shuffled = one.take(rng.permutation(one.n))
    np.testing.assert_array_equal(candidates(shuffled)[:, 0], candidates(one)[:, 0])
    np.testing.assert_array_equal(np.sort(candidates(shuffled)), np.sort(candidates(one)))


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_files_hold_the_same_evidence(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(1)
    true, decoys = rng.normal(size=5), rng.normal(size=(5, 2))
    text = [[f"{i}-{j}" for j in range(3)] for i in range(5)]
    group = ["a", "a", "b", "b", "b"]
    one = Evidence.matched(true=true, decoys=decoys, text=text, group=group, reference=(true - 1, decoys))
    one.save(tmp_path / f"evidence.{ending}")
    again = Evidence.load(tmp_path / f"evidence.{ending}")
    assert (again.digest, again.design, set(again.scores)) == (one.digest, "matched", {"score", "reference"})


def test_scores_of_a_unit_are_added_up_as_a_slow_loop_does() -> None:
    rng = np.random.default_rng(2)
    true, decoys, unit = rng.normal(size=7), rng.normal(size=(7, 4)), np.array(list("abacbbb"))
    expected = []
    for name in "abc":
        rows = [i for i in range(7) if unit[i] == name]
        expected.append([sum(true[i] for i in rows)] + [sum(decoys[i, k] for i in rows) for k in range(4)])
    one = Evidence.matched(true=true, decoys=decoys, unit=unit)
    np.testing.assert_allclose(candidates(one), expected)


def test_losses_are_turned_and_several_scores_keep_their_names() -> None:
    true, decoys = {"loss": [1.0, 2.0], "zlib": [3.0, 4.0]}, {"zlib": [[1.0], [1.0]], "loss": [[2.0], [2.0]]}
    one = Evidence.matched(true=true, decoys=decoys, signal="loss")
    assert candidates(one, "zlib").tolist() == [[-3.0, -1.0], [-4.0, -1.0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoys": [[0.0]]}, "decoys: expected 2 rows"),
        ({"decoys": np.zeros((2, 0))}, "at least one record and one decoy"),
        ({"decoys": {"other": [[0.0], [1.0]]}, "true": {"loss": [0.0, 1.0]}}, "the scores of true: loss"),
        ({"true": {"reference": [0.0, 1.0]}, "decoys": {"reference": [[0.0], [1.0]]}}, "names other than reference"),
        ({"reference": ([0.0, 1.0], [[0.0, 1.0], [1.0, 1.0]])}, "2 records with 1 decoys"),
        ({"reference": [0.0, 1.0, 2.0]}, "a pair"),
        ({"text": [["a", "b"], ["a", "c"]]}, "each true string in one unit"),
        ({"text": [["a", "b"], ["c", "a"]]}, "decoys that are in no training record"),
        ({"text": ["a", "b"]}, r"an array \(n, 2\) of texts"),
        ({"unit": ["a", "a"], "group": ["x", "y"]}, "one group for each unit"),
    ],
)
def test_what_is_no_such_evidence_is_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"true": [0.0, 1.0], "decoys": [[0.0], [1.0]], **changes}
    with pytest.raises(InputError, match=message):
        Evidence.matched(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": None}, "needs units"),
        ({"unit": [0, 0, 0, 1]}, "1 true and 2 others in unit 0|0 true|others in unit"),
        ({"covariates": np.zeros((4, 1))}, "none with the design matched"),
        ({"run": [1, 1, 2, 2]}, "none with the design matched"),
    ],
)
def test_rows_of_another_form_are_refused(changes: dict[str, object], message: str) -> None:
    held: dict[str, object] = {"member": [1, 0, 1, 0], "unit": [0, 0, 1, 1], **changes}
    with pytest.raises(InputError, match=message):
        Evidence(score=np.arange(4.0), design="matched", **held)  # type: ignore[arg-type]


def test_a_part_of_a_unit_is_no_evidence() -> None:
    one = evidence(np.random.default_rng(3))
    with pytest.raises(InputError, match="one true string"):
        one.take(np.arange(one.n - 1))
