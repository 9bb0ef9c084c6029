"""A campaign: memberships drawn fairly, evidence with the right design, attacks fed with what they need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from miaudit.attacks import lira, registry, signals
from miaudit.collect import run_campaign
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.outputs import Collected
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models import nets, shadow
from miaudit.models.targets import Precomputed, SklearnTarget, TorchTarget
from miaudit.models.train_config import TrainConfig

TREE = SklearnTarget(DecisionTreeClassifier(max_depth=4))


def noise(n: int = 200, seed: int = 3, **more: Any) -> Records:
    """Labels are coins, so that a tree can only know those that it was shown."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    return Records(x, rng.integers(0, 2, n), more.pop("member", None), more, "noise")


def collected(made: Campaign, seed: int = 0) -> Collected:
    return run_campaign.collect(made, rng=np.random.default_rng(seed))


def test_one_run_draws_fair_coins_and_carries_units_and_groups() -> None:
    names, sites = np.array([f"p{i // 2}" for i in range(200)]), np.arange(200) % 3
    data = noise(unit=names, group=sites, text=np.array(["a"] * 200))
    counts = [collected(Campaign(TREE, data), seed).evidence.n_members for seed in range(12)]
    assert len(set(counts)) > 3  # coins, not halves
    assert 60 < np.mean(counts) < 140
    found = collected(Campaign(TREE, data)).evidence
    assert found.design == "one-run"
    assert found.unit is not None
    assert found.unit.tolist() == names.tolist()
    assert found.group is not None
    assert found.group.tolist() == sites.tolist()
    assert found.text is None  # memberships were drawn: nothing to correct for
    inside, outside = found.score[found.member], found.score[~found.member]
    assert inside.mean() > outside.mean() + 0.1


def test_lira_is_that_of_its_parts() -> None:
    """The slow way: the same draws, one model after another, and the attack by hand."""
    data, made = noise(), Campaign(TREE, noise(), shadows=Shadows(models=8))
    found = collected(made)
    coins, halves, seeds, _ = np.random.default_rng(0).spawn(4)
    member = coins.random(200) < 0.5
    included = np.concatenate([member[None], shadow.inclusion(200, 8, rng=halves)])
    own = np.random.SeedSequence(int(seeds.integers(2**31))).spawn(9)
    outputs = []
    for m in range(9):
        fitted = TREE.fit(data.x, data.y, np.flatnonzero(included[m]), seed=int(own[m].generate_state(1)[0]))
        logits = TREE.outputs(fitted, data.x)
        outputs.append(signals.member_scores(labels=data.y, logits=logits, names=["logit_confidence"]))
    statistic = np.stack([one["logit_confidence"] for one in outputs], axis=1)
    expected = lira.online(statistic[:, 0], statistic[:, 1:].astype(np.float32), included[1:].T)
    np.testing.assert_array_equal(found.evidence.member, member)
    np.testing.assert_allclose(found.evidence.scores["lira_online"], expected, rtol=1e-12)
    assert list(found.evidence.scores) == ["lira_online", "loss"]
    assert found.headline is None  # nobody declared one: the loss counts, too


FED = [n for n, a in registry.ATTACKS.items() if not {"log_p"} & set(a.needs)]


@pytest.mark.long
def test_every_attack_that_needs_no_texts_is_fed() -> None:
    smooth = SklearnTarget(LogisticRegression())
    made = Campaign(smooth, noise(800), attacks=tuple(FED), shadows=Shadows(models=4, population=300))
    evidence = collected(made).evidence
    assert list(evidence.scores) == FED
    assert evidence.n == 500
    assert "gaussian_lira" not in evidence.scores
    both = collected(replace(made, attacks=("gaussian_lira", "lira_online"))).evidence
    assert list(both.scores) == ["gaussian_lira", "lira_online", "loss"]


def test_the_population_is_learned_by_no_model() -> None:
    made = Campaign(TREE, noise(), attacks=("rmia_online",), shadows=Shadows(models=4))
    drawn = Draws.of(made, np.random.default_rng(0))
    assert len(drawn.population) == 40
    assert not drawn.included[:, drawn.population].any()
    assert sorted([*drawn.rows, *drawn.population]) == list(range(200))
    given = replace(made, records=noise(member=np.arange(200) < 100))
    known = Draws.of(given, np.random.default_rng(0))
    assert (known.population >= 100).all()  # of known memberships, non-members only


