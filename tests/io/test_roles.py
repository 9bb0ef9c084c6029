"""What columns could be in an audit: names and values that agree, that contradict each other, and that tell nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io import roles
from miaudit.io.roles import Roles, Seen, find, signal_of

N = 300
RNG = np.random.default_rng(0)
MEMBER = RNG.random(N) < 0.5
LOSS = RNG.exponential(size=N)
LOGITS = RNG.normal(size=(N, 4))
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABEL = RNG.integers(0, 4, N)


def table(path: Path, **columns: object) -> Roles:
    pl.DataFrame(columns).write_csv(path / "t.csv")
    return find(path / "t.csv")


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("loss", LOSS, "loss"),
        ("targetLoss", LOSS, "loss"),
        ("nll", LOSS, "loss"),
        ("cross_entropy", LOSS, "loss"),
        ("loss", -LOSS, ""),  # a loss has no values below 0: is it turned, or a loss all the same?
        ("loss", LOSS - 1, ""),
        ("neg_loss", -LOSS, "score"),
        ("neg_loss", LOSS, ""),
        ("loss_score", LOSS, ""),
        ("score", LOSS, "score"),
        ("lira", LOSS - 1, "score"),
        ("confidence", np.exp(-LOSS), "score"),
        ("prob", np.exp(-LOSS), ""),  # of the record's own class, or of class 1?
        ("logits", LOGITS, "logits"),
        ("logits", PROBABILITIES, "probabilities"),  # the rows decide
        ("outputs", PROBABILITIES, "probabilities"),
        ("probs", LOGITS, ""),
        ("preds", LOGITS, ""),
    ],
)
def test_a_signal_is_told_by_name_and_values_together(name: str, values: np.ndarray, kind: str) -> None:
    found = signal_of(Seen(name, None, values))
    assert found is not None and found.kind == kind and found.why


@pytest.mark.parametrize("name", ["age", "x", "weight", "reference_loss", "ref_score", "closs", "scoreboard_id"])
def test_other_numbers_are_no_signal(name: str) -> None:
    assert signal_of(Seen(name, None, LOSS)) is None
    assert signal_of(Seen(name, None, LOGITS)) is None


@pytest.mark.parametrize("values", [MEMBER, MEMBER.astype(int), np.where(MEMBER, "True", "False")])
@pytest.mark.parametrize("name", ["member", "isMember", "in_train", "trained", "membership", "used_in_training"])
def test_membership_is_told_by_its_name(name: str, values: np.ndarray, tmp_path: Path) -> None:
    assert list(table(tmp_path, **{name: values, "loss": LOSS}).members) == [name]


def test_words_say_which_side_a_split_is(tmp_path: Path) -> None:
    assert list(table(tmp_path, split=np.where(MEMBER, "train", "test"), loss=LOSS).members) == ["split"]
    for other in (
        np.where(MEMBER, "a", "b"),
        MEMBER.astype(int),
        np.where(MEMBER, "train", np.where(LOSS > 1, "val", "test")),
    ):
        assert table(tmp_path, split=other, loss=LOSS).members == {}


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("member", np.where(MEMBER, "yes", "no"), "holds two other values"),
        ("member", [None, *MEMBER[1:].astype(int).tolist()], "has missing values"),
        ("member", LABEL, "holds 4 values"),
        ("member", np.ones(N, int), "one value only"),
        ("non_member", (~MEMBER).astype(int), "opposite of membership"),
        ("is_test", (~MEMBER).astype(int), "opposite of membership"),
        ("not_in_train", ~MEMBER, "opposite of membership"),
    ],
)
def test_a_column_that_cannot_be_read_as_membership_is_said(
    name: str, values: object, said: str, tmp_path: Path
) -> None:
    found = table(tmp_path, **{name: values, "loss": LOSS})
    assert found.members == {} and found.refused == (name,) and name not in (*found.binary, *found.covariates)
    assert any(said in doubt for doubt in found.doubts)


def test_members_that_come_first_in_a_long_file_are_no_single_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_ = {"member": [1] * 200 + [0] * 100, "loss": LOSS}
    monkeypatch.setattr(roles, "ROWS", 100)
    found = table(tmp_path, **sorted_)
    assert list(found.members) == ["member"] and not found.complete


def test_columns_of_an_audit_each_have_their_role(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        member=MEMBER,
        **{f"p_{i}": PROBABILITIES[:, i] for i in range(4)},
        label=LABEL,
        person_id=RNG.integers(0, 90, N),
        user=np.arange(N),  # of its own for each record: no unit
        age=RNG.integers(18, 90, N),
        site=RNG.choice(["north", "south"], N),
        text=[f"t{i}" for i in range(N)],
        reference_loss=LOSS,
        smoker=RNG.integers(0, 2, N),
        ssn=np.arange(N),
    )
    assert [(one.columns, one.kind) for one in found.signals] == [(("p_0", "p_1", "p_2", "p_3"), "probabilities")]
    assert (found.labels, found.units, found.named) == (("label",), ("person_id",), ("text", "reference_loss"))
    assert found.groups == ("label", "site", "smoker") and found.binary == ("site", "smoker")
    assert found.covariates == ("age", "site", "smoker") and found.categories == ("site",)
    assert found.doubts == ("a column with a name that looks like a secret was left out",)


def test_arrays_have_lengths(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", member=MEMBER, logits=LOGITS, label=LABEL, shadow_loss=LOSS[:100], cube=np.zeros((2, 2, 2))
    )
    found = find(tmp_path / "a.npz")
    assert [(one.name, one.kind, one.rows) for one in found.signals] == [
        ("logits", "logits", N),
        ("shadow_loss", "loss", 100),
    ]
    assert found.lengths["member"] == N and found.lengths["cube"] == 2


def test_lists_of_a_parquet_are_outputs(tmp_path: Path) -> None:
    pl.DataFrame(
        {"member": MEMBER, "logits": LOGITS.tolist(), "ragged": [[1.0] * (1 + i % 2) for i in range(N)]}
    ).write_parquet(tmp_path / "t.parquet")
    assert [(one.name, one.kind) for one in find(tmp_path / "t.parquet").signals] == [("logits", "logits")]


def test_gaps_and_constants_of_a_signal_are_said(tmp_path: Path) -> None:
    gaps = table(tmp_path, member=MEMBER, loss=[None, *LOSS[1:].tolist()])
    assert any("missing or infinite" in doubt for doubt in gaps.doubts)
    flat = table(tmp_path, member=MEMBER, loss=np.full(N, 0.5))
    assert any("same value in all rows" in doubt for doubt in flat.doubts)


def test_a_file_of_secrets_shows_none(tmp_path: Path) -> None:
    pl.DataFrame({"password": [1, 2], "api_key": [3, 4]}).write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match="2 columns with names that look like secrets") as caught:
        find(tmp_path / "t.csv")
    assert "password" not in str(caught.value) and "api_key" not in str(caught.value)


def test_a_first_row_of_values_is_not_taken_for_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("0.125,1\n0.5,0\n")
    with pytest.raises(InputError, match="names of the columns in the first row") as caught:
        find(tmp_path / "t.csv")
    assert "0.125" not in str(caught.value)
    (tmp_path / "t.csv").write_text(",0,1,member\n0,0.5,0.5,1\n1,0.25,0.75,0\n")  # an index, as pandas writes it
    assert list(find(tmp_path / "t.csv").members) == ["member"]
