"""Which records stand on both sides: copies are found, records that are equal by chance are not, by every door."""

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit, audit_model
from miaudit.auditing.shared_records import obstacle
from miaudit.causal.shared_records import LEVEL, Shared
from miaudit.errors import InputError

SIDES = np.arange(800) < 400


@pytest.mark.parametrize("copied", [20, 120, 400])
def test_a_side_that_was_copied_into_the_other_is_found(copied):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(800, 2))
    rows[400 : 400 + copied] = rows[:copied]
    found = Shared.of(rows, SIDES)
    assert (found.nonmembers, found.members, found.beyond_chance) == (copied, copied, True)
    assert found.size == f"{copied} of 400 non-members are also members"


@pytest.mark.parametrize("levels", [(2, 1), (4, 2), (3, 5), (5, 5), (20, 2)])
def test_coarse_records_are_equal_by_chance(levels):
    """Also where copies are many: a table that explains its repeats is not refused."""
    values, columns = levels
    for seed in range(20):
        coarse = np.random.default_rng(seed).integers(0, values, size=(800, columns))
        assert not Shared.of(coarse, SIDES).beyond_chance


def test_duplicates_that_coins_parted_are_not_refused():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 2))[rng.integers(0, 400, 800)]
        assert not Shared.of(rows, rng.random(800) < 0.5).beyond_chance


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_p_value_is_a_bound_of_the_simulated_one(share):
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(60), 2)[:, None]
    p_values = np.array([Shared.of(rows, rng.random(120) < share).p_value for _ in range(3000)])
    for level in (0.2, 0.05, 0.01):
        assert np.mean(p_values <= level) <= level
    assert p_values.min() > LEVEL / 10
    paired = np.arange(120) % 2 == 0  # the control: every pair parts
    assert Shared.of(rows, paired).p_value < 1e-12


def test_rows_of_missing_values_and_texts_are_compared():
    text = [f"text {i % 60}" for i in range(120)]
    assert Shared.of(text, np.arange(120) < 60).beyond_chance
    gaps = np.full((120, 2), np.nan)
    gaps[:, 0] = np.arange(120) % 60
    assert Shared.of(gaps, np.arange(120) < 60).nonmembers == 60


# -- evidence ---------------------------------------------------------------------------------------------------------


def scored(copied=0, *, coarse=False, **fields):
    rng = np.random.default_rng(2)
    score = rng.normal(size=800) + SIDES
    score = np.round(score, 1) if coarse else score
    score[400 : 400 + copied] = score[:copied]
    return Evidence(score=score, member=SIDES, **{name: make(copied, rng) for name, make in fields.items()})


def audited(evidence, design):
    return audit(evidence.replace(design=design), plan=Plan(), rng=0)


@pytest.mark.parametrize("design", ["one-run", "multi-run", None])
def test_scores_of_the_same_records_are_refused_with_their_number(design):
    found = audited(scored(120), design)
    assert (found.verdict.status, found.exit_code, found.bounds) == ("refused", 4, ())
    assert "120 of 400 non-members are also members, by their scores" in found.verdict.text
    control = audited(scored(), design)
    assert control.verdict.status != "refused"
    assert bool(control.bounds) is (design is not None)


def test_two_files_of_losses_with_the_same_records_are_refused(tmp_path):
    from miaudit.collect import from_pairs

    rng = np.random.default_rng(3)
    losses = rng.exponential(size=500)
    files = [{"signal": tmp_path / name} for name in ("members.npy", "others.npy")]
    for own, values in zip(files, (losses[:300], losses[200:]), strict=True):
        np.save(own["signal"], values)
    read = from_pairs(*files, signal="loss", design="one-run", rng=rng).evidence
    assert obstacle(read).startswith("100 of 300 non-members are also members")


def test_labels_and_rounded_scores_are_no_records():
    assert obstacle(scored(120, coarse=True)) == ""
    labels = Evidence(score=np.arange(800) % 2, member=SIDES)
    assert obstacle(labels) == ""


def test_saturated_scores_are_no_records():
    rng = np.random.default_rng(4)
    score = np.minimum(rng.normal(size=800), 1 / 3)  # a third of the records has one value with many digits
    assert obstacle(Evidence(score=score, member=SIDES)) == ""


def test_texts_tell_records_apart_where_scores_do_not():
    def texts(copied, rng):
        return [f"text {i if i < 400 or i >= 400 + copied else i - 400}" for i in range(800)]

    assert "by their texts" in obstacle(scored(30, coarse=True, text=texts))
    assert obstacle(scored(0, coarse=True, text=texts)) == ""


def test_covariates_of_pairs_are_equal_by_design_where_the_pair_is_the_unit():
    def covariates(copied, rng):
        x = rng.normal(size=(400, 2))
        return np.r_[x, x]

    paired = scored(0, covariates=covariates)
    assert "400 of 400 non-members are also members, by their covariates" in obstacle(paired)
    assert obstacle(paired.replace(unit=np.arange(800) % 400)) == ""


def test_coarse_covariates_do_not_stand_for_records():
    coarse = scored(0, covariates=lambda copied, rng: rng.integers(0, 3, size=(800, 3)))
    assert obstacle(coarse) == ""


def test_zero_run_evidence_is_refused_for_the_same_reason():
    evidence = scored(120, covariates=lambda copied, rng: rng.normal(size=(800, 2)))
    found = audited(evidence, "zero-run")
    assert found.verdict.status == "refused"
    assert found.verdict.text.startswith("No answer: 120 of 400 non-members are also members")
    assert found.bounds == ()


# -- a model ----------------------------------------------------------------------------------------------------------


def model_and_sides(copied, *, coarse=False):
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, size=(800, 3)).astype(float) if coarse else rng.normal(size=(800, 3))
    y = rng.choice(["no", "yes"], 800)
    x[400 : 400 + copied], y[400 : 400 + copied] = x[:copied], y[:copied]
    model = DecisionTreeClassifier(random_state=0).fit(x[:400], y[:400])
    return model, (x[:400], y[:400]), (x[400:], y[400:])


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "list"])
def test_nonmembers_that_contain_members_are_refused_before_the_model_is_asked(kind):
    import pandas as pd
    import polars as pl

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