def test_zero_run_trains_on_the_members_that_are_given() -> None:
    member = np.arange(200) < 90
    data = noise(member=member, covariates=np.c_[np.arange(200.0)], covariate_names=("age",))
    found = collected(Campaign(TREE, data, design="zero-run")).evidence
    assert found.design == "zero-run"
    np.testing.assert_array_equal(found.member, member)
    assert found.covariate_names == ("age",)
    assert collected(Campaign(TREE, data)).evidence.design is None  # never guessed


def test_outputs_that_are_there_need_no_training() -> None:
    data = noise(member=np.arange(200) < 90)
    logits = np.random.default_rng(1).normal(size=(200, 2))
    rows = Records(np.arange(200), data.y, data.member, {}, "rows")
    made = Campaign(Precomputed(logits), rows, design="zero-run", attacks=("loss", "margin"))
    found = collected(made).evidence
    expected = signals.member_scores(labels=data.y, logits=logits.astype(np.float32), names=["margin"])["margin"]
    np.testing.assert_allclose(found.scores["margin"], expected)
    assert run_campaign.cost(made, rng=np.random.default_rng(0)) is None
    several = Precomputed(logits, given="signals")
    assert list(collected(Campaign(several, rows)).evidence.scores) == ["score_0", "score_1"]
    assert list(collected(Campaign(several, rows, columns=("a", "b"), attacks=("b",))).evidence.scores) == ["b"]
    with pytest.raises(InputError, match="stands as it is"):
        collected(replace(made, attacks=("lira_online",), shadows=Shadows(models=4)))


def test_a_regressor_has_squared_errors() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 20))
    data = Records(x, rng.normal(size=60), None, {}, "regression")
    made = Campaign(SklearnTarget(LinearRegression()), data, attacks=("loss", "lira_online"), shadows=Shadows(models=4))
    found = collected(made).evidence
    assert (found.scores["loss"] <= 0).all()
    assert found.scores["loss"][found.member].mean() > found.scores["loss"][~found.member].mean()
    with pytest.raises(InputError, match="classifier"):
        collected(replace(made, attacks=("margin",)))


def test_multi_run_trains_one_model_for_each_record(tmp_path: Path) -> None:
    made = Campaign(TREE, noise(60), design="multi-run", audited=12, shadows=Shadows(store=tmp_path / "runs"))
    seen: list[tuple[int, int]] = []
    found = run_campaign.collect(made, rng=np.random.default_rng(0), progress=lambda *state: seen.append(state))
    assert found.evidence.design == "multi-run"
    assert found.evidence.n == 12
    assert seen[-1] == (12, 12)
    again = collected(made)
    assert again.evidence.digest == found.evidence.digest
    cost = run_campaign.cost(made, rng=np.random.default_rng(0))
    assert cost is not None
    assert (cost.fits, cost.reused) == (0, 12)
    unkept = run_campaign.cost(replace(made, shadows=Shadows()), rng=np.random.default_rng(0))
    assert unkept is not None
    assert (unkept.fits, unkept.disk_bytes) == (12, 12 * (2 * 4 + 128 + 38))  # and the digest of each
    with pytest.raises(InputError, match="one-run takes shadow models"):
        collected(replace(made, attacks=("lira_online",)))


@pytest.mark.thorough
@pytest.mark.long
def test_workers_and_stores_do_not_change_the_evidence(tmp_path: Path) -> None:
    made = Campaign(TREE, noise(), shadows=Shadows(models=4))
    plain = collected(made).evidence.digest
    kept = replace(made, shadows=Shadows(models=4, store=tmp_path / "s", workers=2))
    assert collected(kept).evidence.digest == plain
    assert collected(kept).evidence.digest == plain
    cost = run_campaign.cost(kept, rng=np.random.default_rng(0))
    assert cost is not None
    assert (cost.fits, cost.reused) == (0, 5)
    assert collected(made, seed=1).evidence.digest != plain
    with pytest.raises(InputError, match="records"):  # other data never reuse a stale model
        collected(replace(kept, records=noise(seed=4)))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"design": "zero-run"}, "data.member"),
        ({"attacks": ("lira_onlin",)}, "did you mean lira_online"),
        ({"attacks": ("lira_online",)}, "shadow.models"),
        ({"attacks": ("min_k",)}, "language model"),
        ({"attacks": ("rmia_online",), "shadows": Shadows(models=4, population=199)}, "shadow.population"),
        ({"records": Records(np.zeros((9, 2)), None, None, {}, "x")}, "data.y"),
        ({"target": Precomputed(np.zeros((200, 2)))}, "stands as it is"),
        ({"records": noise(member=np.ones(200, bool))}, "non-member"),
        ({"records": noise(member=np.arange(200) < 9), "design": "multi-run"}, "memberships are drawn"),
        ({"records": noise(unit=np.arange(3))}, "200 rows"),
    ],
)
def test_what_does_not_go_together_is_refused_before_training(changes: dict[str, Any], word: str) -> None:
    made = Campaign(TREE, noise())
    with pytest.raises(InputError, match=word):
        Draws.of(replace(made, **changes), np.random.default_rng(0))


