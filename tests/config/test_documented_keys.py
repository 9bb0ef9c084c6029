"""What docs/configuration.md says that a key of target, data or shadow accepts, each through a file."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import special

from miaudit.collect.outputs import Collected
from miaudit.config import audit as configuration
from miaudit.errors import MiauditError

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(3)
N, C = 60, 3
Y = np.arange(N) % C
X = RNG.normal(size=(N, 4)).astype(np.float32) + np.eye(4, dtype=np.float32)[Y]
LOGITS = RNG.normal(size=(N, C)) + np.eye(C)[Y]
P = special.softmax(LOGITS, axis=1)
MEMBER = np.random.default_rng(1).random(N) < 0.5
TREE = {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier", "options": {"max_depth": 2}}
DATA = {"path": "d.npz", "x": "x", "y": "y"}

_NUMBER = itertools.count()
SAID: list[str] = []


def says(words: str) -> Callable[[Any], Any]:
    """Name the words of the page that a test shows to be true."""
    SAID.append(words)
    return lambda function: function


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    columns = {f"x{i}": X[:, i] for i in range(4)} | {"y": Y, "m": MEMBER, "row": np.arange(N)}
    np.savez(tmp_path / "d.npz", x=X, y=Y, m=MEMBER, row=np.arange(N))
    pl.DataFrame(columns).write_csv(tmp_path / "d.csv")
    pl.DataFrame(columns).write_parquet(tmp_path / "d.parquet")
    lines = ({name: values[i].item() for name, values in columns.items()} for i in range(N))
    (tmp_path / "d.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def collected(place: Path, target: dict[str, Any], data: dict[str, Any] | None = None, **more: Any) -> Collected:
    """The evidence of a configuration in a file."""
    content = {"target": target, "data": data or DATA, **more}
    path = place / f"c{next(_NUMBER)}.yaml"
    path.write_text(yaml.safe_dump(content))
    settings = configuration.read(path)
    assert isinstance(settings, configuration.CampaignConfig)
    return settings.collect(place, rng=np.random.default_rng(0))


def loss(place: Path, target: dict[str, Any], data: dict[str, Any] | None = None, **more: Any) -> Any:
    return collected(place, target, data, **{"attack": {"type": "loss"}, **more}).evidence.scores["loss"]


def code(place: Path, text: str) -> str:
    """A module beside the configuration."""
    name = f"own_{next(_NUMBER)}"
    (place / f"{name}.py").write_text(text)
    return name


def of_logits(logits: Any, y: Any = Y) -> Any:
    return np.asarray(special.log_softmax(logits, axis=1)[np.arange(len(y)), y])


GIVEN = {"path": "d.npz", "y": "y", "member": "m"}
EXPECTED = of_logits(LOGITS)


# -- kind: outputs -----------------------------------------------------------------------------------------------------


@says(".npy, or columns of an .npz, .parquet or .csv, a row for each record")
@says("logits (default), probabilities, predictions or signals (scores)")
@pytest.mark.parametrize("given", ["logits", "probabilities"])
@pytest.mark.parametrize("suffix", ["npy", "npz", "parquet", "csv"])
def test_outputs_in_every_format(place: Path, suffix: str, given: str) -> None:
    values = LOGITS if given == "logits" else P
    columns = {f"c{j}": values[:, j] for j in range(C)}
    match suffix:
        case "npy":
            np.save(place / "o.npy", values)
        case "npz":
            np.savez(place / "o.npz", **columns)
        case "parquet":
            pl.DataFrame(columns).write_parquet(place / "o.parquet")
        case "csv":
            pl.DataFrame(columns).write_csv(place / "o.csv")
    target = {"kind": "outputs", "outputs_path": f"o.{suffix}", "given": given}
    if suffix != "npy":
        target["columns"] = list(columns)
    np.testing.assert_allclose(loss(place, target, GIVEN), EXPECTED, rtol=1e-5, atol=1e-6)


def test_outputs_are_logits_where_nothing_is_said(place: Path) -> None:
    np.save(place / "o.npy", LOGITS)
    found = loss(place, {"kind": "outputs", "outputs_path": "o.npy"}, GIVEN)
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-5, atol=1e-6)


def test_predictions_and_signals(place: Path) -> None:
    numbers = RNG.normal(size=N)
    np.savez(place / "r.npz", y=numbers, m=MEMBER)
    np.save(place / "o.npy", numbers + 0.5)
    target = {"kind": "outputs", "outputs_path": "o.npy", "given": "predictions"}
    found = loss(place, target, {"path": "r.npz", "y": "y", "member": "m"})
    np.testing.assert_allclose(found, -0.25, rtol=1e-4)
    np.savez(place / "s.npz", mine=numbers, other=2 * numbers)
    target = {"kind": "outputs", "outputs_path": "s.npz", "columns": ["mine", "other"], "given": "signals"}
    scores = collected(place, target, {"path": "r.npz", "y": "y", "member": "m"}).evidence.scores
    np.testing.assert_allclose(scores["mine"], numbers, rtol=1e-6)
    np.testing.assert_allclose(scores["other"], 2 * numbers, rtol=1e-6)


@pytest.mark.long
@says("else `data.x` names a column of row numbers")
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("data", ["d.npz", "d.csv", "d.parquet", "d.jsonl"])
def test_row_numbers_as_x(place: Path, data: str, listed: bool) -> None:
    order = np.random.default_rng(2).permutation(N + 5)[:N]  # rows of the outputs, of which some are of no record
    outputs = RNG.normal(size=(N + 5, C))
    outputs[order] = LOGITS
    np.save(place / "o.npy", outputs)
    columns = {"row": order, "y": Y, "m": MEMBER}
    match data.split(".")[1]:
        case "npz":
            np.savez(place / data, **columns)
        case "csv":
            pl.DataFrame(columns).write_csv(place / data)
        case "parquet":
            pl.DataFrame(columns).write_parquet(place / data)
        case _:
            rows = pl.DataFrame(columns).to_dicts()
            (place / data).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    named = {"path": data, "x": ["row"] if listed else "row", "y": "y", "member": "m"}
    found = loss(place, {"kind": "outputs", "outputs_path": "o.npy"}, named)
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.arange(N) + 1, "row numbers from 0 to 59, received 60 in 1 of 60 records; count rows from 0"),
        (np.arange(N) - 1, "received -1 in 1 of 60 records"),
        (np.arange(N) + 0.5, "name a column of whole numbers"),
    ],
)
def test_what_are_no_row_numbers(place: Path, rows: Any, words: str) -> None:
    np.save(place / "o.npy", LOGITS)
    np.savez(place / "r.npz", row=rows, y=Y, m=MEMBER)
    with pytest.raises(MiauditError, match=words):
        loss(
            place,
            {"kind": "outputs", "outputs_path": "o.npy"},
            {"path": "r.npz", "x": "row", "y": "y", "member": "m"},
        )


def test_row_numbers_are_no_features(place: Path) -> None:
    np.save(place / "o.npy", LOGITS)
    for x in ({}, {"x": "row"}):
        with pytest.raises(MiauditError, match=r"data\.covariates: expected columns of numbers"):
            collected(
                place,
                {"kind": "outputs", "outputs_path": "o.npy"},
                {**GIVEN, **x},
                attack={"type": "quantile_regression"},
                shadow={"population": 10},
            )


# -- kind: sklearn -----------------------------------------------------------------------------------------------------


@says("package.module:Class, or a function that returns one, such as a pipeline")
@says("arguments of the class or function")
@says("modules beside the file are found")
def test_estimators_by_class_and_by_function(place: Path) -> None:
    own = code(
        place,
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "def pipeline(depth=3):\n"
        "    return make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=depth))\n",
    )
    by_class = loss(place, TREE)
    by_function = loss(place, {"kind": "sklearn", "estimator": f"{own}:pipeline", "options": {"depth": 2}})
    np.testing.assert_allclose(by_function, by_class)  # trees do not see the scale
    other = loss(place, {"kind": "sklearn", "estimator": f"{own}:pipeline"})
    assert not np.array_equal(other, by_class)


@says("a classifier with `predict_proba`, or a regressor")
def test_a_regressor(place: Path) -> None:
    np.savez(place / "r.npz", x=X, y=X[:, 0] + RNG.normal(size=N))
    target = {"kind": "sklearn", "estimator": "sklearn.linear_model:LinearRegression"}
    assert (loss(place, target, {"path": "r.npz", "x": "x", "y": "y"}) <= 0).all()
    with pytest.raises(MiauditError, match="a classifier with predict_proba"):
        loss(place, {"kind": "sklearn", "estimator": "sklearn.svm:LinearSVC"})


# -- kinds with a network ----------------------------------------------------------------------------------------------

NET = (
    "import torch\n"
    "class Net(torch.nn.Module):\n"
    "    def __init__(self, form='tensor'):\n"
    "        super().__init__()\n"
    "        self.fc, self.form = torch.nn.Linear(4, 3), form\n"
    "    def forward(self, x):\n"
    "        z = self.fc(x)\n"
    "        other = torch.zeros_like(z)\n"
    "        if self.form == 'softmax':\n"
    "            return z.softmax(1)\n"
    "        if self.form == 'object':\n"
    "            return type('Found', (), {'mine': z, 'logits': other})()\n"
    "        return {'tensor': z, 'dict': {'loss': other, 'mine': z}, 'tuple': (z, other)}[self.form]\n"
)


def network(place: Path) -> tuple[str, Any]:
    torch = pytest.importorskip("torch")
    own = code(place, NET)
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    state = {f"fc.{name}": values for name, values in layer.state_dict().items()}
    with torch.no_grad():
        logits = layer(torch.from_numpy(X)).numpy().astype(np.float64)
    return f"{own}:Net", (state, of_logits(logits))


@says(".safetensors, or .pt, .pth, .ckpt and .bin of tensors and plain values only")
@says("also a checkpoint with `model_state_dict` or `state_dict`")
def test_weights_in_every_format(place: Path) -> None:
    factory, (state, expected) = network(place)
    import torch

    from miaudit.models import weights

    weights.save(state, place / "w.safetensors")
    for suffix, content in {
        "pt": state,
        "pth": {"epoch": 1, "model_state_dict": state},
        "ckpt": {"state_dict": state, "accuracy": np.float64(0.5)},
        "bin": state,
    }.items():
        torch.save(content, place / f"w.{suffix}")
    data = {**DATA, "member": "m"}
    for suffix in ("safetensors", "pt", "pth", "ckpt", "bin"):
        target = {"kind": "torch-weights", "factory": factory, "weights": f"w.{suffix}"}
        np.testing.assert_allclose(loss(place, target, data), expected, rtol=1e-5, atol=1e-6)


@says("key of the outputs of a network that returns a dictionary or an object (of a tuple they are the first)")
@pytest.mark.parametrize("form", ["dict", "object", "tuple"])
def test_outputs_of_a_network_by_their_key(place: Path, form: str) -> None:
    factory, (state, expected) = network(place)
    import torch

    torch.save(state, place / "w.pt")
    target = {"kind": "torch-weights", "factory": factory, "weights": "w.pt", "options": {"form": form}}
    target |= {} if form == "tuple" else {"output": "mine"}
    np.testing.assert_allclose(loss(place, target, {**DATA, "member": "m"}), expected, rtol=1e-5, atol=1e-6)


@says("of `torch-weights`: logits (default), probabilities of a network that ends in a softmax, or predictions")
def test_what_weights_give(place: Path) -> None:
    factory, (state, expected) = network(place)
    import torch

    torch.save(state, place / "w.pt")
    data = {**DATA, "member": "m"}
    target = {"kind": "torch-weights", "factory": factory, "weights": "w.pt", "options": {"form": "softmax"}}
    np.testing.assert_allclose(loss(place, {**target, "given": "probabilities"}, data), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(MiauditError, match="looks like probabilities"):
        loss(place, target, data)
    training = {"kind": "torch", "factory": factory, "options": {"form": "softmax"}, "training": {"epochs": 1}}
    with pytest.raises(MiauditError, match="looks like probabilities"):
        loss(place, training)
    np.savez(place / "r.npz", x=X, y=RNG.normal(size=(N, 3)), m=MEMBER)
    found = loss(
        place,
        {"kind": "torch-weights", "factory": factory, "weights": "w.pt", "given": "predictions"},
        {"path": "r.npz", "x": "x", "y": "y", "member": "m"},
    )
    assert (found <= 0).all()


@says("With `training` they are the audited model, and shadows are trained")
@says("`miaudit.models.nets:mlp`, `small_convnet` and `resnet16` are there")
def test_weights_beside_a_training(place: Path) -> None:
    factory, (state, expected) = network(place)
    import torch

    torch.save(state, place / "w.pt")
    target = {"kind": "torch", "factory": factory, "weights": "w.pt", "training": {"epochs": 1}}
    found = collected(
        place, target, {**DATA, "member": "m"}, shadow={"models": 4}, attack={"type": ["lira_online", "loss"]}
    )
    np.testing.assert_allclose(found.evidence.scores["loss"], expected, rtol=1e-5, atol=1e-6)
    from miaudit.models import nets

    assert all(hasattr(nets, name) for name in ("mlp", "small_convnet", "resnet16"))


TRAINING: dict[str, Any] = {
    "optimiser": ["sgd", "adam"],
    "learning_rate": [0.01],
    "momentum": [0.5],
    "weight_decay": [0.001],
    "schedule": ["cosine", "constant"],
    "epochs": [2],
    "batch": [7],
    "augmentation": ["none"],
    "label_smoothing": [0.1],
    "input_noise": [0.1],
    "adversarial": [{"radius": 0.1, "steps": 2}],
    "early_stopping": [{"share": 0.2, "patience": 2}],
    "pruning": [{"sparsity": 0.5, "finetuning": 0.5}],
    "device": ["auto", "cpu"],
    "mixed_precision": [False],
    "tf32": [False],
    "seed": [5],
    "loss": ["cross_entropy"],
    "private": [{"noise": 1.0, "clip": 1.0, "delta": 1e-5, "records": 30, "repeatable": True}],
}


@pytest.mark.long
@says("`optimiser`, `learning_rate`, `momentum`, `weight_decay` | sgd or adam")
@says("`schedule`, `epochs`, `batch` | cosine or constant")
@says("`augmentation`, `label_smoothing`, `input_noise` | none or flip-crop")
@says("`adversarial` | `radius` and `steps` | | `early_stopping` | `share` and `patience`")
@says("`pruning` | `sparsity` and `finetuning`")
@says("of DP-SGD: `noise`, `clip`, `delta`, the public number of `records`, and `repeatable` (false")
@says("`device` | auto, cpu, cuda, or cuda:1 for one of several")
@says("`mixed_precision`, `tf32`, `seed` | `tf32` is false")
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in TRAINING.items() for value in values])
def test_every_key_of_a_training(place: Path, key: str, value: Any) -> None:
    pytest.importorskip("torch")
    target = {"kind": "torch", "factory": "miaudit.models.nets:mlp", "options": {"inputs": 4, "classes": 3}}
    target["options"]["hidden"] = [4]
    assert np.isfinite(loss(place, {**target, "training": {"epochs": 1, "batch": 10, key: value}})).all()


@says("cross_entropy, binary_cross_entropy of several labels, or squared_error of numbers")
@says("`y: [a, b, c]` for [several labels]")
@says("of 0 and 1, or several numbers")
def test_losses_of_several_labels_and_of_numbers(place: Path) -> None:
    pytest.importorskip("torch")
    columns = {f"y{j}": RNG.integers(0, 2, N) for j in range(3)} | {f"n{j}": RNG.normal(size=N) for j in range(3)}
    np.savez(place / "l.npz", x=X, **columns)
    target = {"kind": "torch", "factory": "miaudit.models.nets:mlp"}
    target["options"] = {"inputs": 4, "classes": 3, "hidden": [4]}
    for name, first in (("binary_cross_entropy", "y"), ("squared_error", "n")):
        data = {"path": "l.npz", "x": "x", "y": [f"{first}{j}" for j in range(3)]}
        assert (loss(place, {**target, "training": {"epochs": 1, "loss": name}}, data) <= 0).all()


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@says("| `path` | .npz, .parquet, .csv or .jsonl |")
@says('one array, or several columns, `"*"` for all that are named as nothing else')
@pytest.mark.parametrize("path", ["d.npz", "d.parquet", "d.csv", "d.jsonl"])
def test_records_in_every_format(place: Path, path: str) -> None:
    expected = loss(place, TREE)
    several: Any = "x" if path == "d.npz" else [f"x{i}" for i in range(4)]
    np.testing.assert_allclose(loss(place, TREE, {"path": path, "x": several, "y": "y"}), expected)
    if path != "d.npz":  # all columns but those that are named
        every = {"path": path, "x": "*", "y": "y", "unit": "row", "group": "m"}
        np.testing.assert_allclose(loss(place, TREE, every), expected)


@says("the label: classes 0, 1, ..., texts, or numbers")
def test_labels_may_be_texts(place: Path) -> None:
    np.savez(place / "t.npz", x=X, y=np.array(["a", "b", "c"])[Y])
    np.testing.assert_allclose(loss(place, TREE, {"path": "t.npz", "x": "x", "y": "y"}), loss(place, TREE))


@says("`true`: several columns go to the estimator as a pandas data frame")
@says("as they do anyway where one holds text, categories, dates, or whole numbers with gaps")
@says("columns of `x` that become pandas categories, of all their values")
def test_frames_and_categories(place: Path) -> None:
    own = code(
        place,
        "import pandas as pd\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "SEEN = []\n"
        "class Tree(DecisionTreeClassifier):\n"
        "    def fit(self, x, y):\n"
        "        SEEN.append(x)\n"
        "        return super().fit(self._plain(x), y)\n"
        "    def _plain(self, x):\n"
        "        return x[[c for c in x if x[c].dtype.kind == 'f']] if isinstance(x, pd.DataFrame) else x\n"
        "    def predict_proba(self, x):\n"
        "        return super().predict_proba(self._plain(x))\n",
    )
    target = {"kind": "sklearn", "estimator": f"{own}:Tree"}
    frame = pl.read_csv(place / "d.csv").with_columns(
        town=pl.Series(np.array(["Oslo", "Rome"])[Y % 2]),
        whole=pl.Series([None, *range(1, N)]),
    )
    frame.write_csv(place / "t.csv")
    names = ["x0", "x1", "x2", "x3"]

    def seen(x: list[str], **more: Any) -> Any:
        loss(place, target, {"path": "t.csv", "x": x, "y": "y", **more})
        return sys.modules[own].SEEN[-1]

    assert isinstance(seen(names), np.ndarray)
    assert list(seen(names, frame=True).columns) == names
    assert list(seen([*names, "town"]).columns) == [*names, "town"]
    assert list(seen([*names, "whole"]).columns) == [*names, "whole"]
    assert list(seen([*names, "town"], categories=["town"])["town"].cat.categories) == ["Oslo", "Rome"]


@says("who was trained on. Without it a fair coin is drawn for each record")
@says("| `one-run` (default without `member`) | half of the records drawn, one model trained |")
@says("| `zero-run`, or none, with `member` | the model as it is, or trained on the members given. Name covariates |")
def test_membership_is_given_or_drawn(place: Path) -> None:
    given = collected(place, TREE, {**DATA, "member": "m"}).evidence
    assert given.design is None
    np.testing.assert_array_equal(given.member, MEMBER)
    drawn = collected(place, TREE).evidence
    assert drawn.design == "one-run"
    assert 0.2 < drawn.member.mean() < 0.8
    zero = collected(place, TREE, {**DATA, "member": "m", "covariates": "x"}, evaluation={"design": "zero-run"})
    assert zero.evidence.design == "zero-run"


@says("carried into the evidence. Memberships are drawn for whole units")
def test_units_groups_and_covariates(place: Path) -> None:
    whose = np.arange(N) // 3
    np.savez(place / "u.npz", x=X, y=Y, u=whose, g=Y, c=X[:, 0])
    found = collected(place, TREE, {**DATA, "path": "u.npz", "unit": "u", "group": "g", "covariates": "c"}).evidence
    np.testing.assert_array_equal(found.unit, whose)
    np.testing.assert_array_equal(found.group, Y)
    np.testing.assert_allclose(np.asarray(found.covariates)[:, 0], X[:, 0])
    assert all(len(set(found.member[whose == one])) == 1 for one in range(N // 3))


@says("0 or 1: only records with 1, made for the audit, are audited, all others are in every training")
def test_canaries_of_the_data(place: Path) -> None:
    made = (np.arange(N) < 20).astype(int)
    np.savez(place / "k.npz", x=X, y=Y, k=made)
    assert collected(place, TREE, {**DATA, "path": "k.npz", "canary": "k"}).evidence.n == 20


@says("copies of the record in a training that has it. A script gets its row number that many times")
@says("a name for each record, unique: a script that writes `ids.npy` must give the same, in this order")
@says("of a script: `python train.py --rows {rows} --seed {seed} --out {out}`, run in the folder of this file")
@says("(losses, logits or probabilities)")
@pytest.mark.parametrize("given", ["losses", "logits", "probabilities"])
def test_a_script_gets_row_numbers_and_gives_outputs(place: Path, given: str) -> None:
    (place / "train.py").write_text(
        "import argparse, pathlib, numpy as np\n"
        "parser = argparse.ArgumentParser()\n"
        "for one in ('rows', 'seed', 'out'):\n"
        "    parser.add_argument('--' + one)\n"
        "asked = parser.parse_args()\n"
        "rows, out = np.load(asked.rows), pathlib.Path(asked.out)\n"
        "times = np.bincount(rows, minlength=60)\n"
        "z = np.eye(3)[np.arange(60) % 3] * (2.0 + times)[:, None]\n"
        "p = np.exp(z) / np.exp(z).sum(1, keepdims=True)\n"
        "loss = -np.log(p[np.arange(60), np.arange(60) % 3])\n"
        f"np.save(out / 'outputs.npy', {{'losses': loss, 'logits': z, 'probabilities': p}}[{given!r}])\n"
        "np.save(out / 'ids.npy', np.array([f'r{i}' for i in range(60)]))\n"
    )
    np.savez(place / "t.npz", y=Y, times=1 + Y, id=np.array([f"r{i}" for i in range(N)]))
    command = f"{sys.executable} train.py --rows {{rows}} --seed {{seed}} --out {{out}}"
    target = {"kind": "command", "command": command, "outputs": given}
    data = {"path": "t.npz", "y": "y", "ids": "id", "times": "times"}
    found = collected(place, target, data, attack={"type": "loss"}).evidence
    strength = 2.0 + np.where(found.member, 1 + Y, 0)
    np.testing.assert_allclose(found.scores["loss"], strength - np.log(np.exp(strength) + 2), rtol=1e-4)


@says("a .npy file of changed [copies](your_model.md#what-a-campaign-does) (n, k, ...) for label-only attacks")
@says("With given outputs, the outputs for the copies")
def test_copies(place: Path) -> None:
    copies = X[:, None] + 0.1 * RNG.normal(size=(N, 2, 4)).astype(np.float32)
    np.save(place / "copies.npy", copies)
    found = collected(place, TREE, {**DATA, "copies": "copies.npy"}, attack={"type": "label_only"})
    assert 2 < len(np.unique(found.evidence.scores["label_only"])) < 10  # by how many of three labels are right
    np.save(place / "o.npy", LOGITS)
    said = np.stack([LOGITS, -LOGITS], axis=1)
    target = {"kind": "outputs", "outputs_path": "o.npy"}
    for values in (said, said.argmax(axis=2)):
        np.save(place / "copies.npy", values)
        given = collected(place, target, {**GIVEN, "copies": "copies.npy"}, attack={"type": "label_only"})
        right = [(one.argmax(axis=1) == Y).astype(float) for one in (LOGITS, LOGITS, -LOGITS)]
        assert np.corrcoef(given.evidence.scores["label_only"], np.mean(right, axis=0))[0, 1] > 0.99


@pytest.mark.long
@says("of a multi-run: how many are audited, one model each (default half)")
@says("| `multi-run` | one model for each audited record, without shadow models")
def test_records_of_a_multi_run(place: Path) -> None:
    design = {"design": "multi-run"}
    assert collected(place, TREE, {**DATA, "records": 8}, evaluation=design).evidence.n == 8
    assert collected(place, TREE, evaluation=design).evidence.n == N // 2


# -- shadow ------------------------------------------------------------------------------------------------------------


@says("in place of `models`: an .npz of outputs of shadow models trained elsewhere")
@says("what its `outputs`, or its `signals`, are")
@pytest.mark.parametrize("given", ["logits", "probabilities", "signals"])
def test_shadow_outputs_from_elsewhere(place: Path, given: str) -> None:
    included = np.random.default_rng(5).random((8, N)) < 0.5
    shadows = LOGITS + included[:, :, None] * np.eye(C)[Y] + 0.1 * np.random.default_rng(6).normal(size=(8, N, C))
    log_p = special.log_softmax(shadows, axis=2)
    own = log_p[:, np.arange(N), Y]
    signal = own - np.log1p(-np.exp(own))
    arrays = {"logits": {"outputs": shadows}, "probabilities": {"outputs": np.exp(log_p)}}
    np.savez(place / "s.npz", included=included, **arrays.get(given, {"signals": signal}))
    np.save(place / "o.npy", LOGITS)
    options = {"signal": "logit_confidence"} if given == "signals" else {"given": given}
    found = collected(
        place,
        {"kind": "outputs", "outputs_path": "o.npy"},
        GIVEN,
        shadow={"outputs_path": "s.npz", **options},
        attack={"type": "lira_online"},
    ).evidence.scores["lira_online"]
    from miaudit.attacks import lira

    target = EXPECTED - np.log1p(-np.exp(EXPECTED))
    expected = lira.online(target, signal.T.astype(np.float32), included.T)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_what_is_shown_here_is_what_the_page_says() -> None:
    said = re.sub(r"\s+", " ", PAGE)
    assert not [words for words in SAID if words not in said]
