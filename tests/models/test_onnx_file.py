"""ONNX files against the models that they were exported from, and what is refused at the door."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from miaudit.collect.campaign import Campaign
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError
from miaudit.models import shadow
from miaudit.models.onnx_file import OnnxGiven, OnnxTarget
from miaudit.models.protocol import check_target, stands
from miaudit.models.targets import SklearnTarget

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
skl2onnx = pytest.importorskip("skl2onnx")

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 90)
PEOPLE = pd.DataFrame({"age": X[:, 0], "income": X[:, 1], "town": RNG.choice(["Oslo", "Rome"], 90)})


def exported(path: Path, model: Any, example: Any, **options: Any) -> Path:
    path.write_bytes(skl2onnx.to_onnx(model, example, options=options or None).SerializeToString())
    return path


LABELS = RNG.integers(0, 2, (90, 3))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["forest", "network", "of each label"])
def test_several_labels_are_those_of_the_estimator(name: str, tmp_path: Path) -> None:
    estimators = {
        "forest": RandomForestClassifier(5, max_depth=3, random_state=0),
        "network": MLPClassifier((8,), max_iter=50, random_state=0),
        "of each label": MultiOutputClassifier(LogisticRegression()),
    }
    estimator = estimators[name].fit(X, LABELS)
    path = exported(tmp_path / "m.onnx", estimator, X[:1], zipmap=False)
    asked = OnnxTarget(path, output="probabilities").labelled(LABELS)
    assert asked.kind == "multi-label"
    expected = SklearnTarget(estimator).labelled(LABELS).outputs(None, X)
    np.testing.assert_allclose(asked.outputs(None, X), expected, atol=2e-3, rtol=2e-3)
    with pytest.raises(InputError, match="expected 2 columns, one for each label"):
        OnnxTarget(path, output="probabilities").labelled(LABELS[:, :2]).outputs(None, X)


def product(path: Path, weights: np.ndarray, *, rows: int | None = None, kind: Any = None, **more: Any) -> Path:
    """A network of one matrix, without a library: inputs "x", outputs "logits"."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"])]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", kind or floats, [rows, len(weights)])],
        [helper.make_tensor_value_info("logits", kind or floats, [rows, weights.shape[1]])],
        [more.get("w") or onnx.numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(10, max_depth=6, random_state=0).fit(X, Y)


@pytest.mark.long
@pytest.mark.parametrize("zipmap", [True, False])
def test_a_classifier_gives_the_probabilities_of_its_library(tmp_path: Path, forest: Any, zipmap: bool) -> None:
    target = OnnxTarget(exported(tmp_path / "forest.onnx", forest, X[:1], zipmap=zipmap))
    outputs, said = target.explained(X)
    np.testing.assert_allclose(np.exp(outputs.astype(np.float64)), forest.predict_proba(X), atol=1e-6)
    assert "was taken to be probabilities" in said[0]
    check_target(target)
    assert stands(target)
    assert not target.runs_user_code
    digest = hashlib.sha256((tmp_path / "forest.onnx").read_bytes()).hexdigest()
    assert digest in target.notes[0]
    assert digest in target.identity()
    stated = OnnxTarget(tmp_path / "forest.onnx", "probabilities")
    assert np.array_equal(stated.outputs(None, X), outputs)
    assert stated.explained(X)[1] == ()


@pytest.mark.long
@pytest.mark.parametrize("zipmap", [True, False])
def test_a_pipeline_gets_its_columns_by_name(tmp_path: Path, zipmap: bool) -> None:
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["town"]))
    model = make_pipeline(columns, LogisticRegression()).fit(PEOPLE, np.array(["no", "yes"])[Y % 2])
    target = OnnxTarget(exported(tmp_path / "people.onnx", model, PEOPLE[:1], zipmap=zipmap))
    turned = PEOPLE[["town", "income", "age"]].astype({"town": "category"})
    for people in (PEOPLE, turned):
        found = np.exp(target.outputs(None, people).astype(np.float64))
        np.testing.assert_allclose(found, model.predict_proba(PEOPLE), atol=1e-6)
    refused: dict[str, tuple[Any, str]] = {
        "a column is gone": (
            PEOPLE.drop(columns="town"),
            "the columns of people.onnx.*received none named town",
        ),
        "a column has another name": (PEOPLE.rename(columns={"town": "twon"}), "none named town; did you mean twon"),
        "a column came along": (PEOPLE.assign(id=1), "received also id"),
        "a column has another type": (PEOPLE.assign(town=1.0), "town: expected texts.*received values of type float64"),
        "text in the place of numbers": (PEOPLE.assign(age="old"), "age: expected numbers, for the input age"),
        "gaps in texts": (PEOPLE.assign(town=["Oslo", None] * 45), "town: expected texts.*received missing values"),
        "no names": (X[:, :3], "data.x: expected a data frame with the columns age, income, town.*data.frame: true"),
    }
    for what, (people, words) in refused.items():
        with pytest.raises(InputError, match=words) as caught:
            target.outputs(None, people)
        assert "\n" not in str(caught.value), what


