from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC
from torch import nn

from miaudit.errors import InputError
from miaudit.models.fitted import ask, class_numbers

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
CLASSES = np.arange(20) % 2
TEXTS = np.array(["no", "yes"])[CLASSES]
HALF = 1 / (1 + np.exp(-X[:, 0]))


@pytest.mark.parametrize(
    ("values", "y", "kind"),
    [
        (np.stack([HALF, 1 - HALF], axis=1), CLASSES, "probabilities"),
        (X[:, :2], CLASSES, "logits"),
        (HALF, CLASSES, "probabilities"),  # of the second class
        (HALF[:, None], TEXTS, "probabilities"),
        (CLASSES, CLASSES, "labels"),
        (CLASSES.astype(float), CLASSES, "labels"),
        (TEXTS, TEXTS, "labels"),
        (X[:, 0], X[:, 1], "predictions"),
        (X[:, 0], np.arange(20), "predictions"),
    ],
)
def test_outputs_tell_what_they_are(values: np.ndarray, y: np.ndarray, kind: str) -> None:
    assert ask(lambda _: values, X, y).kind == kind


def test_one_column_that_could_be_two_things_is_asked_about() -> None:
    with pytest.raises(InputError, match='say outputs="logits"'):
        ask(lambda x: x[:, 0], X, CLASSES)
    said = ask(lambda x: x[:, 0], X, CLASSES, outputs="logits")
    np.testing.assert_allclose(said.values[:, 1] - said.values[:, 0], X[:, 0], rtol=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_network_is_asked_in_evaluation_mode_and_left_as_it_was(kind: torch.dtype) -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).to(kind).train()
    first, second = (ask(net, X, CLASSES).values for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert net.training


def test_parts_give_what_all_at_once_gives() -> None:
    sizes: list[int] = []

    def model(x: Any) -> Any:
        sizes.append(len(x))
        return x[:, :2]

    np.testing.assert_array_equal(ask(model, X, CLASSES, batch=8).values, X[:, :2])
    assert sizes == [8, 8, 4]


def test_labels_are_matched_to_columns() -> None:
    assert class_numbers(TEXTS, np.array(["yes", "no"]), 2).tolist() == (1 - CLASSES).tolist()
    assert class_numbers(np.array([5, 9]), None, 2).tolist() == [0, 1]
    assert class_numbers(np.array([0, 2]), None, 4).tolist() == [0, 2]
    with pytest.raises(InputError, match="a label for each column"):
        class_numbers(TEXTS, np.array(["yes"]), 2)


# -- decisions between pairs of classes --------------------------------------------------------------------------------

_DRAWS = np.random.default_rng(2)
MANY = {classes: np.arange(90) % classes for classes in (3, 4)}
FEATURES = _DRAWS.normal(size=(90, 4))


def _wrapped(kind: str, **options: Any) -> Any:
    machine = NuSVC(nu=0.1, **options) if kind == "nu" else SVC(**options)
    piped = make_pipeline(StandardScaler(), machine)
    grid = {"svc__C": [2.0]}
    return {"pipeline": piped, "search": GridSearchCV(piped, grid, cv=2)}.get(kind, machine)


@pytest.mark.parametrize("classes", [3, 4])
@pytest.mark.parametrize("kind", ["alone", "nu", "pipeline", "search"])
def test_votes_of_a_support_vector_machine_become_scores_of_classes(kind: str, classes: int) -> None:
    y = MANY[classes]
    votes = _wrapped(kind, decision_function_shape="ovo").fit(FEATURES, y)
    scores = _wrapped(kind, decision_function_shape="ovr").fit(FEATURES, y)
    said = ask(votes, FEATURES, y)
    np.testing.assert_allclose(said.values, scores.decision_function(FEATURES), atol=1e-9)
    assert said.how.endswith("whose one-against-one votes were counted by class")
    assert "votes" not in ask(scores, FEATURES, y).how


def test_votes_of_a_function_are_named() -> None:
    votes = SVC(decision_function_shape="ovo").fit(FEATURES, MANY[4]).decision_function(FEATURES)
    with pytest.raises(InputError, match="may be decisions between pairs of classes: return a score of each class"):
        class_numbers(np.array(list("abcd"))[MANY[4]], None, votes.shape[1])
