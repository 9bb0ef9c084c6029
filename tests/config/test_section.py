"""Sections of a configuration file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit import errors
from miaudit.config import section
from miaudit.config.audit import AuditConfig, CampaignConfig
from miaudit.errors import extras


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("evaluation", "seed", True),
        ("evaluation", "components", True),
        ("attack", "n_bootstrap", False),
        ("attack", "fpr_targets", [0.1, True]),
        ("reporting", "row_level", True),
        ("reporting", "threshold_for_concern", True),
        ("reporting", "raw_only", 1),
        ("reporting", "raw_only", "yes"),
        ("privacy", "delta", False),
        ("privacy", "margin", True),
        ("privacy", "bounds", 0),
    ],
)
def test_true_is_no_number_and_a_number_is_not_true(where: str, key: str, value: object) -> None:
    content: dict[str, dict[str, object]] = {"evaluation": {"table_path": "t.npz", "design": "zero-run"}}
    content.setdefault(where, {})[key] = value
    with pytest.raises(ValueError, match=r"expected (a number|true or false), received"):
        AuditConfig.model_validate(content)


def test_a_file_names_all_extras_that_it_needs_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent = ("torch", "ray")
    there = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in absent else there(name))
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 2)), y=np.arange(4) % 2)
    content: dict[str, Any] = {
        "target": {"kind": "torch", "factory": "miaudit.models.nets:mlp", "options": {"inputs": 2, "classes": 2}},
        "data": {"path": "a.npz", "x": "x", "y": "y"},
        "shadow": {"models": 2, "executor": "ray"},
        "privacy": {"mechanism": {"kind": "dp-sgd", "records": 100, "batch": 10, "noise": 1.0, "epochs": 2}},
    }
    with pytest.raises(errors.InputError, match=r"without ray, torch; pip install '.*\[ray,torch\]'"):
        section.validated(content, CampaignConfig, tmp_path / "run.yaml")
    content["privacy"] = {"mechanism": {"kind": "gaussian", "noise": 1.0}}  # a closed form needs no accountant
    del content["shadow"]["executor"]
    with pytest.raises(errors.InputError, match=r"without torch; pip install '.*\[torch\]'"):
        section.validated(content, CampaignConfig, tmp_path / "run.yaml")
    content["target"] = {"kind": "sklearn", "estimator": "sklearn.svm:SVC"}
    assert section.validated(content, CampaignConfig, tmp_path / "run.yaml").target.kind == "sklearn"
