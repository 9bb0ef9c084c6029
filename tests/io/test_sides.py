"""Arrays of members and of non-members, told apart by names alone: which one is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.io import sides

RNG = np.random.default_rng(0)
INSIDE, OUTSIDE = RNG.exponential(0.5, 60), RNG.exponential(1.0, 80)


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("member", "member"),
        ("member_losses", "member"),
        ("trainLoss", "member"),
        ("losses_in", "member"),
        ("nonmember", "nonmember"),
        ("non_member_losses", "nonmember"),
        ("non-members", "nonmember"),
        ("test", "nonmember"),
        ("loss_out", "nonmember"),
        ("held_out", "nonmember"),
        ("train_test", ""),
        ("losses", ""),
        ("a", ""),
    ],
)
def test_words_say_whose_an_array_is(name: str, side: str) -> None:
    assert sides.side_of(name) == side


@pytest.mark.parametrize(
    "arrays",
    [
        {"losses": INSIDE},
        {"arr_0": INSIDE},
        {"train_loss": INSIDE, "test_loss": OUTSIDE},
        {"losses": INSIDE, "labels": np.arange(60), "epoch": np.array([3])},
        {"train": INSIDE, "test": OUTSIDE},
    ],
)
def test_the_array_of_a_side_is_read_from_an_archive(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    np.testing.assert_array_equal(sides.array_of(tmp_path / "a.npz", "member", "loss", "members"), INSIDE)


def test_several_or_none_are_refused(tmp_path: Path) -> None:
    for arrays in ({"loss": INSIDE, "losses": INSIDE}, {"test_loss": OUTSIDE}, {"logits": INSIDE, "score": INSIDE}):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(InputError, match=r"one array \(\.npy\)"):
            sides.array_of(tmp_path / "a.npz", "member", "loss", "members")


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [("losses", INSIDE, "loss"), ("scores", INSIDE, "score"), ("a", INSIDE, ""), ("losses", -INSIDE, "")]
    + [("a", np.full((9, 4), 0.25), "probabilities"), ("logits", RNG.normal(size=(9, 4)), "logits")],
)
def test_the_signal_of_two_files_is_told(name: str, values: np.ndarray, kind: str, tmp_path: Path) -> None:
    for side in ("train", "test"):
        np.save(tmp_path / f"{side}_{name}.npy", values)
    found = sides.signal_of_pair(tmp_path / f"train_{name}.npy", tmp_path / f"test_{name}.npy")
    assert found is not None and found.kind == kind


def test_files_of_different_kinds_have_no_signal(tmp_path: Path) -> None:
    np.save(tmp_path / "losses.npy", INSIDE)
    np.save(tmp_path / "scores.npy", OUTSIDE)
    assert sides.signal_of_pair(tmp_path / "losses.npy", tmp_path / "scores.npy") is None


def test_membership_beside_scores_is_no_second_class(tmp_path: Path) -> None:
    np.save(tmp_path / "scores.npy", INSIDE)
    np.save(tmp_path / "member.npy", np.arange(60) % 2)
    np.save(tmp_path / "others.npy", OUTSIDE)
    for pair in (("scores.npy", "member.npy"), ("member.npy", "scores.npy")):
        with pytest.raises(InputError, match=r"member\.npy, which holds 0 and 1"):
            sides.check_classes(tmp_path / pair[0], tmp_path / pair[1])
    sides.check_classes(tmp_path / "scores.npy", tmp_path / "others.npy")


def test_labels_and_both_sides_are_found(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train_loss=INSIDE, test_loss=OUTSIDE)
    np.savez(tmp_path / "b.npz", logits=RNG.normal(size=(9, 3)), labels=np.arange(9) % 3)
    np.savez(tmp_path / "data.npz", x_train=np.zeros((9, 3)), y_train=np.zeros(9), x_test=np.zeros((9, 3)))
    assert [sides.both(tmp_path / name) for name in ("a.npz", "b.npz", "data.npz")] == [True, False, False]
    assert sides.has_labels(tmp_path / "b.npz", "member") and not sides.has_labels(tmp_path / "a.npz", "member")


@pytest.mark.parametrize("mask", [np.arange(6) % 2 == 0, np.arange(6) % 2, np.arange(4) > 1])
def test_membership_is_no_side(mask: np.ndarray) -> None:
    scores, names = np.linspace(-1, 1, 6), ("s.npy", "m.npy")
    for pair, own in (((scores, mask), names), ((mask, scores), names[::-1])):
        with pytest.raises(InputError, match=r'm.npy, which holds .* numpy.savez\("e.npz", score'):
            sides.check_no_mask(*pair, "file", own)
        with pytest.raises(InputError, match="as membership does"):
            Evidence.from_pair(*pair)
    sides.check_no_mask(mask, mask, "file", names)  # whether each guess was right
    sides.check_no_mask(scores, np.arange(4) % 2, "file", names)
