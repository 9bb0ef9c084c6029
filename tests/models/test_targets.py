"""Targets: outputs of every kind against their libraries, and what is refused at the door."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from miaudit.errors import InputError
from miaudit.models import targets
from miaudit.models.targets import Precomputed, SavedTorch, SklearnTarget, Target, TorchTarget, Trainable

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + 0.5 * RNG.normal(size=60) > 0).astype(int) + (np.arange(60) == 7) * 2


def test_a_classifier_gives_log_probabilities_of_all_classes() -> None:
    target = SklearnTarget(LogisticRegression())
    rows = np.array([i for i in range(60) if i != 7])  # the only record of class 3 is left out, class 2 has none
    outputs = target.outputs(target.fit(X, Y, rows, seed=0), X)
    usual = LogisticRegression().fit(X[rows], Y[rows]).predict_log_proba(X)
    assert outputs.shape == (60, 4)
    np.testing.assert_allclose(outputs[:, :2], usual, rtol=1e-6)
    assert (outputs[:, 2:] < -100).all()
    assert isinstance(target, Trainable)
    assert not target.runs_user_code


def test_probabilities_near_one_keep_their_digits() -> None:
    sure = SklearnTarget(LogisticRegression(C=1e6, max_iter=10_000))
    outputs = sure.outputs(sure.fit(X * 1e3, (X[:, 0] > 0).astype(int), np.arange(60), seed=0), X * 10)
    top = outputs.max(axis=1)
    assert (np.float32(1) - np.exp(top.astype(np.float64)) > 0).any()
    assert len(np.unique(top)) > 10


def test_a_regressor_gives_predictions() -> None:
    target = SklearnTarget(Ridge(alpha=2.0), called="ridge")
    outputs = target.outputs(target.fit(X, X[:, 1], np.arange(30), seed=0), X)
    expected = Ridge(alpha=2.0).fit(X[:30], X[:30, 1]).predict(X)
    assert target.kind == "predictions"
    assert target.name == "ridge"
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-5)


def test_every_random_state_is_the_seed() -> None:
    net = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5, n_jobs=2))
    target = SklearnTarget(net)
    one, again, other = (target.outputs(target.fit(X, Y, np.arange(60), seed=seed), X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert net.named_steps["randomforestclassifier"].n_jobs == 2  # the caller's estimator stays as it is


@pytest.mark.parametrize("name", ["xgboost.XGBClassifier", "lightgbm.LGBMClassifier", "catboost.CatBoostClassifier"])
def test_a_boosting_library_gets_the_seed_and_one_thread(name: str) -> None:
    module, _, kind = name.partition(".")
    quiet = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    options = quiet if module == "catboost" else {"subsample": 0.5}
    model = getattr(pytest.importorskip(module), kind)(**options)
    for one in (model, make_pipeline(StandardScaler(), model)):
        fitted = SklearnTarget(one).fit(X, Y, np.arange(60), seed=7)[0]
        said = (fitted if one is model else fitted[-1]).get_params()
        assert said.get("random_state", said.get("random_seed")) == 7
        assert said.get("n_jobs", said.get("thread_count")) == 1


def test_a_library_that_does_not_list_what_was_not_set_gets_the_seed_too() -> None:
    class Unlisted(GaussianNB):
        """As CatBoost: a parameter that was not given is not listed, and two names mean the same."""

        def __init__(self, random_seed: int | None = None, thread_count: int | None = None, **given: int) -> None:
            super().__init__()
            self.random_seed, self.thread_count, self.given = random_seed, thread_count, given

        def get_params(self, deep: bool = True) -> dict[str, int]:
            set_ = {"random_seed": self.random_seed, "thread_count": self.thread_count}
            return {name: value for name, value in set_.items() if value is not None}

        def set_params(self, **new: int) -> Self:
            vars(self).update(new)
            return self

    fitted = SklearnTarget(Unlisted()).fit(X, Y, np.arange(60), seed=7)[0]
    assert fitted.get_params() == {"random_seed": 7, "thread_count": 1}


def test_texts_that_an_estimator_does_not_take_are_named_with_the_next_step() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "town": np.where(Y > 0, "a", "b")})
    with pytest.raises(InputError, match=r"data.x: .*LogisticRegression takes.*texts in town.*data.categories"):
        SklearnTarget(LogisticRegression()).fit(frame, Y, np.arange(60), seed=0)


@pytest.mark.thorough
@pytest.mark.long
def test_identities_tell_configurations_apart_and_are_the_same_in_every_process() -> None:
    forms = [
        LogisticRegression(), LogisticRegression(C=2.0), make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), LogisticRegression(C=2.0)), MLPClassifier(), MLPClassifier((5,)), Ridge(),
    ]  # fmt: skip
    identities = [SklearnTarget(one).identity() for one in forms]
    assert len(set(identities)) == len(forms)
    code = (
        "from miaudit.models.targets import SklearnTarget as T;"
        "from sklearn.linear_model import LogisticRegression as L;"
        "from sklearn.preprocessing import StandardScaler as S; from sklearn.pipeline import make_pipeline as m;"
        "print(T(m(S(), L(C=2.0))).identity())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == identities[3]


EDITED = {
    "estimator": """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from miaudit.models.targets import SklearnTarget
