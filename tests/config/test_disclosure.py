"""The configuration of ``miaudit disclosure``: what it becomes, and how it says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.config import disclosure as disclosure_config
from miaudit.defences.ensemble import Ensemble, Stack
from miaudit.defences.label_sets import ConformalSet
from miaudit.defences.laplace import LastLayerLaplace
from miaudit.defences.outputs import Rounding
from miaudit.defences.swag import Swag
from miaudit.errors import ConfigError, InputError
from miaudit.models.train_config import Adversarial

BASE = """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier", options: {min_samples_leaf: 3}}
data: {path: d.npz, x: x, y: y}
shadow: {models: 8}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(40, 2)), y=np.arange(40) % 2, p=np.full((40, 2), 0.5))
    return tmp_path


def read(place: Path, text: str) -> disclosure_config.DisclosureConfig:
    (place / "c.yaml").write_text(text)
    return disclosure_config.read(place / "c.yaml")


def test_everything_becomes_a_trial(place: Path) -> None:
    config = read(
        place,
        BASE
        + """
disclosure:
  release: label
  defences: [label, {rounding: {digits: 3}}, {conformal: {coverage: 0.8}}]
  trainings:
    shallow: {options: {max_depth: 2}}
    other: {estimator: "sklearn.naive_bayes:GaussianNB"}
    parts: {ensemble: {models: 3, parts: disjoint}}
    stacked: {stack: {models: 2}, options: {max_depth: 3}}
  calibration: {records: 12}
  queries: 5
  tolerance: 0.1
reporting: {primary_metric: tpr_at_fpr_0.1}
evaluation: {seed: 3}
""",
    )
    trial = config.trial(place)
    measures = ["as-it-is", "label", "rounding(digits=3)", "conformal(coverage=0.8)"]
    assert trial.names() == [*measures, "shallow", "other", "parts", "stacked"]
    assert trial.defences["rounding(digits=3)"] == Rounding(3)
    assert trial.defences["conformal(coverage=0.8)"] == ConformalSet(0.8)
    shallow = trial.trainings["shallow"].estimator.get_params()
    assert (shallow["max_depth"], shallow["min_samples_leaf"]) == (2, 3)  # what is not named stays
    assert trial.trainings["other"].name == "GaussianNB"
    assert isinstance(trial.trainings["parts"], Ensemble)
    assert isinstance(trial.trainings["stacked"], Stack)
    assert trial.trainings["stacked"].base.estimator.max_depth == 3
    assert (trial.calibration, trial.queries, trial.shadows.models) == (12, 5, 8)


def test_the_usual_measures_where_none_are_named(place: Path) -> None:
    config = read(place, BASE)
    assert len(config.trial(place).defences) == len(disclosure_config.USUAL)
    assert config.disclosure.release == "as-it-is"
    empty = read(place, BASE + "disclosure: {defences: []}\nreporting:\n")
    assert empty.trial(place).names() == ["as-it-is"]


def test_torch_trainings_change_what_they_name() -> None:
    change = disclosure_config.ChangeSection.model_validate({"training": {"label_smoothing": 0.1}})
    base = disclosure_config.TargetSection.model_validate(
        {"kind": "torch", "factory": "a:b", "weights": "w.pt", "training": {"epochs": 3, "label_smoothing": 0.0}}
    )
    changed = change.target(base)
    assert changed.training is not None
    assert (changed.training["epochs"], changed.training["label_smoothing"], changed.weights) == (3, 0.1, None)
    fixed = disclosure_config.TargetSection.model_validate(
        {"kind": "torch-weights", "factory": "a:b", "weights": "w.pt"}
    )
    assert change.target(fixed).kind == "torch"


def test_a_bayesian_last_layer_and_adversarial_samples_of_a_network(place: Path) -> None:
    pytest.importorskip("torch")
    text = """
target: {kind: torch, factory: "miaudit.models.nets:mlp", options: {inputs: 2, classes: 2}, training: {epochs: 1}}
data: {path: d.npz, x: x, y: y}
shadow: {models: 8}
disclosure:
  trainings:
    Bayesian: {bayesian: {draws: 3, curvature: full, prior_precision: 2.0}, training: {batch: 7}}
    path: {swag: {draws: 2, epochs: 4, rank: 3, learning_rate: 0.01}}
    moved: {training: {adversarial: {radius: 0.5, steps: 3}}}
"""
    trainings = read(place, text).trial(place).trainings
    bayesian = trainings["Bayesian"]
    assert isinstance(bayesian, LastLayerLaplace)
    assert (bayesian.draws, bayesian.curvature, bayesian.prior_precision) == (3, "full", 2.0)
    assert (bayesian.base.config.batch, bayesian.base.config.epochs) == (7, 1)
    path = trainings["path"]
    assert isinstance(path, Swag)
    assert (path.draws, path.epochs, path.rank, path.learning_rate) == (2, 4, 3, 0.01)
    assert trainings["moved"].config.adversarial == Adversarial(0.5, 3)
    assert trainings["moved"].config.epochs == 1