def test_predictions_of_a_regression_and_one_column_that_nobody_named(tmp_path: Path) -> None:
    model = LinearRegression().fit(X, X[:, 0] * 3)
    file = exported(tmp_path / "line.onnx", model, X[:1])
    target = OnnxTarget(file, "predictions", called="a line")
    assert (target.kind, target.name) == ("predictions", "a line")
    np.testing.assert_allclose(target.outputs(None, X)[:, 0], model.predict(X), atol=1e-5)
    with pytest.raises(InputError, match=r"target\.given: .*received one column.*given: probabilities, logits"):
        OnnxTarget(file)
    # The same column as log-odds of the second of two classes.
    both = OnnxTarget(file, "logits").outputs(None, X)
    np.testing.assert_allclose(both[:, 1] - both[:, 0], model.predict(X), atol=1e-5)
    with pytest.raises(InputError, match="expected probabilities that add up to 1"):
        OnnxTarget(file, "probabilities").outputs(None, X)


def test_logits_come_in_blocks_and_in_batches_of_a_fixed_size(tmp_path: Path) -> None:
    weights = RNG.normal(size=(4, 3)).astype(np.float32)
    many = RNG.normal(size=(2500, 4)).astype(np.float32)
    free = OnnxTarget(product(tmp_path / "free.onnx", weights)).outputs(None, many)
    fixed = OnnxTarget(product(tmp_path / "fixed.onnx", weights, rows=64)).outputs(None, many)
    np.testing.assert_allclose(free, many @ weights, atol=1e-5)
    np.testing.assert_allclose(fixed, many @ weights, atol=1e-5)
    doubles = onnx.helper.make_tensor("w", onnx.TensorProto.DOUBLE, [4, 3], weights.astype(np.float64).ravel())
    double = OnnxTarget(product(tmp_path / "d.onnx", weights, kind=onnx.TensorProto.DOUBLE, w=doubles))
    np.testing.assert_allclose(double.outputs(None, many), many @ weights, atol=1e-5)


def test_other_records_are_refused_in_one_line(tmp_path: Path) -> None:
    target = OnnxTarget(product(tmp_path / "m.onnx", np.eye(4, 3, dtype=np.float32)))
    refused: list[tuple[Any, str]] = [
        (X[:, :3], r"data\.x: expected records of shape \(n, 4\), for the input x, received shape \(90, 3\)"),
        (X[:, 0], r"expected records of shape \(n, 4\)"),
        (X[:, :, None], r"expected records of shape \(n, 4\)"),
        (["a", "b"], "expected numbers, for the input x, received texts"),
        (PEOPLE, "town: expected numbers, for the input x"),
    ]
    for records, words in refused:
        with pytest.raises(InputError, match=words) as caught:
            target.outputs(None, records)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="expected finite numbers, received NaN"):
        target.outputs(None, np.full((3, 4), np.nan))
    integers = onnx.helper.make_tensor("w", onnx.TensorProto.INT64, [4, 3], np.eye(4, 3, dtype=np.int64).ravel())
    whole = product(tmp_path / "i.onnx", np.eye(4, 3), kind=onnx.TensorProto.INT64, w=integers)
    for wrong in (X, np.full((3, 4), np.inf)):
        with pytest.raises(InputError, match=r"target\.output: expected one output of numbers"):
            OnnxTarget(whole)
        with pytest.raises(InputError, match="whole numbers of int64"):
            _ids(tmp_path).outputs(None, wrong)
    np.testing.assert_array_equal(_ids(tmp_path).outputs(None, np.ones((2, 4)))[:, 0], [1, 1])


