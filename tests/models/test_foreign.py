from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from miaudit.errors import InputError, MiauditError
from miaudit.models import shadow
from miaudit.models.foreign import refuse_pickle, tensor_of
from miaudit.models.inclusion import inclusion
from miaudit.models.targets import SavedTorch, TorchTarget
from miaudit.models.train_config import TrainConfig
from miaudit.models.weights import load

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
WRAPPINGS: dict[str, Any] = {
    "dictionary": lambda z: {"logits": z, "hidden": z * 2},
    "ordered": lambda z: OrderedDict(loss=z.sum(), logits=z),
    "tuple": lambda z: (z, None),
    "object": lambda z: SimpleNamespace(logits=z),
    "only": lambda z: {"scores": z},
}


class Net(nn.Module):
    def __init__(self, wrapping: str = "") -> None:
        super().__init__()
        self.body = nn.Linear(5, 2)
        self.wrapping = wrapping

    def forward(self, x: torch.Tensor) -> Any:
        z = self.body(x)
        return WRAPPINGS[self.wrapping](z) if self.wrapping else z


def trained(target: TorchTarget) -> np.ndarray:
    included = inclusion(40, 2, rng=np.random.default_rng(1))
    found = shadow.train(target, X, Y, included, seed=0)
    return np.stack([found.model(m) for m in range(2)])


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapped_network_trains_as_the_plain_one(wrapping: str) -> None:
    config = TrainConfig(epochs=1, batch=10)
    np.testing.assert_array_equal(
        trained(TorchTarget(lambda: Net(wrapping), config)), trained(TorchTarget(Net, config))
    )


def test_another_key_is_named_and_changes_the_fingerprint() -> None:
    config = TrainConfig(epochs=1, batch=10)
    hidden, plain = (TorchTarget(lambda: Net("dictionary"), config, output=key) for key in ("hidden", "logits"))
    assert trained(hidden).shape == trained(plain).shape
    assert hidden.identity() != plain.identity()
    with pytest.raises(MiauditError, match=r"expected the key 'nothing', received a dictionary with logits, hidden"):
        trained(TorchTarget(lambda: Net("dictionary"), config, output="nothing"))


def checkpoints() -> dict[str, Any]:
    own = Net().state_dict()
    return {
        "trainer": {"model_state_dict": own, "optimizer": {"lr": 0.1}, "epoch": 3},
        "lightning": {"state_dict": {f"model.{name}": values for name, values in own.items()}, "epoch": 1},
        "model": {"model": own},
        "parallel": {f"module.{name}": values for name, values in own.items()},
        "compiled": {f"_orig_mod.module.{name}": values for name, values in own.items()},
    }


@pytest.mark.parametrize("form", checkpoints())
def test_checkpoints_are_the_weights_in_them(form: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    content = checkpoints()[form]
    torch.save(content, tmp_path / "w.pt")
    inner = next((content[k] for k in ("model_state_dict", "state_dict", "model") if k in content), content)
    bare = {name.rpartition("body.")[2]: values for name, values in inner.items()}
    expected = X @ bare["weight"].numpy().T + bare["bias"].numpy()
    np.testing.assert_allclose(SavedTorch(Net, tmp_path / "w.pt").outputs(None, X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_without_loss_also_of_a_network_of_its_kind(kind: torch.dtype, tmp_path: Path) -> None:
    state = {name: values.to(kind) for name, values in Net().state_dict().items()}
    torch.save(state, tmp_path / "w.pth")
    assert {one.dtype for one in load(tmp_path / "w.pth").values()} == {torch.float32}
    by_half, by_single = (SavedTorch(make, tmp_path / "w.pth") for make in (lambda: Net().to(kind), Net))
    np.testing.assert_array_equal(by_half.outputs(None, X), by_single.outputs(None, X))
    assert by_single.identity()


def test_a_wrong_architecture_is_still_refused(tmp_path: Path) -> None:
    torch.save({"module.other": torch.zeros(2)}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"body.weight is missing"):
        SavedTorch(Net, tmp_path / "w.pt")


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "m.pickle"])
def test_a_pickle_is_refused_with_the_line_that_exports_it(name: str) -> None:
    for refused in (lambda: refuse_pickle(name, "model"), lambda: SavedTorch(Net, name)):
        with pytest.raises(InputError, match=r"skl2onnx\.to_onnx\(model, X\[:1\]\), or skops\.io\.dump"):
            refused()


def test_what_is_no_wrapping_stays() -> None:
    values = np.zeros((2, 2))
    assert tensor_of(values, "logits") is values
    assert tensor_of([1, 2], "logits") == [1, 2]
    with pytest.raises(InputError, match="no keys"):
        tensor_of({}, "logits")


@pytest.mark.parametrize("found", [[{"label": "a", "score": 0.9}], [[{"label": "a", "score": 0.9}]]])
def test_what_a_pipeline_returns_is_refused_with_the_line_that_asks_the_model(found: list[object]) -> None:
    with pytest.raises(InputError, match=r"a pipeline of Hugging Face.*model\(\*\*tokenizer\(texts"):
        tensor_of(found, "logits")
