"""Equal records have equal digests in every form, and audits of models refuse non-members that are members."""

import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

from miaudit import audit_model
from miaudit.errors import InputError
from miaudit.io.row_digests import row_digests

pd = pytest.importorskip("pandas", reason="pandas is not installed")


def test_a_digest_is_of_the_values_and_of_the_label():
    x = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [-0.0, 0.0], [0.0, 0.0]])
    first = row_digests(x, np.array([0, 1, 0, 0, 0]))
    assert len(set(first)) == 4
    assert first[3] == first[4]
    assert row_digests(x.astype(np.float32), np.array([0.0, 1, 0, 0, 0])) == first


def test_frames_of_mixed_columns_and_lists_of_texts_have_digests():
    columns = {"a": [1, 1, 2], "b": ["x", "x", "y"]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        found = row_digests(frame, np.array(["no", "no", "no"]))
        assert found[0] == found[1] != found[2]
    assert len(set(row_digests(["a", "b", "a"], np.zeros(3)))) == 2


def model_and_sides(copied, *, coarse=False):
    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, size=(800, 3)).astype(float) if coarse else rng.normal(size=(800, 3))
    y = rng.choice(["no", "yes"], 800)
    x[400 : 400 + copied], y[400 : 400 + copied] = x[:copied], y[:copied]
    model = DecisionTreeClassifier(random_state=0).fit(x[:400], y[:400])
    return model, (x[:400], y[:400]), (x[400:], y[400:])


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "list"])
def test_nonmembers_that_contain_members_are_refused_before_the_model_is_asked(kind):
    def form(x):
        names = ["a", "b", "c"]
        makers = {"pandas": lambda: pd.DataFrame(x, columns=names), "polars": lambda: pl.DataFrame(x, schema=names)}
        return x if kind == "array" else x.tolist() if kind == "list" else makers[kind]()

    model, members, nonmembers = model_and_sides(120)
    sides = {"members": (form(members[0]), members[1]), "nonmembers": (form(nonmembers[0]), nonmembers[1])}
    with pytest.raises(InputError, match="120 of 400 non-members are also members"):
        audit_model(model, **sides, design="one-run", rng=0)


@pytest.mark.parametrize("coarse", [False, True])
def test_other_nonmembers_are_audited(coarse):
    model, members, nonmembers = model_and_sides(0, coarse=coarse)
    assert audit_model(model, members=members, nonmembers=nonmembers, design="one-run", rng=0).counts.nonmembers == 400
