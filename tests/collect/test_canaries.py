"""Canaries: what each kind makes, that they alone are audited, and all that is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.canaries import (
    KINDS,
    Blank,
    CanaryKind,
    ChangedFact,
    Hard,
    HeldOut,
    Insertion,
    Mislabelled,
    Noise,
    OutOfDistribution,
    RandomTokens,
    RareTokens,
    added,
    fitting,
)
from miaudit.collect.draws import Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.dp import one_run
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models.inclusion import coins
from miaudit.models.protocol import Traits
from miaudit.models.targets import SklearnTarget

NEAREST = SklearnTarget(KNeighborsClassifier(1))


def rows(n: int = 200, **fields: Any) -> Records:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 4))
    return Records(x, (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] > 0), None, fields, "rows")


def images(n: int = 60, kind: Any = np.uint8) -> Records:
    rng = np.random.default_rng(4)
    return Records(rng.integers(10, 200, (n, 6, 6, 3)).astype(kind), np.arange(n) % 3, None, {}, "images")


def table(n: int = 100) -> Records:
    rng = np.random.default_rng(5)
    age, town = rng.integers(18, 80, n), rng.choice(["north", "south", "isle"], n, p=[0.6, 0.38, 0.02])
    frame = pd.DataFrame({"age": age, "town": pd.Categorical(town), "pay": rng.gamma(2, 3, n)})
    return Records(frame, np.where(age > 40, "old", "young"), None, {}, "table")


def texts() -> Records:
    rng = np.random.default_rng(6)
    words = ["".join(rng.choice(list("aeilmnorst"), 5)) for _ in range(300)]
    facts = [f"In {1900 + i} it was {words[-i].title()} who saw {rng.integers(10, 99)}" for i in range(60)]
    return Records([f"{one} {' '.join(rng.choice(words, 12))}." for one in facts], None, None, {}, "texts")


def made(records: Records, kind: CanaryKind, seed: int = 0) -> Records:
    return added(records, kind, rng=np.random.default_rng(seed))


EACH = {
    "mislabelled": (rows, Mislabelled(20)),
    "hard": (rows, Hard(20)),
    "blank": (images, Blank(20)),
    "noise": (images, Noise(20)),
    "out-of-distribution": (table, OutOfDistribution(20)),
    "random-tokens": (texts, RandomTokens(20)),
    "rare-tokens": (texts, RareTokens(20)),
    "changed-fact": (texts, ChangedFact(20)),
    "held-out": (texts, HeldOut(20)),
}


def test_each_kind_is_tried_here() -> None:
    assert list(EACH) == list(KINDS)


@pytest.mark.parametrize("name", EACH)
def test_canaries_stand_last_all_differ_and_are_no_records(name: str) -> None:
    make, kind = EACH[name]
    found = made(make(), kind)
    canary = np.asarray(found.canary)
    assert canary.sum() == 20
    assert canary[-20:].all()
    x = found.x.astype(str).agg("|".join, axis=1).tolist() if hasattr(found.x, "agg") else found.x
    keys = [str(np.asarray(one).tolist()) for one in x]
    assert len(set(keys[-20:])) == 20
    assert not set(keys[-20:]) & set(keys[:-20])  # a record that a canary differs from by its label has left, too
    assert type(found.x) is type(make().x)
    again, other = made(make(), kind), made(make(), kind, 1)
    assert str(again.x) == str(found.x)
    assert str(other.x) != str(found.x)


def test_a_mislabelled_record_takes_its_own_place_with_each_other_label_as_often() -> None:
    data = rows(2000)
    found = made(data, Mislabelled(1500))
    assert found.n == 2000
    was = {one.tobytes(): label for one, label in zip(data.x, data.y, strict=True)}  # type: ignore[arg-type]
    moved = [(label - was[one.tobytes()]) % 4 for one, label in zip(found.x[-1500:], found.y[-1500:], strict=True)]  # type: ignore[index]
    assert np.abs(np.bincount(moved, minlength=4) - [0, 500, 500, 500]).max() < 75  # four standard deviations of 18
    assert all(was[one.tobytes()] == label for one, label in zip(found.x[:500], found.y[:500], strict=True))  # type: ignore[index]


def test_labels_of_several_columns_and_numbers_are_changed_for_those_of_others() -> None:
    several = Records(rows().x, np.random.default_rng(0).integers(0, 2, (200, 3)), None, {}, "several")
    for data in (several, Records(rows().x, np.random.default_rng(0).normal(size=200), None, {}, "numbers")):
        found = made(data, Mislabelled(30))
        own = {one.tobytes(): label for one, label in zip(data.x, np.asarray(data.y), strict=True)}
        for one, label in zip(found.x[-30:], np.asarray(found.y)[-30:], strict=True):
            assert not np.array_equal(own[one.tobytes()], label)
            assert (np.asarray(data.y) == label).reshape(200, -1).all(axis=1).any()


def test_images_keep_type_and_range() -> None:
    for kind in (np.uint8, np.float32):
        blank, noise = made(images(kind=kind), Blank(30)), made(images(kind=kind), Noise(30))
        for found in (blank, noise, made(images(kind=kind), Noise(30, law="gaussian"))):
            assert found.x.dtype == kind
            assert 10 <= found.x.min() <= found.x.max() < 200
        assert (np.ptp(blank.x[-30:], axis=(1, 2)) == 0).all()
        assert (noise.x[-30:].std(axis=(1, 2, 3)) > 40).all()
        assert np.bincount(np.asarray(blank.y)[-30:]).min() > 2
    flat = Records(images().x.reshape(60, -1), images().y, None, {}, "flat")
    square = made(flat, Blank(20, shape=(6, 6, 3))).x[-20:].reshape(20, 6, 6, 3)
    assert (np.ptp(square, axis=(1, 2)) == 0).all()
    assert np.ptp(square, axis=3).max() > 0  # a colour, not a grey


def test_rows_from_the_tails_have_rare_values_as_often() -> None:
    data = table(1000)
    found = made(data, OutOfDistribution(400))
    there, new = found.x[:1000], found.x[-400:]
    assert (new.dtypes == there.dtypes).all()
    assert found.classes == ("old", "young")
    assert (there["town"] == "isle").mean() < 0.05 < 0.25 < (new["town"] == "isle").mean()
    low, high = data.x["age"].quantile([0.05, 0.95])
    assert not new["age"].between(low, high, inclusive="neither").any()
    assert new["pay"].min() >= 0  # it never has another sign
    assert abs(np.corrcoef(new["age"], np.asarray(found.y)[-400:])[0, 1]) < 0.2
    assert abs(np.corrcoef(there["age"], np.asarray(found.y)[:1000])[0, 1]) > 0.6


def test_hard_ones_have_a_larger_loss_than_other_mislabelled_ones() -> None:
    data = rows(600)
    model = KNeighborsClassifier(25).fit(data.x, data.y)

    def doubt(found: Records) -> float:
        canary = np.asarray(found.canary)
        shares = model.predict_proba(found.x[canary])
        return float(shares[np.arange(60), np.asarray(found.y)[canary]].mean())

    assert doubt(made(data, Hard(60))) < 0.5 * doubt(made(data, Mislabelled(60)))
    given = added(data, Hard(60), rng=np.random.default_rng(0), reference=SklearnTarget(KNeighborsClassifier(25)))
    assert doubt(given) < 0.5 * doubt(made(data, Mislabelled(60)))


def test_only_canaries_are_audited_and_all_others_are_in_every_training() -> None:
    found = made(rows(), Mislabelled(40))
    drawn = Draws.of(Campaign(NEAREST, found, shadows=Shadows(models=6), runs=3), np.random.default_rng(0))
    canary = np.asarray(found.canary)
    np.testing.assert_array_equal(drawn.rows, np.flatnonzero(canary))
    assert drawn.included.shape == (9, 200)
    assert drawn.included[:, ~canary].all()
    np.testing.assert_array_equal(drawn.included[0, canary], drawn.base.member)
    np.testing.assert_array_equal(drawn.included[-2:, canary], drawn.further)
    assert (drawn.included[1:7, canary].sum(axis=0) == 3).all()
    few = Draws.of(
        Campaign(NEAREST, found, attacks=("rmia_online",), shadows=Shadows(models=4)), np.random.default_rng(0)
    )
    assert canary[few.population].all()
    assert len(few.population) == 8


def test_an_audit_of_canaries_shows_more_than_one_of_the_records_themselves() -> None:
    data = rows(1000)
    shown = []
    for records in (made(data, Mislabelled(200)), data):
        found = collect(Campaign(NEAREST, records), rng=np.random.default_rng(0))
        shown.append(one_run.audit(found.evidence, parameter="mu", rng=np.random.default_rng(0)).value)
        assert found.evidence.design == "one-run"
    assert found.evidence.n == 1000
    assert shown[0] > 0.7
    assert shown[0] > shown[1] + 0.2  # of a fifth as many


def test_coins_without_a_training_show_nothing() -> None:
    """The control: a model that learned all the natural records and none of the canaries gives nothing away."""
    data = rows(1000)
    found = made(data, Mislabelled(400))

    class Deaf(SklearnTarget):
        def fit(self, x: Any, y: Any, rows: Any, *, seed: int) -> Any:
            return super().fit(x, y, rows[~np.asarray(found.canary)[rows]], seed=seed)

    deaf = collect(Campaign(Deaf(KNeighborsClassifier(1)), found), rng=np.random.default_rng(0)).evidence
    assert one_run.audit(deaf, parameter="mu", rng=np.random.default_rng(0)).value == 0


def test_the_notes_say_who_was_audited() -> None:
    found = collect(Campaign(NEAREST, made(rows(), Mislabelled(40))), rng=np.random.default_rng(0))
    said = next(note for note in found.notes if "canaries" in note)
    assert "40 canaries (mislabelled" in said
    assert "the 160 other training records" in said
    assert "40 canaries" in found.evidence.source


def test_records_without_canaries_are_drawn_as_ever() -> None:
    """A digest of the version before there were canaries."""
    campaign = Campaign(NEAREST, rows(), shadows=Shadows(models=4), runs=3, attacks=("rmia_online",))
    plain = Draws.of(campaign, np.random.default_rng(0))
    drawn = plain.included.tobytes() + plain.rows.tobytes() + plain.population.tobytes()
    assert hashlib.sha256(drawn).hexdigest().startswith("984e6e33d2b6872e")
    assert plain.seed == 1409566257


@pytest.mark.parametrize(
    ("records", "kind", "said"),
    [
        (rows, Blank(5), "expected mislabelled or hard or out-of-distribution, for rows of numbers, received blank"),
        (rows, Noise(5, shape=(3, 3)), "expected a shape of 4 pixels, received [3, 3]"),
        (images, OutOfDistribution(5), "mislabelled or hard or blank or noise, for images of shape (6, 6, 3)"),
        (table, Noise(5), "for a table with columns of text, categories or gaps, received noise"),
        (
            texts,
            Mislabelled(5),
            "expected random-tokens or rare-tokens or changed-fact or held-out, for texts without labels",
        ),
        (rows, Mislabelled(200), "expected at most 199, of 200 records, received 200"),
        (rows, Mislabelled(500), "expected at most 199, of 200 records, received 500"),
        (rows, Hard(101), "expected at most 100, half of the records, received 101"),
        (lambda: Records(np.arange(9), np.arange(9), None, {}, ""), Mislabelled(2), "data.x: expected what goes into"),
        (lambda: Records(np.zeros((9, 2)), np.zeros(9), None, {}, ""), Mislabelled(2), "there is no other label"),
        (lambda: made(rows(), Mislabelled(5)), Mislabelled(2), "none, beside data.canary"),
        (
            lambda: Records(np.arange(9).reshape(-1, 3, 1) % 2, np.arange(3), None, {}, ""),
            Blank(3),
            "expected at most 2, which is how many different ones were found",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(records: Any, kind: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        made(records(), kind)
    assert said in str(error.value)


@pytest.mark.parametrize("count", [1, -3, 2.5, True, "many", float("nan")])
def test_counts_below_two_and_no_numbers_are_refused(count: Any) -> None:
    for kind in KINDS.values():
        with pytest.raises(InputError, match=r"canaries\.count"):
            kind(count)


def test_designs_and_memberships_that_do_not_go_with_canaries() -> None:
    found = made(rows(), Mislabelled(40))
    for design in ("multi-run", "zero-run"):
        with pytest.raises(InputError, match="expected design one-run, beside canaries"):
            Draws.of(Campaign(NEAREST, found, design=design), np.random.default_rng(0))
    member = np.asarray(found.canary) == (np.arange(200) % 2 == 0)
    known = Records(found.x, found.y, member, {}, "", canary=found.canary)
    with pytest.raises(InputError, match="one-run, beside canaries and data"):
        Draws.of(Campaign(NEAREST, known), np.random.default_rng(0))
    drawn = Draws.of(Campaign(NEAREST, known, design="one-run"), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.included[0], member)


# -- repeated, and in units --------------------------------------------------------------------------------------------


class Counts(Traits):
    """A target that keeps the rows it is given, and says of each text how often it was among them."""

    kind: ClassVar[Any] = "signals"
    runs_user_code = False
    name, columns, notes = "counts", ("loss",), ()

    def identity(self) -> str:
        return "counts"

    def fit(self, x: Any, y: Any, rows: Any, *, seed: int) -> Any:
        return np.bincount(rows, minlength=len(x))

    def outputs(self, fitted: Any, x: Any) -> Any:
        return fitted[:, None].astype(np.float32)


def test_a_member_is_learned_as_often_as_was_asked_and_no_other_record_more_than_once() -> None:
    found = added(texts(), RareTokens(20), rng=np.random.default_rng(0), insertion=Insertion((1, 4, 16, 64)))
    assert found.times is not None
    assert np.bincount(found.times[-20:])[[1, 4, 16, 64]].tolist() == [5, 5, 5, 5]
    assert (found.times[:-20] == 1).all()
    evidence = collect(Campaign(Counts(), found), rng=np.random.default_rng(0)).evidence
    assert evidence.n == 20  # copies are one canary, with one coin
    np.testing.assert_array_equal(evidence.score, np.where(evidence.member, found.times[-20:], 0))
    plain = Campaign(Counts(), replace(found, times=None))
    without = collect(plain, rng=np.random.default_rng(0)).evidence
    np.testing.assert_array_equal(without.score, without.member)
    np.testing.assert_array_equal(without.member, evidence.member)  # coins do not depend on how often


def test_models_of_records_that_are_repeated_have_a_store_of_their_own(tmp_path: Path) -> None:
    found = added(texts(), RareTokens(20), rng=np.random.default_rng(0), insertion=Insertion((3,)))
    shadows = Shadows(models=4, store=tmp_path / "store")
    collect(Campaign(Counts(), found, shadows=shadows), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="times"):
        collect(Campaign(Counts(), replace(found, times=None), shadows=shadows), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="beside stability"):
        Draws.of(Campaign(Counts(), found, stability=2), np.random.default_rng(0))


@pytest.mark.parametrize("given", [None, np.repeat(np.arange(20), 3), np.repeat([f"canary-{i}" for i in range(20)], 3)])
@pytest.mark.parametrize("name", ["random-tokens", "rare-tokens", "changed-fact"])
def test_documents_of_a_canary_unit_have_one_coin_and_nobody_of_the_data_is_one(given: Any, name: str) -> None:
    data = replace(texts(), fields={} if given is None else {"unit": given})
    found = added(data, KINDS[name](4), rng=np.random.default_rng(0), insertion=Insertion((1, 2), per_unit=5))
    canary, unit = np.asarray(found.canary), np.asarray(found.fields["unit"])
    assert canary.sum() == 20
    assert len(set(unit[canary].tolist())) == 4
    assert not set(unit[canary].tolist()) & set(unit[~canary].tolist())
    if given is not None:
        assert set(unit[~canary].tolist()) <= set(given.tolist())
    drawn = Draws.of(Campaign(Counts(), found, shadows=Shadows(models=6)), np.random.default_rng(0))
    assert drawn.base.n_units == 4
    for one in set(unit[canary].tolist()):
        rows = unit == one
        assert (drawn.included[:, rows][:, 0] == drawn.included[:, rows].T).all()
        assert len(set(np.asarray(found.times)[rows].tolist())) == 1
    said = next(
        note for note in collect(Campaign(Counts(), found), rng=np.random.default_rng(0)).notes if "unit" in note
    )
    assert "20 canaries of 4 units" in said


def test_bounds_count_units_whatever_the_number_of_their_documents() -> None:
    """Sixty documents of twelve units that are all told apart show no more than twelve records do."""
    found = added(texts(), RareTokens(12), rng=np.random.default_rng(0), insertion=Insertion(per_unit=5))
    evidence = collect(Campaign(Counts(), found), rng=np.random.default_rng(0)).evidence
    assert (evidence.n, evidence.n_units) == (60, 12)
    bound = one_run.audit(evidence, parameter="mu", rng=np.random.default_rng(0))
    alone = added(texts(), RareTokens(12), rng=np.random.default_rng(0))
    of_records = collect(Campaign(Counts(), alone), rng=np.random.default_rng(0)).evidence
    assert bound.value <= one_run.audit(of_records, parameter="mu", rng=np.random.default_rng(0)).value + 0.35
    many = one_run.audit(evidence.replace(unit=None), parameter="mu", rng=np.random.default_rng(0))
    assert many.value > bound.value + 0.3  # the control: documents that pass for independent ones


@pytest.mark.long
def test_units_of_a_model_that_learned_none_show_nothing_where_their_documents_alone_would() -> None:
    """Scores that all documents of a unit share, whatever its coin: a bound above 0 in few of 200 audits."""
    found = added(texts(), RareTokens(30), rng=np.random.default_rng(0), insertion=Insertion(per_unit=8))
    unit = np.asarray(found.fields["unit"])[np.asarray(found.canary)]
    wrong = {"units": 0, "documents": 0}
    for seed in range(200):
        member = coins(240, unit=unit, rng=np.random.default_rng([seed, 0]))
        score = np.repeat(np.random.default_rng([seed, 1]).normal(size=30), 8)
        for name, given in (("units", unit), ("documents", None)):
            evidence = Evidence(score=score, member=member, design="one-run", unit=given)
            bound = one_run.audit(evidence, parameter="mu", confidence=0.95, rng=np.random.default_rng([seed, 2]))
            wrong[name] += bound.value > 0
    assert wrong["units"] <= 18  # 10 on average, at most
    assert wrong["documents"] > 40  # the control


def test_held_out_units_are_whole_units_of_the_data() -> None:
    data = replace(texts(), fields={"unit": np.repeat(np.arange(20), 3)}, ids=np.arange(60) + 5)
    found = made(data, HeldOut(6))
    canary, unit = np.asarray(found.canary), np.asarray(found.fields["unit"])
    assert (found.n, canary.sum(), found.natural) == (60, 18, True)
    assert len(set(unit[canary].tolist())) == 6
    assert not set(unit[canary].tolist()) & set(unit[~canary].tolist())
    for row in range(60):  # every record keeps what is known of it
        assert data.x[int(np.asarray(found.ids)[row]) - 5] == found.x[row]
    with pytest.raises(InputError, match=r"canaries\.per_unit: expected none for kind held-out"):
        added(data, HeldOut(3), rng=np.random.default_rng(0), insertion=Insertion(per_unit=2))


def test_the_notes_say_that_held_out_documents_are_natural_and_others_are_not() -> None:
    for kind, words in ((HeldOut(20), "those of documents of the data"), (RareTokens(20), "not of the other records")):
        notes = collect(Campaign(Counts(), made(texts(), kind)), rng=np.random.default_rng(0)).notes
        assert words in next(note for note in notes if "canaries" in note)


@pytest.mark.parametrize("bad", [{"times": ()}, {"times": (0,)}, {"times": (1, 2.5)}, {"times": (True,)},
                                 {"times": (10**6,)}, {"per_unit": 0}, {"per_unit": 1.5}])  # fmt: skip
def test_numbers_of_times_and_documents_are_whole_and_positive(bad: Any) -> None:
    with pytest.raises(InputError, match=r"canaries\.(times|per_unit)"):
        Insertion(**bad)


def test_fitting_names_kinds_by_the_data() -> None:
    assert fitting(images()) == ["mislabelled", "hard", "blank", "noise"]
    assert fitting(table()) == ["mislabelled", "hard", "out-of-distribution"]
    tokens = Records(np.arange(12).reshape(4, 3), None, None, {}, "")
    assert fitting(tokens) == ["out-of-distribution", "random-tokens"]
    assert set(np.unique(made(tokens, RandomTokens(9)).x)) <= set(range(12))
