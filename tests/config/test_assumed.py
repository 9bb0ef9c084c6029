"""What is assumed of a file: the same whoever is a member, never the design, and asked for where two things fit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.config.assumed import Assumed, assume, assume_file, assume_pair, assume_sides
from miaudit.errors import InputError

N = 200
RNG = np.random.default_rng(0)
MEMBER = (RNG.random(N) < 0.5).astype(int)
LOSS = RNG.exponential(size=N)
BASE = {"member": MEMBER, "loss": LOSS}


def table(path: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_csv(path / "t.csv")
    return path / "t.csv"


def refusal(path: Path, **columns: object) -> InputError:
    made, found = assume(table(path, **columns), {})
    with pytest.raises(InputError) as caught:
        made.check(path / "t.csv", found)
    return caught.value


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (BASE, {"member": "member", "score": "loss", "signal": "loss"}),
        ({"score": LOSS, "is_member": MEMBER}, {"member": "is_member", "score": "score", "signal": "score"}),
        (
            {**BASE, "person": RNG.integers(0, 60, N), "age": RNG.integers(18, 90, N)},
            {"member": "member", "score": "loss", "signal": "loss", "unit": "person"},
        ),
    ],
)
def test_what_only_one_column_fits_is_assumed(columns: dict, options: dict, tmp_path: Path) -> None:
    made, found = assume(table(tmp_path, **columns), {})
    made.check(tmp_path / "t.csv", found)
    assert made.options == options
    assert not {"design", "covariates", "group"} & set(made.options)
    assert shlex.split(made.typed) == [word for name, value in options.items() for word in (f"--{name}", value)]


@pytest.mark.parametrize("score", ["loss", "score", "neg_loss", "mystery"])
def test_no_assumption_depends_on_who_is_a_member(score: str, tmp_path: Path) -> None:
    """A direction that followed from membership would be an audit of itself: turning it round changes nothing."""
    lower = LOSS + 2 * (1 - MEMBER)  # members are lower
    lower = -lower if score == "neg_loss" else lower
    one, turned = (assume(table(tmp_path, member=member, **{score: lower}), {})[0] for member in (MEMBER, 1 - MEMBER))
    assert one == turned


@pytest.mark.parametrize(
    ("columns", "argument"),
    [
        ({**BASE, "confidence": np.exp(-LOSS)}, "score"),
        ({**BASE, "in_train": 1 - MEMBER}, "member"),
        ({**BASE, "person": RNG.integers(0, 60, N), "family": RNG.integers(0, 30, N)}, "unit"),
        ({"member": MEMBER, "loss": -LOSS}, "signal"),
        ({"member": MEMBER, "mystery": LOSS}, "signal"),
    ],
)
def test_the_options_that_a_refusal_names_settle_it(columns: dict, argument: str, tmp_path: Path) -> None:
    error = refusal(tmp_path, **columns)
    assert error.argument == argument
    choices = re.split(r", | or ", error.next_step.removeprefix("choose ").partition(", or miaudit init")[0])
    assert len(choices) == 2
    for choice in choices:
        words = shlex.split(choice)
        given = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
        made, found = assume(tmp_path / "t.csv", given)
        made.check(tmp_path / "t.csv", found)
        assert not set(given) & set(made.options)


def test_a_comma_in_a_name_is_no_second_column(tmp_path: Path) -> None:
    assert "without a comma" in str(refusal(tmp_path, member=MEMBER, **{"loss, mean": LOSS}))


def test_what_is_missing_is_said_with_what_it_could_be(tmp_path: Path) -> None:
    said = refusal(tmp_path, loss=LOSS, smoker=MEMBER, age=RNG.integers(18, 90, N))
    assert said.argument == "member" and "smoker" in said.received and "--member NAME" in said.next_step
    said = refusal(tmp_path, member=MEMBER, age=RNG.integers(18, 90, N))
    assert said.argument == "score"
    logits = {f"logits.{i}": RNG.normal(size=N) for i in range(3)}
    assert refusal(tmp_path, member=MEMBER, **logits).argument == "labels"


def test_arrays_go_with_membership_of_their_length(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", member=MEMBER, loss=LOSS, shadow_member=MEMBER[:50], shadow_loss=LOSS[:50])
    for name, score in (("member", "loss"), ("shadow_member", "shadow_loss")):
        made, found = assume(tmp_path / "a.npz", {"member": name})
        made.check(tmp_path / "a.npz", found)
        assert made.options == {"score": score, "signal": "loss"}


def test_two_sides_in_one_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train_loss=LOSS, test_loss=LOSS[:50])
    file = str(tmp_path / "a.npz")
    found = assume_file([tmp_path / "a.npz"], {})
    assert found.options == {"members": file, "nonmembers": file, "signal": "loss"}
    np.savez(tmp_path / "a.npz", train=LOSS, test=LOSS[:50])
    with pytest.raises(InputError, match="choose --signal score or --signal loss"):
        assume_file([tmp_path / "a.npz"], {})
    assert assume_file([tmp_path / "a.npz"], {"signal": "loss"}).options["members"] == file


def test_one_array_is_half_of_an_audit(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", LOSS)
    with pytest.raises(InputError, match="--members M --nonmembers N"):
        assume_file([tmp_path / "a.npy"], {})
    with pytest.raises(InputError, match=r"--members \S*a\.npy --nonmembers \S*b\.npy"):
        assume_file([tmp_path / "a.npy", tmp_path / "b.npy"], {})
    np.save(tmp_path / "b.npy", np.arange(len(LOSS)) % 2 == 0)
    with pytest.raises(InputError, match=r"b\.npy, which holds true and false"):
        assume_file([tmp_path / "a.npy", tmp_path / "b.npy"], {})


def test_the_default_signal_of_two_files_stays_the_score(tmp_path: Path) -> None:
    for name in ("a", "b", "a_losses", "b_losses"):
        np.save(tmp_path / f"{name}.npy", LOSS)
    assert assume_pair(tmp_path / "a.npy", tmp_path / "b.npy").options == {"signal": "score"}
    assert assume_pair(tmp_path / "a_losses.npy", tmp_path / "b_losses.npy").options == {"signal": "loss"}


def test_outputs_of_two_files_ask_for_labels(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.full((9, 4), 0.25))
    files = tmp_path / "a.npy", tmp_path / "b.npy"
    with pytest.raises(InputError, match=r"--member-labels L\.npy --nonmember-labels L\.npy"):
        assume_sides(*files, {"members", "nonmembers"})
    assert assume_sides(*files, {"member_labels", "nonmember_labels"}).options == {"signal": "probabilities"}


def test_a_name_cannot_forge_a_line() -> None:
    made = Assumed({"member": "m\nmiaudit: all is well\x1b[2J"})
    assert made.sentence.isprintable() and made.note.isprintable()


def test_a_signal_that_is_given_outweighs_the_name_of_its_column(tmp_path: Path) -> None:
    made = assume_file([table(tmp_path, member=MEMBER, score=LOSS)], {"signal": "loss"})
    assert made.options == {"member": "member", "score": "score"}
    several = table(tmp_path, member=MEMBER, loss=LOSS, nll=LOSS)
    with pytest.raises(InputError, match="--score loss"):
        assume_file([several], {"signal": "loss"})


def test_a_table_of_each_class_is_no_audit(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("members.csv", "nonmembers.csv")]
    for file in files:
        pl.DataFrame({"loss": LOSS}).write_csv(file)
    with pytest.raises(InputError, match=r"members\.csv; put both into one table with a column member"):
        assume_file(files, {})
