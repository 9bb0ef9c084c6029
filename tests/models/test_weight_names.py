"""Weights as the field's tools write them, wrapped once or more and in both formats, give the plain outputs."""

from __future__ import annotations

import datetime
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import weights  # noqa: E402
from miaudit.models.torch_target import SavedTorch  # noqa: E402
from miaudit.models.weight_names import named_as  # noqa: E402

X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
State = dict[str, Any]


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


class Tied(torch.nn.Module):
    """Two layers that share a tensor, as the embedding and the head of a language model do."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.c(self.b(torch.relu(self.a(x))))


class HasModule(torch.nn.Module):
    """A network whose own layer is called as a wrapper is."""

    def __init__(self) -> None:
        super().__init__()
        self.module = torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.module(x)


NETS: dict[str, Callable[[], Any]] = {"plain": Plain, "tied": Tied, "module": HasModule}
# What each tool writes before the names; opacus is not installed here, so its GradSampleModule is imitated.
BEFORE = {
    "plain": "",
    "opacus": "_module.",
    "ddp": "module.",
    "compile": "_orig_mod.",
    "lightning": "model.",
    "lightning, another name": "classifier.",
    "opacus in ddp": "_module.module.",
    "ddp of compile": "module._orig_mod.",
    "compile of ddp": "_orig_mod.module.",
    "compile of opacus": "_orig_mod._module.",
    "lightning of compile": "model._orig_mod.",
    "lightning of opacus": "model._module.",
    "lightning of ddp of compile": "net.module._orig_mod.",
    "fsdp": "_fsdp_wrapped_module.",
}
AROUND: dict[str, Callable[[State], Any]] = {
    "alone": lambda state: state,
    "checkpoint": lambda state: {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": {"state": {}}},
    "lightning": lambda state: {
        "state_dict": state,
        "pytorch-lightning_version": "2.4.0",
        "hyper_parameters": {"lr": 0.1, "args": Namespace(depth=2)},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.ones(()), "dirpath": Path("runs")}},
    },
    "deepspeed": lambda state: {"module": state, "global_steps": 10},
    "numpy beside": lambda state: {"model": state, "accuracy": np.float64(0.5), "best": np.int64(3), "x": np.ones(2)},
    "numpy among": lambda state: {**state, "accuracy": np.float64(0.5), "epoch": np.int32(3), "when": "today"},
    "dates": lambda state: {"state_dict": state, "when": datetime.date(2026, 3, 1)},
}


def trained(net: str) -> tuple[State, Any]:
    torch.manual_seed(1)
    made = NETS[net]()
    for value in made.buffers():
        if value.is_floating_point():
            torch.nn.init.uniform_(value, 0.5, 1.5)
    with torch.no_grad():
        expected = made.eval()(torch.from_numpy(X)).numpy()
    return made.state_dict(), expected


def asked(net: str, path: Path) -> Any:
    return SavedTorch(NETS[net], path).outputs(None, X)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("tool", BEFORE)
def test_every_tool_in_both_formats_gives_equal_outputs(tool: str, net: str, tmp_path: Path) -> None:
    state, expected = trained(net)
    wrapped = {f"{BEFORE[tool]}{name}": values for name, values in state.items()}
    torch.save(wrapped, tmp_path / "w.pt")
    np.testing.assert_array_equal(asked(net, tmp_path / "w.pt"), expected)
    weights.save(wrapped, tmp_path / "w.safetensors")
    np.testing.assert_array_equal(asked(net, tmp_path / "w.safetensors"), expected)
    holder = torch.nn.Module()  # as save_model writes it: a tensor that layers share is kept once
    kept = NETS[net]()
    kept.load_state_dict(state)
    parts = BEFORE[tool].split(".")[:-1]
    inner = holder
    for part in parts[:-1]:
        inner.add_module(part, torch.nn.Module())
        inner = getattr(inner, part)
    if parts:
        inner.add_module(parts[-1], kept)
    safetensors.save_model(holder if parts else kept, str(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(asked(net, tmp_path / "m.safetensors"), expected)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("tool", ["plain", "opacus", "lightning of compile"])
def test_what_stands_beside_the_weights_is_left_out(tool: str, around: str, tmp_path: Path) -> None:
    state, expected = trained("plain")
    wrapped = {f"{BEFORE[tool]}{name}": values for name, values in state.items()}
    torch.save(AROUND[around](wrapped), tmp_path / "w.ckpt")
    np.testing.assert_array_equal(asked("plain", tmp_path / "w.ckpt"), expected)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # torch.compile loads what torch itself calls deprecated
@pytest.mark.parametrize(
    "wrap",
    [torch.compile, torch.nn.DataParallel, torch.optim.swa_utils.AveragedModel],
    ids=["compile", "parallel", "averaged"],
)
def test_the_wrappers_of_torch_itself(wrap: Any, tmp_path: Path) -> None:
    state, expected = trained("plain")
    made = Plain()
    made.load_state_dict(state)
    torch.save(wrap(made).state_dict(), tmp_path / "w.pt")
    np.testing.assert_array_equal(asked("plain", tmp_path / "w.pt"), expected)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_part_of_the_network_may_be_wrapped(tmp_path: Path) -> None:
    state, expected = trained("plain")
    for part in ("_orig_mod", "module", "_checkpoint_wrapped_module"):
        torch.save({name.replace("body.", f"body.{part}."): one for name, one in state.items()}, tmp_path / "w.pt")
        np.testing.assert_array_equal(asked("plain", tmp_path / "w.pt"), expected)
    factory = lambda: torch.compile(Plain())  # noqa: E731 - the other way round: the factory compiles
    torch.save(state, tmp_path / "w.pt")
    assert len(weights.network(factory, weights.load(tmp_path / "w.pt")).state_dict()) == len(state)


def test_what_belongs_to_the_wrapper_is_left_out_and_what_belongs_to_no_layer_is_refused(tmp_path: Path) -> None:
    state, expected = trained("plain")
    held = {f"model.{name}": one for name, one in state.items()}
    torch.save({**held, "criterion.weight": torch.ones(3)}, tmp_path / "w.pt")
    np.testing.assert_array_equal(asked("plain", tmp_path / "w.pt"), expected)
    for extra in ({**held, "model.extra": torch.ones(1)}, {**state, "extra": torch.ones(1)}):
        torch.save(extra, tmp_path / "w.pt")
        with pytest.raises(InputError, match="extra is in no layer"):
            asked("plain", tmp_path / "w.pt")
    torch.save({**held, **{f"ema.{name}": one for name, one in state.items()}}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"fit behind 'model.' and 'ema.'; save the state_dict of the audited one"):
        asked("plain", tmp_path / "w.pt")


def test_a_shared_tensor_has_one_value(tmp_path: Path) -> None:
    state, expected = trained("tied")
    torch.save({name: one for name, one in state.items() if name != "a.weight"}, tmp_path / "w.pt")
    np.testing.assert_array_equal(asked("tied", tmp_path / "w.pt"), expected)
    torch.save({**state, "b.weight": torch.ones(4, 4)}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"one tensor for a\.weight and b\.weight, which share it"):
        asked("tied", tmp_path / "w.pt")
    # The control: without either of the two nothing can be filled in.
    torch.save({name: one for name, one in state.items() if name[2:] != "weight" or name[0] == "c"}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"a\.weight is missing"):
        asked("tied", tmp_path / "w.pt")


def test_a_missing_counter_of_batch_normalisation_does_not_matter(tmp_path: Path) -> None:
    state, expected = trained("plain")
    torch.save({name: one for name, one in state.items() if "tracked" not in name}, tmp_path / "w.pt")
    np.testing.assert_array_equal(asked("plain", tmp_path / "w.pt"), expected)
    torch.save({name: one for name, one in state.items() if "running_var" not in name}, tmp_path / "w.pt")
    with pytest.raises(InputError, match="running_var is missing"):
        asked("plain", tmp_path / "w.pt")


class Trap:
    """An object whose making runs code, of a package whose plain objects are let stand."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        from numpy.testing._private import utils

        return utils.runstring, (f"open({str(self.path)!r}, 'w').close()", {})


def test_nothing_of_what_stands_beside_the_weights_runs(tmp_path: Path) -> None:
    state, expected = trained("plain")
    torch.save({"state_dict": state, "best": Trap(tmp_path / "ran")}, tmp_path / "w.pt")
    np.testing.assert_array_equal(asked("plain", tmp_path / "w.pt"), expected)
    assert not (tmp_path / "ran").exists()
    torch.save({"state_dict": {**state, "head.bias": Trap(tmp_path / "ran")}}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"head\.bias is missing"):
        asked("plain", tmp_path / "w.pt")
    assert not (tmp_path / "ran").exists()


def test_names_that_become_one_are_not_guessed() -> None:
    one, two = torch.ones(1), torch.zeros(1)
    found = named_as({"fc.weight": one}, {"_module.fc.weight": one, "fc.weight": two})
    assert set(found) == {"_module.fc.weight", "fc.weight"}