class Own(DecisionTreeClassifier):
    def fit(self, x, y):
        return super().fit(x * 1.0, y)
class Child(Own):
    pass
for one in (Own(), Child(), make_pipeline(StandardScaler(), Child())):
    print(repr(SklearnTarget(one).identity()))
""",
    "network": """
from torch import nn
from miaudit.models.targets import TorchTarget
from miaudit.models.train_config import TrainConfig
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
    def forward(self, x):
        return self.layer(x * 1.0)
def build():
    return nn.Sequential(nn.Flatten(), Own())
print(repr(TorchTarget(build, TrainConfig(device="cpu")).identity()))
""",
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", EDITED)
def test_an_edited_class_is_another_target(tmp_path: Path, kind: str) -> None:
    """Parameters, layers and shapes alone would let a store serve models that the code of before made."""
    if kind == "network":
        pytest.importorskip("torch")

    def identities(source: str) -> list[str]:
        (tmp_path / "own.py").write_text(source, encoding="utf-8")
        command = [sys.executable, str(tmp_path / "own.py")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    before = identities(EDITED[kind])
    assert before
    assert identities(EDITED[kind]) == before
    assert all(a != b for a, b in zip(before, identities(EDITED[kind].replace("1.0", "2.0")), strict=True))


def test_functions_are_described_by_source_and_by_what_they_hold() -> None:
    def factory(width):
        def make():
            return width

        return make

    def other():
        return 3

    described = targets.described_function
    forms = [factory(3), factory(4), other, functools.partial(factory, 3), functools.partial(factory, width=3)]
    assert len({described(one) for one in forms}) == len(forms)
    assert described(factory(3)) == described(factory(3))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression, "estimator"),
        (3, "no fit"),
        (SGDClassifier(), "predict_proba.*CalibratedClassifierCV"),
        (StandardScaler(), "no predict"),
    ],
)
def test_what_is_no_usable_estimator_is_refused(estimator, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        SklearnTarget(estimator).name  # noqa: B018


@pytest.mark.parametrize(
    ("labels", "message"),
    [(np.array(["a", "b"] * 30), "whole numbers"), (np.arange(60) % 2 - 1, "from 0 up"), (np.ones(60) / 2, "whole")],
)
def test_labels_outside(labels, message: str) -> None:
    with pytest.raises(InputError, match=f"labels: .*{message}"):
        SklearnTarget(LogisticRegression()).fit(X, labels, np.arange(60), seed=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(60), "shape"),
        (np.zeros((59, 2)), "shape"),
        (np.zeros((60, 0)), "shape"),
        (np.full((60, 2), np.nan), "NaN or infinity in 60 of 60 records, the first 0"),
        (np.where(np.arange(120).reshape(60, 2) == 9, np.inf, 0), "in 1 of 60 records, the first 4"),
        (np.full((60, 2), 1e39), "infinity"),
        (np.full((60, 2), "a"), "shape"),
    ],
)
def test_outputs_of_the_wrong_kind(values, message: str) -> None:
    with pytest.raises(InputError, match=f"outputs of net: .*{message}"):
        targets.checked_outputs(values, 60, "net")


def test_precomputed_outputs(tmp_path: Path) -> None:
    logits = RNG.normal(size=(6, 3))
    np.save(tmp_path / "logits.npy", logits)
    np.savez(tmp_path / "table.npz", a=logits[:, 0], b=logits[:, 1:], other=np.zeros(2))
    for target in (Precomputed.load(tmp_path / "logits.npy"), Precomputed.load(tmp_path / "table.npz", ["a", "b"])):
        np.testing.assert_allclose(target.outputs(None, np.array([5, 0])), logits[[5, 0]].astype(np.float32))
        assert isinstance(target, Target)
        assert not isinstance(target, Trainable)
        assert not target.runs_user_code
    assert Precomputed([0.5, 0.1], given="predictions").outputs(None, np.arange(2)).shape == (2, 1)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(Precomputed(p, given="probabilities").outputs(None, np.arange(6))), p, rtol=1e-5)


def test_bad_precomputed_outputs(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="never unpickled"):
        Precomputed.load(tmp_path / "objects.npy")
    with pytest.raises(InputError, match="row 1"):
        Precomputed(np.array([[0.5, 0.5], [0.9, 0.9]]), given="probabilities")
    with pytest.raises(InputError, match="did you mean logits"):
        Precomputed(np.zeros((2, 2)), given="logit")
    for rows in ([2], [-1], [0.5], [[0, 1]], [[[0]]]):
        with pytest.raises(InputError, match="row numbers from 0 to 1"):
            Precomputed(np.zeros((2, 2))).outputs(None, np.array(rows))


# -- PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("torch")
    (tmp_path / "my_models.py").write_text(
        "import torch\n"
        "def net():\n    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))\n"
        "def wider():\n    return torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4))\n"
        "def nothing():\n    return None\n"
        "def failing():\n    raise OSError('no such weights')\n"
        "value = 3\n"
    )
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    return "my_models"


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("my_models", "package.module:function"),
        ("no_such_module:net", "no_such_module, which does not import"),
        ("broken:net", "nothing_of_this_name"),
        ("my_models:ned", "did you mean net"),
        ("my_models:value", "a function, received my_models:value, a int"),
        ("my_models:nothing", "which returns NoneType"),
        ("my_models:failing", "no such weights"),
    ],
)
def test_a_factory_that_is_none(module: str, factory: str, message: str) -> None:
    from miaudit.models.train_config import TrainConfig

    with pytest.raises(InputError, match=f"factory: .*{message}"):
        TorchTarget(factory, TrainConfig(epochs=1))


def test_a_network_is_trained_saved_and_loaded(module: str, tmp_path: Path) -> None:
    import torch

    from miaudit.models import weights
    from miaudit.models.train_config import TrainConfig

    config = TrainConfig(epochs=3, batch=16, device="cpu")
    x = X.astype(np.float32)
    target = TorchTarget("my_models:net", config)
    state = target.fit(x, Y, np.arange(30), seed=1)
    outputs = target.outputs(state, x)
    assert outputs.shape == (60, 4)
    assert target.runs_user_code
    assert target.name == "my_models:net"
    np.testing.assert_array_equal(outputs, target.outputs(target.fit(x, Y, np.arange(30), seed=1), x))
    with pytest.raises(InputError, match="no audited model"):
        target.outputs(None, x)

    weights.save(state, tmp_path / "net.safetensors")
    torch.save(state, tmp_path / "net.pt")
    for name in ("net.safetensors", "net.pt"):
        saved = SavedTorch("my_models:net", tmp_path / name, device="cpu")
        np.testing.assert_array_equal(saved.outputs(None, x), outputs)
        assert not isinstance(saved, Trainable)
        audited = TorchTarget("my_models:net", config, tmp_path / name)
        np.testing.assert_array_equal(audited.outputs(None, x), outputs)
    with pytest.raises(InputError, match="instead of"):
        SavedTorch("my_models:wider", tmp_path / "net.safetensors")
    identities = {
        TorchTarget("my_models:net", config).identity(),
        TorchTarget("my_models:wider", config).identity(),
        TorchTarget("my_models:net", TrainConfig(epochs=4, batch=16, device="cpu")).identity(),
        TorchTarget("my_models:net", config, key="v2").identity(),
    }
    assert len(identities) == 4
    assert target.identity() in identities


@pytest.mark.long
def test_dp_sgd_says_what_it_guarantees(module: str, tmp_path: Path) -> None:
    from miaudit.models import weights
    from miaudit.models.train import Private, TrainConfig, guarantee

    about_device = TorchTarget("my_models:net", TrainConfig(device="cpu")).notes  # of a machine with a GPU
    assert not any("guarantee" in note or "epsilon" in note for note in about_device)
    private = Private(noise=2.0, clip=1.0, delta=0.01, records=40)
    config = TrainConfig(epochs=3, batch=10, private=private, device="cpu")
    note = TorchTarget("my_models:net", config).notes[0]
    stated = float(note.partition("(")[2].partition(",")[0])
    assert 0 <= stated - guarantee(config).value < 0.01 * stated  # a bound is never rounded down
    assert "networks trained here are" in note and "seed" not in note
    known = TorchTarget("my_models:net", replace(config, private=replace(private, repeatable=True)))
    assert "does not hold against who knows the seed" in known.notes[0]
    assert "at a public 40 records" in note
    weights.save(TorchTarget("my_models:net", config).build().state_dict(), tmp_path / "w.safetensors")
    assert "shadow models" in TorchTarget("my_models:net", config, tmp_path / "w.safetensors").notes[0]


def test_a_pickle_where_weights_are_asked_for_is_refused(module: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Harm:
        def __reduce__(self):
            return (Path.touch, (marker,))

    for name in ("net.pt", "net.pth", "net.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(Harm()))
        with pytest.raises(InputError, match="weights"):
            SavedTorch("my_models:net", tmp_path / name)
    assert not marker.exists()


@pytest.mark.thorough
@pytest.mark.long
def test_scikit_learn_targets_need_no_torch() -> None:
    code = (
        "import sys; import numpy as np; from miaudit.models import shadow, targets;"
        "from sklearn.naive_bayes import GaussianNB as G; x = np.random.default_rng(0).normal(size=(20, 2));"
        "y = np.arange(20) % 2; m = shadow.inclusion(20, 2, rng=np.random.default_rng(0));"
        "print(shadow.train(targets.SklearnTarget(G()), x, y, m, seed=0).shape, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(20, 2) False"
