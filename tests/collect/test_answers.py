"""Asking: copies of records under every model, a model for each record, and which records leak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from miaudit import Plan, audit
from miaudit.attacks import label_only, lira, signals
from miaudit.collect import run_campaign, training
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import Answers, collect, cost
from miaudit.errors import InputError
from miaudit.models import shadow
from miaudit.models.targets import Precomputed, SklearnTarget

TREE = SklearnTarget(DecisionTreeClassifier(max_depth=4))
SMOOTH = SklearnTarget(LogisticRegression(C=100.0))
_DIGEST = 38  # bytes behind each array of a store


def noise(n: int = 120, columns: int = 5, **fields: Any) -> Records:
    rng = np.random.default_rng(3)
    member = fields.pop("member", None)
    return Records(rng.normal(size=(n, columns)), rng.integers(0, 2, n), member, fields, "noise")


def evidence(made: Campaign, seed: int = 0) -> Any:
    return collect(made, rng=np.random.default_rng(seed)).evidence


# -- copies ----------------------------------------------------------------------------------------------------------


def jittered(data: Records, k: int = 4, size: float = 0.3) -> np.ndarray[Any, Any]:
    return data.x[:, None, :] + size * np.random.default_rng(9).normal(size=(data.n, k, data.x.shape[1]))


@pytest.mark.long
def test_copies_are_asked_of_every_model_one_by_one() -> None:
    """The slow way: each model fitted and asked about each copy by itself."""
    data = noise()
    copies = jittered(data)
    made = Campaign(TREE, data, attacks=("label_only", "label_only_calibrated", "label_only_learned"),
                    shadows=Shadows(models=4), copies=copies)  # fmt: skip
    found = evidence(made)
    draws = Draws.of(made, np.random.default_rng(0))
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(draws.seed).spawn(5)]
    right = np.empty((120, 5, 5), dtype=bool)
    for m, seed in enumerate(seeds):
        model = TREE.fit(data.x, data.y, np.flatnonzero(draws.included[m]), seed=seed)
        for i in range(120):
            asked = np.concatenate([data.x[i : i + 1], copies[i]])
            right[i, m] = TREE.outputs(model, asked).argmax(axis=1) == data.y[i]
    np.testing.assert_allclose(found.scores["label_only"], label_only.score(right[:, 0]))
    included = draws.included[1:].T
    expected = label_only.calibrated(right[:, 0], right[:, 1:], included)
    np.testing.assert_allclose(found.scores["label_only_calibrated"], expected)
    pooled = np.concatenate([right[:, m] for m in range(1, 5)])
    expected = label_only.learned(right[:, 0], pooled, np.concatenate(list(included.T)))
    np.testing.assert_allclose(found.scores["label_only_learned"], expected, rtol=1e-6)
    bare = evidence(replace(made, copies=None))
    assert len(np.unique(bare.scores["label_only"])) < len(np.unique(found.scores["label_only"]))


def test_copies_of_a_model_that_stands_are_what_it_said() -> None:
    rng = np.random.default_rng(1)
    data = noise(member=np.arange(120) < 60)
    logits, on_copies = rng.normal(size=(120, 2)), rng.normal(size=(120, 3, 2))
    rows = Records(np.arange(120), data.y, data.member, {}, "rows")
    made = Campaign(Precomputed(logits), rows, attacks=("label_only",), copies=on_copies)
    assert data.y is not None
    right = np.column_stack([logits.argmax(1) == data.y, on_copies.argmax(2) == data.y[:, None]])
    np.testing.assert_allclose(evidence(made).scores["label_only"], label_only.score(right))
    classes = replace(made, copies=on_copies.argmax(2))
    np.testing.assert_allclose(evidence(classes).scores["label_only"], label_only.score(right))


@pytest.mark.parametrize(
    "copies", [np.zeros((119, 2, 5)), np.zeros((120, 2, 4)), np.zeros((120, 5)), np.zeros((120, 0, 5))]
)
def test_copies_of_other_records_are_refused(copies: Any) -> None:
    with pytest.raises(InputError, match=r"data\.copies"):
        evidence(Campaign(TREE, noise(), attacks=("label_only",), copies=copies))
    rows = Records(np.arange(120), noise().y, np.arange(120) < 60, {}, "rows")
    with pytest.raises(InputError, match=r"data\.copies"):
        evidence(Campaign(Precomputed(np.zeros((120, 2))), rows, attacks=("label_only",), copies=copies[:119, :, None]))


# -- many runs -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_each_run_is_that_of_a_plain_loop() -> None:
    """Algorithm 1 written out, and offline LiRA from the models of the other records."""
    data = noise(100)
    made = Campaign(SMOOTH, data, design="multi-run", audited=40, attacks=("lira_offline", "loss", "gaussian_lira"))
    found = evidence(made)
    draws = Draws.of(made, np.random.default_rng(0))
    base = np.setdiff1d(np.arange(100), draws.rows)
    seeds = [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(draws.seed).spawn(40)]
    statistic = np.empty((40, 40))
    for i, seed in enumerate(seeds):
        rows = np.sort(np.append(base, draws.rows[i])) if draws.base.member[i] else base
        outputs = SMOOTH.outputs(SMOOTH.fit(data.x, data.y, rows, seed=seed), data.x[draws.rows])
        labels = np.asarray(data.y)[draws.rows]
        both = signals.member_scores(labels=labels, logits=outputs, names=["logit_confidence", "loss"])
        statistic[:, i] = both["logit_confidence"]
        assert found.scores["loss"][i] == pytest.approx(both["loss"][i], rel=1e-6)
    others = np.array([np.delete(statistic[i], i) for i in range(40)])
    expected = lira.offline(np.diag(statistic), others.astype(np.float32))
    np.testing.assert_allclose(found.scores["lira_offline"], expected, rtol=1e-4)
    assert found.design == "multi-run"
    np.testing.assert_array_equal(found.member, draws.base.member)
    assert "gaussian_lira" in found.scores


@pytest.mark.long
def test_calibration_by_the_other_runs_beats_the_raw_loss() -> None:
    """Records differ in how hard they are; the models of the other records know how hard. The loss does not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(220, 40))
    y = (x[:, 0] + 1.5 * rng.normal(size=220) > 0).astype(int)
    made = Campaign(SMOOTH, Records(x, y, None, {}, "hard"), design="multi-run", audited=100,
                    attacks=("loss", "lira_offline"))  # fmt: skip
    found = audit(evidence(made), plan=Plan(fpr_targets=(0.1,)), rng=np.random.default_rng(0))
    auc = {one.score: next(m.value for m in one.metrics if m.name == "auc") for one in found.scores}
    assert auc["lira_offline"] is not None
    assert auc["loss"] is not None
    assert auc["lira_offline"] > auc["loss"] + 0.1