def test_given_outputs(place: Path) -> None:
    text = """
target: {kind: outputs, outputs_path: d.npz, columns: [p], given: probabilities}
data: {path: d.npz, y: y, member: y}
shadow: {models: 0}
disclosure: {given: {memguard: {outputs_path: d.npz, columns: [p]}}}
"""
    trial = read(place, text).trial(place)
    assert trial.stands
    assert list(trial.given) == ["memguard"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("disclosure: {defences: [temprature]}", "did you mean temperature"),
        (
            "disclosure: {defences: [{rounding: {digit: 1}}]}",
            "disclosure.defences.rounding: expected options of rounding",
        ),
        ("disclosure: {defences: [{rounding: 1}]}", "write rounding: {digits: 1}"),
        ("disclosure: {defences: temperature}", "expected a list"),
        ("disclosure: {defences: [{conformal: {coverage: 2}}]}", r"a number in \(0, 1\), received 2"),
        ("disclosure: {defences: [label, label]}", "received label twice"),
        ("disclosure: {trainings: {label: {options: {max_depth: 1}}}}", "received label twice; rename it"),
        (
            "disclosure: {trainings: {a: {}}}",
            "expected options, training, estimator, factory, ensemble, stack, bayesian, swag or synthetic",
        ),
        ("disclosure: {trainings: {a: {ensemble: {}, stack: {}}}}", "received ensemble and stack; make two"),
        ("disclosure: {trainings: {a: {bayesian: {}, stack: {}}}}", "received stack and bayesian; make two"),
        ("disclosure: {trainings: {a: {bayesian: {}}}}", r"expected a network \(kind: torch\) as target for a"),
        ("disclosure: {trainings: {a: {swag: {}}}}", r"expected a network \(kind: torch\) as target for a"),
        ("disclosure: {trainings: {a: {swag: {epochs: 1}}}}", "trainings.a.swag.epochs"),
        ("disclosure: {trainings: {a: {bayesian: {draws: 0}}}}", "trainings.a.bayesian.draws"),
        ("disclosure: {trainings: {a: {training: {epochs: 3}}}}", "trainings.a: .*remove it"),
        ("disclosure: {release: labels}", "did you mean label"),
        ("disclosure: {queries: 0}", "disclosure.queries"),
        ("disclosure: {quries: 2}", "unknown key; did you mean queries"),
        ("disclosure: {calibration: {source: members}}", "disclosure.calibration.source"),
        (
            "reporting: {primary_metric: tpr_at_fpr_0.5}",
            "reporting.primary_metric: expected one of .*, received 'tpr_at_fpr_0.5'",
        ),
        ("privacy: {delta: 1}", "privacy: unknown key; known here: about, target, data"),
        ("evaluation: {design: zero-run}", "evaluation.design"),
        ("shadow: {models: 3}", "an even number"),
        ("shadow: {models: 4, keep: signal}", "expected outputs as shadow.keep, received signal"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str, place: Path) -> None:
    head = text.partition(":")[0]
    base = "\n".join(line for line in BASE.splitlines() if not line.startswith(f"{head}:"))
    with pytest.raises(ConfigError, match=message):
        read(place, f"{base}\n{text}\n")


def test_missing_files_and_targets_that_have_no_classes(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.path: expected an existing file, received no\.npz"):
        read(place, BASE.replace("d.npz", "no.npz"))
    with pytest.raises(ConfigError, match="expected a classifier as target, received language-model"):
        read(place, "target: {kind: language-model, small_gpt2: {}}\ndata: {path: d.npz, text: t}")
    with pytest.raises(InputError, match="an empty file"):
        read(place, "")


@pytest.mark.parametrize("name", ["sklearn", "pytorch"])
def test_the_examples_are_read(name: str, tmp_path: Path) -> None:
    if name == "pytorch":
        pytest.importorskip("torch")
    source = Path(__file__).parents[2] / "examples" / "disclosure" / f"{name}.yaml"
    for folder in ("disclosure", "sklearn", "pytorch"):
        (tmp_path / folder).mkdir()
    y = np.arange(1797) % 10
    np.savez(tmp_path / "sklearn" / "digits.npz", pixels=np.zeros((1797, 64), np.float32), digit=y)
    np.savez(tmp_path / "pytorch" / "digits.npz", image=np.zeros((1797, 1, 8, 8), np.float32), digit=y)
    place = tmp_path / "disclosure" / source.name
    place.write_text(source.read_text())
    trial = disclosure_config.read(place).trial(place.parent)
    assert trial.shadows.models == 32
    assert len(trial.names()) >= 14
    assert trial.records.n == 1797


def test_names_of_user_code(place: Path) -> None:
    assert read(place, BASE).user_code == ""
    other = read(place, BASE + 'disclosure: {trainings: {a: {estimator: "mine:Tree"}}}\n')
    assert other.user_code == "mine:Tree"


def test_canaries_are_not_compared(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected none as data\.canary, received p"):
        read(place, BASE.replace("y: y", "y: y, canary: p"))
