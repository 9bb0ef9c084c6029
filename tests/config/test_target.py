"""The sections of target, data and shadow: the same options as the records that they stand for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import ValidationError

from miaudit.config import audit, disclosure
from miaudit.config.audit import CampaignConfig
from miaudit.config.data_section import DataSection
from miaudit.config.section import keys_of, missing, problems
from miaudit.config.shadow_section import ShadowSection
from miaudit.config.target import _BUILT_IN, SMALL_GPT2, TRAINING, SklearnSection, TargetSection, register
from miaudit.errors import ConfigError, InputError
from miaudit.jobs.executor import Local, Ray
from miaudit.jobs.resources import Resources
from miaudit.models.targets import Precomputed
from miaudit.models.train_config import EarlyStopping, Private, Pruning, SmallGPT2, TrainConfig


def torch_section(training: dict[str, Any]) -> Any:
    content = {"kind": "torch", "factory": "miaudit.models.nets:mlp", "options": {"inputs": 3, "classes": 2}}
    return TargetSection.model_validate({**content, "training": training})


def test_training_has_the_options_of_the_library() -> None:
    assert set(TRAINING.kinds) == {f.name for f in dataclasses.fields(TrainConfig)}
    for record in (Private, EarlyStopping, Pruning):
        assert set(keys_of(record)) == {f.name for f in dataclasses.fields(record)}


def test_training_is_built_with_what_it_holds(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert torch_section({}).build(tmp_path).config == TrainConfig()
    given = {"epochs": 3, "input_noise": 0.1, "early_stopping": {"share": 0.2}}
    expected = TrainConfig(epochs=3, input_noise=0.1, early_stopping=EarlyStopping(0.2))
    assert torch_section(given).build(tmp_path).config == expected
    assert torch_section({"pruning": {"sparsity": 0.8}}).training["pruning"] == Pruning(0.8)
    assert torch_section({"early_stopping": {}}).training["early_stopping"] == EarlyStopping()
    with pytest.raises(ValidationError, match="early_stopping: expected none beside pruning"):
        torch_section({"early_stopping": {}, "pruning": {"sparsity": 0.8}})
    for wrong in ({"pruning": {}}, {"pruning": {"sparsity": 1.0}}, {"early_stopping": {"patience": 0}}):
        with pytest.raises(ValidationError):
            torch_section(wrong)


@pytest.mark.long
def test_the_small_language_model_has_the_options_of_the_library() -> None:
    assert set(SMALL_GPT2.kinds) == {"vocabulary", *(f.name for f in dataclasses.fields(SmallGPT2))}


def test_a_network_with_dp_sgd_is_built_as_it_is_described(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    section = TargetSection.model_validate(
        {
            "kind": "torch",
            "factory": "miaudit.models.nets:mlp",
            "options": {"inputs": 3, "classes": 2, "hidden": [4]},
            "training": {"batch": 8, "epochs": 2, "private": {"noise": 1, "clip": 1, "delta": 0.01, "records": 20}},
        }
    )
    target: Any = section.build(tmp_path)
    assert (target.config.batch, target.config.private.records) == (8, 20)
    fitted = target.fit(np.zeros((20, 3)), np.arange(20) % 2, np.arange(10), seed=0)
    assert target.outputs(fitted, np.zeros((5, 3))).shape == (5, 2)


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"kind": "sklearn", "estimator": "sklearn.svm:SVC"}, ""),
        ({"kind": "sklearn", "estimator": "xgboost:XGBClassifier"}, "xgboost:XGBClassifier"),
        ({"kind": "torch", "factory": "miaudit.models.nets:mlp"}, ""),
        ({"kind": "torch", "factory": "sklearn.datasets:fetch_openml"}, "sklearn.datasets:fetch_openml"),
        ({"kind": "torch-weights", "factory": "own:net", "weights": "w.pt"}, "own:net"),
        ({"kind": "language-model", "folder": "m"}, ""),
    ],
)
def test_code_that_came_with_the_model_is_named(named: dict[str, str], code: str) -> None:
    assert TargetSection.model_validate(named).user_code == code


def test_folders_that_are_missing_are_named_and_base_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    named = {"kind": "language-model", "folder": "m", "base": "b", "reference": "r"}
    for change, lacking in (({}, ["target.base", "target.reference"]), ({"base": "m", "reference": "base"}, [])):
        section = TargetSection.model_validate({**named, **change})
        found = [line.partition(":")[0] for line in missing(section, tmp_path, "target.")]
        assert found == lacking
    other = TargetSection.model_validate({"kind": "text-classifier", "folder": "gone"})
    assert [line.partition(":")[0] for line in missing(other, tmp_path, "target.")] == ["target.folder"]
    assert other.classifies and other.user_code == ""


PIPELINE = """
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
def build(C=1.0): return make_pipeline(StandardScaler(), LogisticRegression(C=C))
def nothing(): return LogisticRegression
def broken(): raise ValueError("no")
class Plain: pass
"""


def test_an_estimator_comes_from_a_class_or_from_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_pipeline.py").write_text(PIPELINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made: Any = SklearnSection(kind="sklearn", estimator="own_pipeline:build", options={"C": 3.0}).build(tmp_path)
    assert made.estimator.get_params()["logisticregression__C"] == 3.0
    assert made.kind == "logits"
    for wrong, words in {
        "own_pipeline:nothing": r"which is none \(it returns \w+\)",
        "own_pipeline:broken": "which is none .*ValueError: no",
        "own_pipeline:Plain": "which is none; sklearn",
        "sklearn.datasets:load_iris": "which is none; sklearn",  # a function of scikit-learn is never called
    }.items():
        with pytest.raises(InputError, match=f"or a function that returns an estimator.*{words}"):
            SklearnSection(kind="sklearn", estimator=wrong).build(tmp_path)


def test_options_for_shadows_are_passed_on(tmp_path: Path) -> None:
    section = ShadowSection.model_validate(
        {"models": 4, "store": "s", "executor": "ray", "address": "head:6379", "workers": 3}
    )
    found = section.options(tmp_path)
    assert (found.models, found.store, found.executor, found.workers) == (
        4,
        tmp_path / "s",
        Ray("head:6379", 3, folder=tmp_path),
        3,
    )
    assert found.keep == "outputs"
    assert ShadowSection.model_validate({"models": 4, "keep": "signal"}).options(tmp_path).keep == "signal"
    with pytest.raises(ValidationError, match="'outputs' or 'signal'"):
        ShadowSection.model_validate({"models": 4, "keep": "signals"})
    given = {"threads": 2, "gpus": 0.5, "timeout": 60.0, "retries": 1}
    section = ShadowSection.model_validate({"models": 4, "workers": 2, **given})
    assert section.options(tmp_path).executor == Local(2, Resources(**given))
    section = ShadowSection.model_validate({"models": 4, "executor": "ray", "cpus": 2, "memory": 4, **given})
    assert section.options(tmp_path).executor == Ray("", 1, Resources(cpus=2, memory=4, **given), tmp_path)
    with pytest.raises(ValidationError, match=r"gpus: expected a whole number, or a share below 1, received 1.5"):
        ShadowSection.model_validate({"models": 4, "gpus": 1.5})
    with pytest.raises(ValidationError, match="expected executor: ray beside memory, received local"):
        ShadowSection.model_validate({"models": 4, "memory": 4})
    for wrong in (
        {"models": 5},
        {"models": -2},
        {"workers": 0},
        {"store": ""},
        {"seconds_per_fit": -1},
        {"threads": 0},
    ):
        with pytest.raises(ValidationError):
            ShadowSection.model_validate(wrong)
    with pytest.raises(ValidationError):
        DataSection.model_validate({"x": "x"})


def test_outputs_of_shadow_models_are_read_and_said_to_be_what_they_are(tmp_path: Path) -> None:
    signals = -np.random.default_rng(0).exponential(size=(4, 6))  # minus the loss
    np.savez(tmp_path / "s.npz", signals=signals, included=np.arange(24).reshape(4, 6) % 2 == 0)
    section = ShadowSection.model_validate({"outputs_path": "s.npz", "signal": "loss", "vulnerability": False})
    options = section.options(tmp_path)
    assert options.given is not None
    assert (options.given.outputs.kind, options.count, options.models) == ("loss", 4, 0)
    assert options.vulnerability is False
    assert ShadowSection().options(tmp_path).vulnerability is None
    assert not list(missing(section, tmp_path))
    (line,) = missing(ShadowSection.model_validate({"outputs_path": "other.npz"}), tmp_path, "shadow.")
    assert line.startswith("shadow.outputs_path: expected an existing file, received other.npz")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"outputs_path": "s.npz", "models": 4}, "outputs_path or models, received both"),
        ({"given": "probabilities"}, "expected outputs_path beside given"),
        ({"signal": "loss"}, "expected outputs_path beside signal"),
        ({"vulnerability": True}, "expected shadow models beside vulnerability"),
    ],
)
def test_shadow_keys_that_do_not_go_together(content: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ShadowSection.model_validate(content)


def test_copies_are_one_array_and_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "copies.npy", np.zeros((5, 2, 3)))
    section = DataSection.model_validate({"path": "d.npz", "x": "x", "copies": "copies.npy"})
    assert section.load_copies(tmp_path).shape == (5, 2, 3)
    (line,) = missing(section, tmp_path, "data.")  # the data themselves
    assert line.startswith("data.path")
    np.save(tmp_path / "copies.npy", np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"data\.copies"):
        section.load_copies(tmp_path)
    assert DataSection.model_validate({"path": "d.npz", "x": "x"}).load_copies(tmp_path) is None


class Constant(TargetSection):
    """A kind of somebody else's."""

    kind: Literal["constant"]
    value: float

    def build(self, base: Path) -> Any:
        """Outputs that are all the same."""
        return Precomputed(np.full((3, 2), self.value))