@pytest.mark.thorough
@pytest.mark.long
def test_many_runs_take_processes_a_store_and_copies(tmp_path: Path) -> None:
    data = noise(60)
    made = Campaign(TREE, data, design="multi-run", audited=12, attacks=("label_only", "loss"), copies=jittered(data))
    plain = evidence(made).digest
    kept = replace(made, shadows=Shadows(store=tmp_path / "runs", workers=2))
    assert evidence(kept).digest == plain
    state = cost(kept, rng=np.random.default_rng(0))
    assert state is not None
    assert (state.fits, state.reused) == (0, 12)
    asked = Answers.of(made, Draws.of(made, np.random.default_rng(0)), None)
    assert asked.copies is not None
    assert asked.copies.shape == (12, 4, 2)


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("model-*.npy"))


@pytest.mark.long
@pytest.mark.parametrize("attacks", [("loss", "margin"), ("label_only", "loss")])
def test_what_many_runs_keep_grows_with_the_runs(tmp_path: Path, attacks: tuple[str, ...]) -> None:
    """Twice the runs, twice the bytes; the control: an attack that compares models keeps all of each, the square."""
    data = noise(40)
    copies = jittered(data) if "label_only" in attacks else None
    made = Campaign(TREE, data, design="multi-run", attacks=attacks, copies=copies)
    sizes, estimated = {}, {}
    for runs in (6, 12):
        kept = replace(made, audited=runs, shadows=Shadows(store=tmp_path / str(runs), seconds_per_fit=0.1))
        state = cost(kept, rng=np.random.default_rng(0))
        assert state is not None
        evidence(kept)
        sizes[runs], estimated[runs] = _bytes_of(tmp_path / str(runs)), state.disk_bytes
    assert sizes[12] == 2 * sizes[6] == estimated[12] == 2 * estimated[6]
    compared = replace(
        made, attacks=("lira_offline",), copies=None, audited=12, shadows=Shadows(store=tmp_path / "all")
    )
    evidence(compared)
    assert _bytes_of(tmp_path / "all") == 12 * (128 + 12 * 2 * 4 + _DIGEST)


