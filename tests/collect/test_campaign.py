"""Attacks and targets of one's own: looked up when used, and never guessed from the names of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from miaudit.attacks import label_only, registry
from miaudit.collect import outputs as from_outputs
from miaudit.collect import run_campaign
from miaudit.collect.campaign import Campaign, Shadows, known
from miaudit.collect.records import Records
from miaudit.command.program import app
from miaudit.defences.outputs import LabelOnly
from miaudit.defences.trial import Trial, measure
from miaudit.errors import InputError
from miaudit.models import protocol
from miaudit.models.targets import Precomputed, SklearnTarget


@pytest.fixture(autouse=True)
def _attacks_as_before() -> Iterator[None]:
    before = dict(registry.ATTACKS)
    yield
    registry._ATTACKS.clear()
    registry._ATTACKS.update(before)


def noise(n: int = 80, **fields: Any) -> Records:
    rng = np.random.default_rng(3)
    return Records(rng.normal(size=(n, 4)), rng.integers(0, 2, n), fields.pop("member", None), fields, "noise")


def collected(made: Campaign) -> Any:
    return run_campaign.collect(made, rng=np.random.default_rng(0))


class Nearest:
    """A target that nobody derived from anything: it answers by the record that it learned and that is nearest."""

    name, kind, runs_user_code = "nearest", "logits", True

    def identity(self) -> str:
        return "nearest"

    def fit(self, x: Any, y: Any, rows: Any, *, seed: int) -> Any:
        return x[rows], y[rows]

    def outputs(self, fitted: Any, x: Any) -> Any:
        distance = ((x[:, None] - fitted[0][None]) ** 2).sum(2)
        nearest = distance.argmin(axis=1)
        sure = 5 - np.minimum(distance.min(axis=1), 10)
        return np.where(np.arange(2) == fitted[1][nearest][:, None], sure[:, None], 0).astype(np.float32)


# -- attacks ---------------------------------------------------------------------------------------------------------


def twice(target: Any) -> Any:
    return 2 * np.asarray(target)


def test_an_attack_is_known_from_its_registration_on() -> None:
    made = Campaign(Nearest(), noise(), attacks=("twice", "logit_confidence"))
    with pytest.raises(InputError, match=r"attack\.type: .*'twice'"):
        collected(made)
    registry.register("twice", twice, "target", "twice the statistic")
    scores = collected(made).evidence.scores
    np.testing.assert_allclose(scores["twice"], 2 * scores["logit_confidence"], rtol=1e-6)
    assert "twice" in known()
    runs = Campaign(Nearest(), noise(40), design="multi-run", audited=6, attacks=("twice", "logit_confidence"))
    scores = collected(runs).evidence.scores
    np.testing.assert_allclose(scores["twice"], 2 * scores["logit_confidence"], rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.long
def test_a_configuration_file_knows_a_registered_attack(tmp_path: Path) -> None:
    registry.register("difference", lambda t, s: np.asarray(t) - s.mean(axis=1), "target shadow", "above the shadows")
    data = noise()
    np.savez(tmp_path / "data.npz", x=data.x, y=data.y)
    (tmp_path / "audit.yaml").write_text(
        "target: {kind: sklearn, estimator: 'sklearn.tree:DecisionTreeClassifier'}\n"
        "data: {path: data.npz, x: x, y: y}\nshadow: {models: 2}\nattack: {type: difference}\n"
        "evaluation: {output_dir: out}\n"
    )
    found = CliRunner().invoke(app, ["run", str(tmp_path / "audit.yaml")])
    assert found.exit_code in (0, 3, 4), found.output
    assert '"difference"' in next(tmp_path.rglob("findings.json")).read_text()


def test_what_an_attack_is_comes_from_its_registration_and_not_from_its_name() -> None:
    """Names that begin as those of the likelihood ratios: they need neither four models nor a Gaussian."""
    registry.register("lira_of_my_own", lambda t, s: np.asarray(t) - s.mean(axis=1), "target shadow", "mine")
    registry.register("rmia_of_my_own", twice, "target", "mine too")
    made = Campaign(Nearest(), noise(), attacks=("lira_of_my_own", "rmia_of_my_own"), shadows=Shadows(models=2))
    found = collected(made)
    assert {"lira_of_my_own", "rmia_of_my_own"} <= set(found.evidence.scores)
    assert not any("LiRA" in note for note in found.notes)
    registry.register("four", lambda t, s: np.asarray(t) - s.mean(axis=1), "target shadow", "of four", least_models=4)
    with pytest.raises(InputError, match=r"shadow\.models: expected 4 or more, for four"):
        collected(Campaign(Nearest(), noise(), attacks=("four",), shadows=Shadows(models=2)))


@pytest.mark.parametrize("wrong", [lambda t: np.asarray(t)[:-1], lambda t: np.asarray(t)[:, None], lambda _: None])
def test_scores_of_another_shape_are_refused_by_the_attacks_name(wrong: Any) -> None:
    registry.register("wrong", wrong, "target", "of another shape")
    with pytest.raises(InputError, match="scores of wrong: expected one score for each of 80 records"):
        collected(Campaign(Nearest(), noise(), attacks=("wrong",)))


@pytest.mark.parametrize("name", [*from_outputs.of_outputs(), *registry.ATTACKS, "", None])
def test_a_name_that_is_taken_is_refused(name: Any) -> None:
    with pytest.raises(InputError, match="name: expected"):
        registry.register(name, twice, "target", "again")


def test_an_attack_is_registered_once_and_the_first_one_stays() -> None:
    registry.register("once", twice, "target", "once")
    with pytest.raises(InputError, match="a new name, received 'once'"):
        registry.register("once", lambda target: -target, "target", "another")
    assert registry.get("once").function is twice
    with pytest.raises(InputError, match="function"):
        registry.register("nothing", 3.0, "target", "no function")  # type: ignore[arg-type]


# -- targets ---------------------------------------------------------------------------------------------------------

OWN = {
    "weights": [0.5, 0.5],
    "columns": ["age", "income"],
    "notes": "a text and no list of notes",
    "explained": 0.83,
    "stands": True,
    "by_row": True,
    "store": {"a": 1},
    "estimator": None,
    "values": "prices",
}


@pytest.mark.long
@pytest.mark.parametrize("name", OWN)
def test_an_attribute_of_a_targets_own_means_nothing(name: str) -> None:
    """Its evidence is that of the same target without the attribute, copies and shadow models included."""
    data = noise()
    copies = data.x[:, None] + 0.1 * np.random.default_rng(1).normal(size=(80, 3, 4))
    attacks = ("label_only", "lira_offline")
    target = Nearest()
    setattr(target, name, OWN[name])
    plain, own = (
        collected(Campaign(one, data, attacks=attacks, shadows=Shadows(models=4), copies=copies))
        for one in (Nearest(), target)
    )
    for attack in attacks:
        np.testing.assert_array_equal(own.evidence.scores[attack], plain.evidence.scores[attack])
    assert own.notes == plain.notes
    comparisons = [
        measure(
            Trial(one, data, Shadows(models=4), defences={"label": LabelOnly()}), rng=np.random.default_rng(0)
        ).measured[0].leakage["auc"].value
        for one in (Nearest(), target)
    ]  # fmt: skip
    assert comparisons[0] == comparisons[1]


class Fixed:
    """A model that stands as it is and answers any record; its goodness of fit is no method."""

    name, kind, runs_user_code = "fixed", "logits", True
    fit, fit_many = 0.93, 12

    def identity(self) -> str:
        return "fixed"

    def outputs(self, fitted: Any, x: Any) -> Any:
        return np.column_stack([x[:, 0], -x[:, 0]]).astype(np.float32)


@pytest.mark.parametrize("name", OWN)
def test_an_attribute_of_a_model_that_stands_means_nothing_either(name: str) -> None:
    data = noise(member=np.arange(80) % 2 == 0)
    plain, own = Fixed(), Fixed()
    plain.kind = own.kind = "signals"
    setattr(own, name, OWN[name])
    found = [collected(Campaign(one, data, columns=("up", "down"))) for one in (plain, own)]
    assert list(found[1].evidence.scores) == ["up", "down"]
    np.testing.assert_array_equal(found[1].evidence.scores["up"], found[0].evidence.scores["up"])
    assert found[1].notes == found[0].notes


def test_a_number_called_fit_makes_no_target_trainable() -> None:
    data = noise(member=np.arange(80) % 2 == 0)
    made = Campaign(Fixed(), data, attacks=("loss",))
    assert made.stands
    assert len(collected(made).evidence.scores["loss"]) == 80
    with pytest.raises(InputError, match=r"target: expected one that can be trained, for shadow models.*fixed"):
        collected(Campaign(Fixed(), data, attacks=("lira_offline",), shadows=Shadows(models=4)))


def test_a_model_that_stands_is_asked_about_copies() -> None:
    """Only outputs that are stored cannot be: the copies then are what somebody wrote down of them."""
    data = noise(member=np.arange(80) % 2 == 0)
    copies = data.x[:, None] + np.random.default_rng(1).normal(size=(80, 3, 4))
    asked = collected(Campaign(Fixed(), data, attacks=("label_only",), copies=copies)).evidence.scores["label_only"]
    said = np.concatenate([data.x[:, None], copies], axis=1)[:, :, 0] < 0
    np.testing.assert_allclose(asked, label_only.score(said == np.asarray(data.y)[:, None]))


class Stating(Fixed, protocol.Traits):
    """A target that derives from Traits and so states what it can do."""

    kind = "signals"
    stands, columns, notes = True, ("sure", "unsure"), ("Said by the target.",)

    def fit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a model that says that it stands is not fitted")


def test_what_a_target_states_by_deriving_from_traits_holds() -> None:
    data = noise(member=np.arange(80) % 2 == 0)
    found = collected(Campaign(Stating(), data))
    assert list(found.evidence.scores) == ["sure", "unsure"]
    assert "Said by the target." in found.notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "a text as name"),
        ({"kind": "logit"}, "logits or predictions or signals or multi-label as kind"),
        ({"runs_user_code": "no"}, "true or false as runs_user_code"),
        ({"identity": "text"}, r"a method identity\(\)"),
        ({"outputs": np.zeros((80, 2))}, r"a method outputs\(fitted, x\)"),
    ],
)
def test_what_is_no_target_is_refused_by_the_part_that_is_missing(change: dict[str, Any], words: str) -> None:
    target = Nearest()
    for name, value in change.items():
        setattr(target, name, value)
    with pytest.raises(InputError, match=f"target: expected an object with name.*without {words}"):
        Campaign(target, noise())
    with pytest.raises(InputError, match=f"target: expected an object with name.*without {words}"):
        Trial(target, noise())


@pytest.mark.parametrize("other", [DecisionTreeClassifier(), Nearest, np.zeros((80, 2)), None])
def test_an_estimator_or_a_class_is_no_target(other: Any) -> None:
    with pytest.raises(InputError, match="target: expected an object with name"):
        Campaign(other, noise())


def test_our_own_targets_are_targets() -> None:
    tree = SklearnTarget(DecisionTreeClassifier())
    assert protocol.can_be_trained(tree) and not protocol.stands(tree)
    stored = Precomputed(np.zeros((3, 2)))
    assert protocol.stands(stored) and protocol.traits_of(stored).by_row


@pytest.mark.parametrize(
    ("fields", "more", "message"),
    [
        ({}, {}, "data.member"),
        ({"member": np.arange(80) < 40, "unit": np.arange(80) % 40}, {"shadows": Shadows(models=2)}, "shadow.models"),
        ({"member": np.arange(80) < 40}, {}, "data.unit"),
    ],
)
def test_candidates_are_scored_by_one_model_and_know_their_records(
    fields: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    made = Campaign(Nearest(), noise(**fields), design="matched", attacks=("logit_confidence",), **more)
    with pytest.raises(InputError, match=message):
        made.checked_design()
