"""The sections of target, data and shadow: the same options as the records that they stand for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from miaudit.target_config import DataSection, PrivateSection, ShadowSection, SmallGPT2Section, TargetSection
from miaudit.target_config import TrainingSection as Training


def defaults(record: Any) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(record)}


def test_training_has_the_options_of_the_library() -> None:
    pytest.importorskip("torch")
    from miaudit.models.private import Private
    from miaudit.models.train_config import TrainConfig

    assert {name: field.default for name, field in Training.model_fields.items()} == defaults(TrainConfig)
    assert set(PrivateSection.model_fields) == set(defaults(Private))


def test_the_small_language_model_has_the_options_of_the_library() -> None:
    pytest.importorskip("transformers")
    from miaudit.models.text import SmallGPT2

    found = {name: field.default for name, field in SmallGPT2Section.model_fields.items() if name != "vocabulary"}
    assert found == defaults(SmallGPT2)


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


def test_options_for_shadows_are_passed_on(tmp_path: Path) -> None:
    section = ShadowSection.model_validate(
        {"models": 4, "store": "s", "executor": "ray", "address": "head:6379", "workers": 3}
    )
    found = section.options(tmp_path)
    assert (found.models, found.store, found.executor, found.workers) == (4, tmp_path / "s", "ray:head:6379", 3)
    for wrong in ({"models": 5}, {"models": -2}, {"workers": 0}, {"store": ""}, {"seconds_per_fit": -1}):
        with pytest.raises(ValidationError):
            ShadowSection.model_validate(wrong)
    with pytest.raises(ValidationError):
        DataSection.model_validate({"x": "x"})
