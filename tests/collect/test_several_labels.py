"""Multi-label models and regressions from data to scores: every kind of target, a control, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import special, stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from miaudit.attacks import multi_label
from miaudit.collect import drawn
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.config.audit import read
from miaudit.errors import InputError
from miaudit.models.command import CommandTarget
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed, SklearnTarget

N, LABELS = 160, 3


def data(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """Records and labels that have nothing to do with them: what a model knows of these, it has memorised."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)), rng.integers(0, 2, (n, LABELS))


def records(y: object, x: np.ndarray | None = None, **more: object) -> Records:
    return Records(data()[0] if x is None else x, y, None, {}, "noise", **more)


def auc(found: object, name: str | None = None) -> float:
    evidence = found.evidence
    scores = evidence.score if name is None else evidence.scores[name]
    ranks = stats.rankdata(scores)
    inside = evidence.member
    m, k = inside.sum(), (~inside).sum()
    return float((ranks[inside].sum() - m * (m + 1) / 2) / (m * k))


ESTIMATORS = {
    "forest": RandomForestClassifier(n_estimators=10),
    "tree": DecisionTreeClassifier(),
    "of each label": MultiOutputClassifier(DecisionTreeClassifier(max_depth=8)),
    "network": MLPClassifier(hidden_layer_sizes=(64,), max_iter=400, learning_rate_init=0.01),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_that_memorises_its_labels_is_seen(name: str) -> None:
    _, y = data()
    campaign = Campaign(SklearnTarget(ESTIMATORS[name]), records(y), attacks=("loss", "logit_confidence", "margin"))
    found = collect(campaign, rng=np.random.default_rng(1))
    assert campaign.target.kind == "multi-label"
    assert all(auc(found, one) > 0.8 for one in ("loss", "logit_confidence", "margin"))


def test_a_model_that_never_saw_the_members_is_not() -> None:
    x, y = data()
    other, labels = data(9)
    fitted = RandomForestClassifier(n_estimators=10, random_state=0).fit(other, labels)
    target = SklearnTarget(fitted).labelled(y)
    whole = Precomputed(target.outputs(None, x), "logits", labels=LABELS)
    member = np.random.default_rng(3).random(N) < 0.5
    found = collect(
        Campaign(whole, replace(records(y, np.arange(N)), member=member), "one-run"), rng=np.random.default_rng(1)
    )
    assert abs(auc(found) - 0.5) < 0.1


def test_the_scores_are_those_of_the_probabilities_by_hand() -> None:
    x, y = data()
    fitted = RandomForestClassifier(n_estimators=10, random_state=0).fit(x[:80], y[:80])
    outputs = SklearnTarget(fitted).labelled(y).outputs(None, x)
    p = np.stack([own[:, 1] for own in fitted.predict_proba(x)], axis=1)
    inner = (p > 0) & (p < 1)
    np.testing.assert_allclose(special.expit(outputs[inner].astype(float)), p[inner], rtol=1e-5)
    assert (outputs[p == 1] > 100).all()
    assert (outputs[p == 0] < -100).all()


def test_a_label_that_a_half_lacks_has_a_column_of_its_own() -> None:
    x, y = data()
    y[:, 1] = 0
    y[0, 1] = 1
    target = SklearnTarget(RandomForestClassifier(n_estimators=5)).labelled(y)
    outputs = target.outputs(target.fit(x, y, np.arange(1, 80), seed=0), x)
    assert outputs.shape == (N, LABELS)
    assert (outputs[:, 1] < -100).all()


@pytest.mark.long
def test_shadow_models_and_the_attacks_that_work_on_whole_vectors() -> None:
    _, y = data()
    attacks = ("lira_online", "lira_offline", "rmia_offline")
    target = SklearnTarget(RandomForestClassifier(n_estimators=10))
    campaign = Campaign(target, records(y), attacks=attacks, shadows=Shadows(8))
    found = collect(campaign, rng=np.random.default_rng(2))
    assert set(found.evidence.scores) >= set(attacks)
    assert auc(found, "lira_online") > 0.65  # certain trees make logits far from Gaussian
    assert auc(found, "rmia_offline") > 0.8


def test_gaussian_lira_is_that_of_the_summed_cross_entropies() -> None:
    _, y = data()
    tree = DecisionTreeClassifier(min_samples_leaf=3)
    campaign = Campaign(SklearnTarget(tree), records(y), attacks=("gaussian_lira",))
    assert auc(collect(campaign, rng=np.random.default_rng(2)), "gaussian_lira") > 0.7


@pytest.mark.long
@pytest.mark.parametrize("given", ["logits", "probabilities"])
def test_outputs_from_elsewhere_with_shadow_outputs(given: str, tmp_path: Path) -> None:
    x, y = data()
    rng = np.random.default_rng(0)
    included = rng.random((17, N)) < 0.5
    target = SklearnTarget(RandomForestClassifier(n_estimators=10)).labelled(y)
    z = np.stack([target.outputs(target.fit(x, y, np.flatnonzero(one), seed=0), x) for one in included])
    values = z if given == "logits" else special.expit(z.astype(np.float64))
    np.savez(tmp_path / "shadow.npz", outputs=values[1:], included=included[1:])
    shadows = GivenShadows.load(tmp_path / "shadow.npz", given=given, labels=LABELS)
    asked = Precomputed(values[0], given, labels=LABELS)
    own = replace(records(y, np.arange(N)), member=included[0])
    campaign = Campaign(asked, own, "one-run", ("lira_online", "loss"), shadows=Shadows(given=shadows))
    found = collect(campaign, rng=rng)
    assert auc(found, "lira_online") > 0.65  # certain trees make logits far from Gaussian
    by_hand = multi_label.member_scores(labels=y, logits=z[0])["loss"]
    inner = by_hand > -20  # beyond that probabilities have lost their digits
    rows = np.flatnonzero(inner[: len(found.evidence.scores["loss"])])
    if len(found.evidence.scores["loss"]) == N:
        np.testing.assert_allclose(found.evidence.scores["loss"][rows], by_hand[rows], rtol=1e-3)


TRAIN = """
import sys, numpy as np
from sklearn.ensemble import RandomForestClassifier
rows, seed, out = sys.argv[1:]
data = np.load("data.npz"); rows = np.load(rows)
model = RandomForestClassifier(n_estimators=10, random_state=int(seed)).fit(data["x"][rows], data["y"][rows])
p = np.stack([one[:, -1] for one in model.predict_proba(data["x"])], axis=1)
np.save(f"{out}/outputs.npy", p)
"""


@pytest.mark.long
def test_a_command_gives_probabilities_of_each_label(tmp_path: Path) -> None:
    x, y = data()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    (tmp_path / "train.py").write_text(TRAIN)
    target = CommandTarget(f"{sys.executable} train.py {{rows}} {{seed}} {{out}}", "probabilities", tmp_path)
    campaign = Campaign(target, records(y, np.arange(N)))
    assert campaign.target.kind == "multi-label"
    assert auc(collect(campaign, rng=np.random.default_rng(0))) > 0.8


CONFIG = """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier"}
data: {path: data.csv, x: [x0, x1, x2], y: [a, b, c]}
"""


def test_a_configuration_names_several_columns(tmp_path: Path) -> None:
    x, y = data()
    header = "x0,x1,x2,a,b,c"
    np.savetxt(tmp_path / "data.csv", np.c_[x[:, :3], y], delimiter=",", header=header, comments="", fmt="%.9g")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    found = read(tmp_path / "audit.yaml").collect(tmp_path, rng=np.random.default_rng(0))
    assert auc(found) > 0.8


def test_several_columns_of_a_regression() -> None:
    x, _ = data()
    values = np.random.default_rng(5).normal(size=(N, 2))
    leaking = Campaign(SklearnTarget(DecisionTreeRegressor()), records(values))
    found = collect(leaking, rng=np.random.default_rng(0))
    assert auc(found) > 0.9
    fitted = LinearRegression().fit(x[:5], values[:5])
    predicted = fitted.predict(x)
    asked = Precomputed(predicted, "predictions")
    member = np.arange(N) < 80
    scores = collect(
        Campaign(asked, replace(records(values, np.arange(N)), member=member), "one-run"), rng=np.random.default_rng(0)
    )
    np.testing.assert_allclose(scores.evidence.score, -((predicted - values) ** 2).sum(axis=1), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"attacks": ("label_only",)}, "attack.type: expected an attack on several labels, received label_only; it"),
        ({"attacks": ("shadow_classifier",), "shadows": Shadows(4)}, "received shadow_classifier"),
        ({"attacks": ("beta_ratio",), "shadows": Shadows(4)}, "received beta_ratio"),
        ({"records": records(2 * data()[1])}, "data.y: expected 0 and 1, whether a record has each label, received 2"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(changed: dict, said: str) -> None:
    target = SklearnTarget(DecisionTreeClassifier())
    with pytest.raises(InputError, match=said) as error:
        collect(Campaign(**{"target": target, "records": records(data()[1]), **changed}), rng=np.random.default_rng(0))
    assert "\n" not in str(error.value)


def test_texts_in_several_columns_are_refused() -> None:
    with pytest.raises(InputError, match=r"data\.y: expected numbers in each of several columns, received texts"):
        records(data()[1].astype(str))


def test_other_numbers_of_columns_are_refused() -> None:
    _, y = data()
    with pytest.raises(InputError, match=r"expected 3 columns, one for each label of data\.y, received 2"):
        Precomputed(np.zeros((N, 2)), "probabilities", labels=LABELS)
    whole = Precomputed(np.zeros((N, 2)))
    with pytest.raises(InputError, match="expected 3 columns"):
        Campaign(whole, records(y, np.arange(N)), "one-run")
    probabilities = Precomputed(np.full((N, 2), 0.5), "probabilities")
    with pytest.raises(InputError, match="labels: expected those that the outputs were read for"):
        Campaign(probabilities, records(y, np.arange(N)), "one-run")


def test_a_classifier_of_one_label_says_so() -> None:
    target = SklearnTarget(LogisticRegression())
    with pytest.raises(Exception, match="y should be a 1d array"):
        collect(Campaign(target, records(data()[1])), rng=np.random.default_rng(0))


def test_labels_that_a_half_lacks_are_named() -> None:
    _, y = data()
    y[:, 1] = np.arange(N) == 0
    target = SklearnTarget(RandomForestClassifier(n_estimators=2))
    found = collect(Campaign(target, records(y), shadows=Shadows(4)), rng=np.random.default_rng(0))
    (note,) = (one for one in found.notes if one.startswith("Rare labels"))
    assert re.fullmatch(r"Rare labels: [1-4] of 5 models learn no record of label 2 \(1 of 160\)\.", note)
    plain = collect(Campaign(target, records(data()[1]), shadows=Shadows(4)), rng=np.random.default_rng(0))
    assert not any("Rare" in one for one in plain.notes)


@pytest.mark.long
def test_a_multi_run_has_a_model_for_each_record() -> None:
    _, y = data()
    target = SklearnTarget(DecisionTreeClassifier())
    campaign = Campaign(target, records(y), "multi-run", ("loss", "lira_offline"), audited=60)
    found = collect(campaign, rng=np.random.default_rng(0))
    assert found.evidence.n == 60
    assert auc(found, "loss") > 0.8


@pytest.mark.long
def test_the_stability_of_training_is_measured_on_whole_vectors() -> None:
    _, y = data()
    campaign = Campaign(SklearnTarget(DecisionTreeClassifier()), records(y), "one-run", ("loss",), stability=4)
    assert collect(campaign, rng=np.random.default_rng(0)).stability is not None


@pytest.mark.thorough
@pytest.mark.long
def test_a_draw_of_a_command_is_gathered_to_the_same(tmp_path: Path) -> None:
    x, y = data(n=60)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    (tmp_path / "train.py").write_text(TRAIN)
    command = f"{sys.executable} train.py {{rows}} {{seed}} {{out}}"
    target = {"kind": "command", "command": command, "outputs": "probabilities"}
    whole = {"target": target, "data": {"path": "data.npz", "y": "y"}}
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(whole))
    config = read(tmp_path / "audit.yaml")
    here = config.collect(tmp_path, rng=np.random.default_rng(0))
    path, out = tmp_path / "audit.yaml", tmp_path / "fits"
    drawn.draw(config.campaign(tmp_path), out, config=path, rng=np.random.default_rng(0))
    subprocess.run(["bash", str(out / "commands.txt")], check=True, capture_output=True, cwd=tmp_path)
    there = drawn.gather(config.campaign(tmp_path), drawn.read(out), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(here.evidence.score, there.evidence.score)


def test_a_configuration_reads_probabilities_by_the_labels(tmp_path: Path) -> None:
    _, y = data()
    member = np.arange(N) < 80
    p = np.where(member[:, None], np.where(y == 1, 0.9, 0.1), 0.5)  # sure of members, and of nobody else
    np.save(tmp_path / "p.npy", p)
    np.savez(tmp_path / "data.npz", y=y, m=member)
    (tmp_path / "audit.yaml").write_text(
        "target: {kind: outputs, outputs_path: p.npy, given: probabilities}\n"
        "data: {path: data.npz, y: y, member: m}\nevaluation: {design: one-run}\n"
    )
    found = read(tmp_path / "audit.yaml").collect(tmp_path, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.evidence.score, np.where(member, 3 * np.log(0.9), 3 * np.log(0.5)), rtol=1e-5)