def _ids(folder: Path) -> OnnxTarget:
    """A model of whole numbers, which it turns into floats."""
    helper, kinds = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Cast", ["ids"], ["logits"], to=kinds.FLOAT)],
        "ids",
        [helper.make_tensor_value_info("ids", kinds.INT64, [None, 4])],
        [helper.make_tensor_value_info("logits", kinds.FLOAT, [None, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "ids.onnx").write_bytes(model.SerializeToString())
    return OnnxTarget(folder / "ids.onnx")


@pytest.mark.long
def test_an_output_is_chosen_by_its_name(tmp_path: Path, forest: Any) -> None:
    file = exported(tmp_path / "m.onnx", forest, X[:1], zipmap=False, raw_scores=False)
    assert OnnxTarget(file, output="probabilities").output == "probabilities"
    with pytest.raises(InputError, match="received label, of type"):
        OnnxTarget(file, output="label")
    with pytest.raises(InputError, match="did you mean probabilities"):
        OnnxTarget(file, output="probability")


def test_what_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\x80\x04pickle")
    with pytest.raises(InputError, match=r"target\.path: expected an ONNX model.*onnxruntime does not read") as caught:
        OnnxTarget(tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"target\.path: expected a model that no pickle holds.*skl2onnx\.to_onnx"):
        OnnxTarget(tmp_path / "m.pkl")
    with pytest.raises(InputError, match="which does not exist"):
        OnnxTarget(tmp_path / "other.onnx")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("w.bin", ""),
        ("sub/w.bin", ""),
        ("gone.bin", "expected the weights of m.onnx beside it"),
        ("../secret.bin", "expected weights in the folder of m.onnx, received ../secret.bin"),
        ("link.bin", "expected weights in the folder of m.onnx"),
        ("ABSOLUTE", "expected weights in the folder of m.onnx"),
    ],
)
def test_weights_are_read_from_the_folder_of_the_model_only(tmp_path: Path, location: str, words: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    weights = RNG.normal(size=(4, 3)).astype(np.float32)
    for file in (tmp_path / "secret.bin", folder / "w.bin", folder / "sub" / "w.bin"):
        weights.tofile(file)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    outside = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4, 3], data_location=1)
    outside.external_data.add(key="location", value=location.replace("ABSOLUTE", str(tmp_path / "secret.bin")))
    file = product(folder / "m.onnx", weights, w=outside)
    if words:
        with pytest.raises(InputError, match=words):
            OnnxTarget(file)
        return
    target = OnnxTarget(file)
    np.testing.assert_allclose(target.outputs(None, X), X @ weights, atol=1e-5)
    (weights + 1).tofile(folder / location)
    assert OnnxTarget(file).identity() != target.identity()


def test_it_stands_as_it_is_and_shadow_models_are_of_another_kind(tmp_path: Path) -> None:
    target: Any = OnnxTarget(product(tmp_path / "m.onnx", np.eye(4, 3, dtype=np.float32)))
    with pytest.raises(InputError, match="which cannot; shadow models are trained: name an estimator"):
        shadow.train(target, X, Y, shadow.inclusion(90, 2, rng=RNG), seed=0)


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = product(tmp_path / "m.onnx", np.eye(4, 3, dtype=np.float32))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"without onnxruntime; pip install '.*\[onnx\]'"):
        OnnxTarget(file)


CONFIG = """
target: {{kind: onnx, path: forest.onnx{more}}}
data: {{path: data.npz, x: x, y: y, member: member}}
{rest}
evaluation: {{design: one-run, output_dir: {out}}}
"""


@pytest.mark.thorough
@pytest.mark.long
def test_an_overfitted_model_is_flagged_from_the_command_line(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    x = RNG.normal(size=(400, 6)).astype(np.float32)
    y, member = RNG.integers(0, 2, 400), np.arange(400) % 2 == 0
    np.savez(tmp_path / "data.npz", x=x, y=y, member=member)
    model = RandomForestClassifier(30, bootstrap=False, random_state=0).fit(x[member], y[member])
    exported(tmp_path / "forest.onnx", model, x[:1])
    config = tmp_path / "audit.yaml"

    def audited(name: str, more: str = "", rest: str = "") -> tuple[int, str, str]:
        config.write_text(CONFIG.format(more=more, rest=rest, out=name), encoding="utf-8")
        return run("run", str(config))

    code, _, error = audited("own")
    assert code == 3, error
    assert "SHA-256" in (tmp_path / "own" / "findings.json").read_text()
    # The control: a model of other records says nothing of these.
    other = RandomForestClassifier(30, bootstrap=False, random_state=0).fit(x[:100] + 9, y[:100])
    exported(tmp_path / "forest.onnx", other, x[:1])
    assert audited("other")[0] in (0, 4)
    for more, rest, words in (
        ("", "shadow: {models: 16}", "forest.onnx, which stands as it is; set shadow.models: 0"),
        (", output: nothing", "", "nothing, which is not there"),
        (", given: signals", "", "given"),
        (", weights: w.pt", "", "expected keys of kind onnx (path, given, output)"),
    ):
        code, out, error = audited(f"refused{len(more)}", more, rest)
        assert code == 1, out
        assert words in " ".join(error.split())
    np.savez(tmp_path / "data.npz", x=x, y=np.where(np.arange(400) == 3, 7, y), member=member)
    code, _, error = audited("unseen")
    assert code == 1
    assert "labels: expected classes 0 to 1, as in the outputs, received values from 0 to 7" in " ".join(error.split())


def test_probabilities_that_are_declared_to_be_logits_are_refused(tmp_path: Path) -> None:
    path = exported(tmp_path / "m.onnx", LogisticRegression().fit(X, Y), X[:1], zipmap=False)
    data = Records(X, Y, np.arange(90) % 2 == 0, {}, "people")

    def evidence(given: OnnxGiven | None) -> Any:
        target = OnnxTarget(path, given, output="probabilities")
        return collect(Campaign(target, data, "one-run"), rng=np.random.default_rng(0)).evidence.score

    np.testing.assert_array_equal(evidence(None), evidence("probabilities"))
    with pytest.raises(InputError, match=r"outputs of m\.onnx: .*what looks like probabilities"):
        evidence("logits")