def test_a_kind_of_somebody_else_is_registered_and_refused_in_the_same_words(tmp_path: Path) -> None:
    register(Constant)
    try:
        section = TargetSection.model_validate({"kind": "constant", "value": 1})
        assert section.build(tmp_path).outputs(None, np.arange(3)).tolist() == [[1.0, 1.0]] * 3
        content = {"target": {"kind": "constant", "value": 1, "weights": "w"}, "data": {"path": "d.npz"}}
        with pytest.raises(ValidationError) as caught:
            CampaignConfig.model_validate(content)
        expected = "target: expected keys of kind constant (value), received weights; remove it"
        assert list(problems(caught.value, CampaignConfig)) == [expected]
    finally:
        del _BUILT_IN["constant"]
        register(SklearnSection)  # forgets the kinds as they were


@pytest.mark.parametrize("read", [audit.read, disclosure.read])
def test_a_model_of_columns_is_not_trained_on_row_numbers(read: Any, tmp_path: Path) -> None:
    tree = {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"}
    (tmp_path / "people.csv").write_text("age,city,income,defaulted\n30,0,1.5,1\n40,1,2.5,0\n")
    data = {"path": "people.csv", "y": "defaulted", "group": "city"}
    (tmp_path / "c.yaml").write_text(json.dumps({"target": tree, "data": data}))
    with pytest.raises(ConfigError, match=r"data\.x: expected the columns that the model reads, received none"):
        read(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text(json.dumps({"target": tree, "data": {**data, "x": "*"}}))
    told = read(tmp_path / "c.yaml").data.features(tmp_path)
    assert told == "the model reads age, income; not city, defaulted, named as something else"
    many = DataSection(path="people.csv", x=[f"x{i}" for i in range(11)])
    assert many.features(tmp_path).endswith("x6, x7 and 3 more")
    assert DataSection(path="people.csv", text="note").features(tmp_path) == ""