# -- data frames, labels of text and rare classes ---------------------------------------------------------------------


def mixed(n: int = 80, rare: int = 2) -> Records:
    draws = np.random.default_rng(0)
    x = pd.DataFrame({"age": draws.normal(size=n), "site": draws.choice(["n", "s"], n)})
    y = np.array(["rare"] * rare + draws.choice(["no", "yes"], n - rare).tolist())
    return Records(x, y, None, {}, "made")


def coded(records: Records) -> Records:
    x = np.column_stack([records.x["age"], records.x["site"] == "n", records.x["site"] == "s"])
    return replace(records, x=x)


class Contiguous(LogisticRegression):
    """Refuses classes with gaps, as some boosting libraries do."""

    def fit(self, x: Any, y: Any) -> Any:
        if set(np.unique(y)) != set(range(len(np.unique(y)))):
            raise ValueError("Invalid classes inferred from unique values of `y`.")
        return super().fit(x, y)


def test_a_pipeline_on_a_frame_gives_the_evidence_of_coded_arrays() -> None:
    columns = make_column_transformer((FunctionTransformer(), ["age"]), (OneHotEncoder(), ["site"]))
    targets = SklearnTarget(make_pipeline(columns, LogisticRegression())), SklearnTarget(LogisticRegression())
    records, shadows = mixed(rare=0), Shadows(models=4)
    found = [
        run_campaign.collect(Campaign(target, data, shadows=shadows), rng=np.random.default_rng(1)).evidence
        for target, data in zip(targets, (records, coded(records)), strict=True)
    ]
    for name, score in found[0].scores.items():
        np.testing.assert_allclose(score, found[1].scores[name], rtol=1e-4, atol=1e-5)


def test_a_class_that_a_half_lacks_is_filled_and_said_beforehand() -> None:
    records = coded(mixed(rare=1))
    planned = [
        Campaign(SklearnTarget(kind()), records, shadows=Shadows(models=4)) for kind in (LogisticRegression, Contiguous)
    ]
    draws = Draws.of(planned[0], np.random.default_rng(3))
    without = int((~draws.included[:, draws.y == 1].any(axis=1)).sum())
    assert without
    said = f"rare classes: {without} of 5 models learn no record of rare (1 of 80)"
    cost = run_campaign.cost(planned[0], rng=np.random.default_rng(3))
    assert cost is not None
    assert said in cost.how
    plain, contiguous = (run_campaign.collect(one, rng=np.random.default_rng(3)) for one in planned)
    assert any(said[1:] in note for note in plain.notes)
    np.testing.assert_allclose(plain.evidence.scores["loss"], contiguous.evidence.scores["loss"], rtol=1e-5)


def test_a_store_belongs_to_the_columns_of_its_frame(tmp_path: Path) -> None:
    columns = make_column_transformer((FunctionTransformer(), ["age"]), (OneHotEncoder(), [1]))
    target, records = SklearnTarget(make_pipeline(columns, LogisticRegression())), mixed(rare=0)

    def run(records: Records, workers: int = 1) -> Evidence:
        shadows = Shadows(models=4, store=tmp_path / "store", workers=workers)
        return run_campaign.collect(Campaign(target, records, shadows=shadows), rng=np.random.default_rng(1)).evidence

    first = run(records)
    assert run(replace(records, x=pl.DataFrame(records.x.to_dict("list")))).digest == first.digest  # resumed
    with pytest.raises(InputError, match="records"):
        run(replace(records, x=records.x.rename(columns={"site": "place"})))


def test_frames_and_texts_that_a_target_would_guess_at_are_refused() -> None:
    records, rng = mixed(), np.random.default_rng(0)
    network = TorchTarget(nets.mlp(2, 3), TrainConfig(epochs=1))
    with pytest.raises(InputError, match="columns of numbers, for a network"):
        run_campaign.collect(Campaign(network, records), rng=rng)
    with pytest.raises(InputError, match="numbers, for a regression"):
        run_campaign.collect(Campaign(SklearnTarget(LinearRegression()), coded(records)), rng=rng)
    given = Precomputed(np.zeros((80, 3)), name="outputs")
    member = np.arange(80) % 2 == 0
    with pytest.raises(InputError, match="in the order of the columns of its outputs"):
        run_campaign.collect(Campaign(given, replace(coded(records), x=np.arange(80), member=member)), rng=rng)