@pytest.mark.parametrize("attacks", [("loss", "margin"), ("label_only", "loss")])
def test_a_store_of_all_records_is_taken_up_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attacks: tuple[str, ...]
) -> None:
    """As older versions left it, whole and with some of its models lost; and its evidence is that of a new one."""
    data = noise(40)
    copies = jittered(data) if "label_only" in attacks else None
    made = Campaign(TREE, data, design="multi-run", audited=8, attacks=attacks, copies=copies)
    kept = replace(made, shadows=Shadows(store=tmp_path / "runs"))
    with monkeypatch.context() as older:
        older.setattr(run_campaign, "trained_models", lambda c, d, _: shadow.train(**training.training_of_all(c, d)))
        expected = evidence(kept).digest
    width = 8 * (5 if copies is not None else 1)
    assert _bytes_of(tmp_path / "runs") == 8 * (128 + width * 2 * 4 + _DIGEST)
    state = cost(kept, rng=np.random.default_rng(0))
    assert state is not None
    assert (state.fits, state.reused) == (0, 8)
    assert evidence(kept).digest == expected == evidence(made).digest
    next((tmp_path / "runs").glob("model-00003-*.npy")).unlink()
    assert evidence(kept).digest == expected
    assert _bytes_of(tmp_path / "runs") == 7 * (128 + width * 2 * 4 + _DIGEST) + 128 + width // 8 * 2 * 4 + _DIGEST


@pytest.mark.slow
def test_many_runs_are_the_same_on_ray() -> None:
    ray = pytest.importorskip("ray")
    made = Campaign(TREE, noise(40), design="multi-run", audited=6)
    on_ray = replace(made, shadows=Shadows(executor="ray", workers=2))
    try:
        assert evidence(on_ray).digest == evidence(made).digest
    finally:
        ray.shutdown()


@pytest.mark.parametrize("attack", ["lira_online", "rmia_online", "shadow_classifier", "quantile_regression"])
def test_attacks_that_runs_cannot_feed_are_refused(attack: str) -> None:
    with pytest.raises(InputError, match=r"lira_offline.*one-run takes shadow models"):
        evidence(Campaign(TREE, noise(60), design="multi-run", attacks=(attack,)))


# -- which records leak ----------------------------------------------------------------------------------------------


def planted(n: int = 60) -> Records:
    """Labels follow the first column but for five records, which only a model that learnt them gets right."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 2))
    x[:5] = [[1.5, 0], [-1.5, 0], [1, 1.5], [-1, -1.5], [1, -1.5]]
    y = (x[:, 0] > 0).astype(int)
    y[:5] = 1 - y[:5]
    return Records(x, y, None, {"group": np.where(np.arange(n) < 5, "odd", "plain")}, "planted")


@pytest.mark.long
def test_planted_records_are_named_with_their_group_and_none_without_being_asked() -> None:
    nearest = SklearnTarget(KNeighborsClassifier(1))
    made = Campaign(nearest, planted(), shadows=Shadows(models=24, vulnerability=True))
    found = collect(made, rng=np.random.default_rng(0))
    leaks = found.vulnerability
    assert leaks is not None
    assert {one.record for one in leaks.named[:8]} >= set("01234")
    assert leaks.leaking >= 5
    odd = next(one for one in leaks.groups if one.group == "odd")
    assert (odd.records, odd.leaking) == (5, 5)
    by_name = {one.record: one for one in leaks.named}
    assert [by_name[str(i)].member for i in range(5)] == found.evidence.member[:5].tolist()
    quiet = collect(replace(made, shadows=Shadows(models=24)), rng=np.random.default_rng(0))
    assert quiet.vulnerability is not None
    assert quiet.vulnerability.leaking == leaks.leaking
    assert quiet.vulnerability.named == ()
    assert quiet.evidence.digest == found.evidence.digest
    off = collect(replace(made, shadows=Shadows(models=24, vulnerability=False)), rng=np.random.default_rng(0))
    assert off.vulnerability is None
    few = collect(replace(made, shadows=Shadows(models=4)), rng=np.random.default_rng(0))
    assert few.vulnerability is None
    assert any("14 models or more can tell" in note for note in few.notes)


@pytest.mark.parametrize("rows", [119, 121])
def test_outputs_of_more_or_fewer_records_are_refused(rows: int) -> None:
    """Which row belongs to which record would be a guess; with row numbers as x it is not."""
    data = Records(np.arange(120), np.arange(120) % 2, np.arange(120) % 4 < 2, {}, "rows")
    logits = np.random.default_rng(0).normal(size=(rows, 2))
    with pytest.raises(InputError, match=f"a row for each of the 120 records of the data, received {rows} in"):
        evidence(Campaign(Precomputed(logits), data))
    named = Records(np.arange(120)[::-1] % 119, data.y, data.member, {}, "rows")
    assert evidence(Campaign(Precomputed(logits), named)).n == 120


def test_a_reference_ratio_needs_a_reference() -> None:
    made = Campaign(
        Precomputed(np.zeros((40, 1)), given="signals"),
        Records(np.arange(40), None, np.arange(40) % 2 == 0, {}, "rows"),
        attacks=("reference_ratio",),
        columns=("loss",),
    )
    with pytest.raises(InputError, match=r"target\.reference: expected a reference model"):
        evidence(made)
