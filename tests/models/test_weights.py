"""Weights in files: safe formats only, written whole or not at all, refused where they do not fit."""

from __future__ import annotations

import pickle
import zipfile

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from miaudit.errors import InputError, OutputError  # noqa: E402
from miaudit.models import nets, weights  # noqa: E402

MLP = nets.mlp(4, 3)


def test_weights_come_back_bit_for_bit(tmp_path) -> None:
    state = MLP().state_dict()
    path = weights.save(state, tmp_path / "folder" / "model.safetensors")
    found = weights.load(path)
    assert list(found) == sorted(state) or list(found) == list(state)
    assert all(torch.equal(found[name], state[name]) for name in state)
    torch.save(state, tmp_path / "model.pt")
    other = weights.load(tmp_path / "model.pt")
    assert all(torch.equal(other[name], state[name]) for name in state)
    assert weights.network(MLP, found).training is False
    assert [p.name for p in path.parent.iterdir()] == ["model.safetensors"]


def test_tensors_that_share_memory_are_saved(tmp_path) -> None:
    both = torch.ones(4)
    found = weights.load(weights.save({"a": both, "b": both[:2]}, tmp_path / "x.safetensors"))
    assert found["b"].tolist() == [1, 1]


def test_a_failed_write_leaves_the_older_file(tmp_path, monkeypatch) -> None:
    import safetensors.torch

    path = weights.save(MLP().state_dict(), tmp_path / "model.safetensors")
    before = path.read_bytes()

    def full(tensors, target) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OutputError, match="No space left"):
        weights.save(MLP().state_dict(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


def test_a_pickle_is_never_opened(tmp_path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"weight": Trap()}, path)
    with pytest.raises(InputError, match="never unpickled"):
        weights.load(path)
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=r"model\.pt"):
        weights.load(path)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 7, 0.5])
def test_a_damaged_file_is_one_line(tmp_path, suffix, keep) -> None:
    path = tmp_path / f"model{suffix}"
    if suffix == ".pt":
        torch.save(MLP().state_dict(), path)
    else:
        weights.save(MLP().state_dict(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else keep])
    with pytest.raises(InputError, match=f"model{suffix}") as caught:
        weights.load(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_table_of_tensors_is_refused(tmp_path) -> None:
    torch.save({"net": MLP().state_dict(), "epoch": 3}, tmp_path / "model.pt")
    with pytest.raises(InputError, match="keys epoch, net"):
        weights.load(tmp_path / "model.pt")
    torch.save(torch.ones(3), tmp_path / "model.pt")
    with pytest.raises(InputError, match="a Tensor"):
        weights.load(tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"safetensors or \.pt or \.pth"):
        (tmp_path / "model.h5").write_bytes(b"")
        weights.load(tmp_path / "model.h5")
    with pytest.raises(InputError, match=r"no pickle holds.*skl2onnx"):
        (tmp_path / "model.pkl").write_bytes(b"")
        weights.load(tmp_path / "model.pkl")
    with pytest.raises(InputError, match="does not exist"):
        weights.load(tmp_path / "none.pt")
    with pytest.raises(InputError, match=r"\.safetensors"):
        weights.save({}, tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (nets.mlp(5, 3)().state_dict(), r"1.weight has shape \(128, 5\) instead of \(128, 4\)"),
        (nets.mlp(4, 3, hidden=())().state_dict(), r"1.weight has shape"),
        ({}, "1.weight is missing"),
        (MLP().state_dict() | {"extra": torch.ones(1)}, "extra is in no layer"),
    ],
)
def test_weights_of_another_architecture_are_refused(state, words) -> None:
    with pytest.raises(InputError, match=words):
        weights.network(MLP, state)


def test_a_program_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as archive:
        for name in ("data.pkl", "constants.pkl", "code/__torch__/linear.py"):
            archive.writestr(f"w/{name}", "")
    with pytest.raises(InputError, match="a program of TorchScript; load it with"):
        weights.load(tmp_path / "w.pt")
