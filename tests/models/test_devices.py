"""Devices by name, as many as are there, how exactly they compute, and what a page says of them.

No GPU is needed: ``torch.cuda.device_count`` and the driver's list are all that is asked, and are replaced here.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from miaudit.errors import InputError  # noqa: E402
from miaudit.jobs import resources  # noqa: E402
from miaudit.jobs.executor import Local, Ray  # noqa: E402
from miaudit.jobs.resources import Gpu, Resources  # noqa: E402
from miaudit.models import devices, nets, shadow  # noqa: E402
from miaudit.models.targets import SavedTorch, TorchTarget  # noqa: E402
from miaudit.models.train_config import TrainConfig  # noqa: E402

H200 = (Gpu("GPU-aa", "NVIDIA H200"), Gpu("GPU-bb", "NVIDIA H200"))


def machine(monkeypatch: pytest.MonkeyPatch, *, usable: int, listed: tuple[Gpu, ...]) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: usable)
    monkeypatch.setattr(resources, "gpus", lambda: listed)


def test_names_mean_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, usable=2, listed=H200)
    assert str(devices.device_of("auto")) == str(devices.device_of("cuda")) == "cuda:0"
    assert str(devices.device_of("cuda:1")) == "cuda:1"
    assert (devices.kind_of("auto"), devices.kind_of("cuda:1"), devices.kind_of("cpu")) == ("cuda", "cuda", "cpu")
    with pytest.raises(InputError, match=r"device: expected cuda:0 to cuda:1 here, received cuda:2"):
        devices.device_of("cuda:2")
    machine(monkeypatch, usable=0, listed=())
    assert (devices.device_of("auto").type, devices.kind_of("auto")) == ("cpu", "cpu")
    with pytest.raises(
        InputError, match="device: expected auto or cpu on this machine, received cuda; torch sees no GPU"
    ):
        devices.device_of("cuda")
    for name in ("gpu", "cuda:", "cuda:x", "mps", ""):
        with pytest.raises(InputError, match="device: expected auto, cpu, cuda or cuda:N"):
            devices.device_of(name)
        with pytest.raises(InputError, match="device: expected auto, cpu, cuda or cuda:N"):
            TrainConfig(device=name)


def test_a_gpu_that_the_driver_lists_and_torch_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, usable=0, listed=H200)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(InputError, match=r"no GPU here, though the driver lists NVIDIA H200: torch .* without CUDA"):
        devices.device_of("cuda")
    (note,) = devices.said("auto")
    assert "on the CPU" in note
    assert "NVIDIA H200" in note
    assert "without CUDA" in note


def test_a_page_says_which_device_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, usable=2, listed=H200)
    (note,) = devices.said("auto")
    assert "on a GPU (NVIDIA H200)" in note
    assert "without TF32" in note
    assert "in TF32;" in devices.said("cuda", tf32=True, mixed=True)[0]
    assert "bfloat16" in devices.said("cuda", tf32=True, mixed=True)[0]
    assert "as asked" in devices.said("cpu")[0]
    machine(monkeypatch, usable=0, listed=())
    assert devices.said("auto") == devices.said("cpu") == ()


MLP = nets.mlp(3, 2, (4,))


def target(device: str = "auto", **options) -> TorchTarget:
    return TorchTarget(MLP, TrainConfig(epochs=1, device=device, **options))


def test_fits_are_placed_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(name: str, where: Local | Ray) -> tuple[str, bool]:
        found, place = shadow.placed(target(name), where)
        return found.device, getattr(place, "deals", True)

    machine(monkeypatch, usable=2, listed=H200)
    assert device("auto", Local(2)) == ("cuda", True)  # a worker without one says so, and does not use its CPU
    assert device("cuda:1", Local(2)) == ("cuda:1", False)
    assert device("auto", Local(2, Resources(gpus=0))) == ("cpu", True)
    assert device("auto", Ray("", 2)) == ("cpu", True)
    assert device("auto", Ray("", 2, Resources(gpus=0.5))) == ("cuda", True)
    machine(monkeypatch, usable=0, listed=())
    assert device("auto", Local(2)) == ("auto", True)
    assert device("auto", Ray("", 2, Resources(gpus=1))) == ("cuda", True)  # the cluster's
    for name, where, words in (
        ("cuda", Local(2), "torch sees no GPU here"),
        ("cuda", Ray("", 2), "where fits are given no GPU"),
        ("cuda", Local(1, Resources(gpus=0)), "where fits are given no GPU"),
        (
            "auto",
            Local(1, Resources(gpus=0.5)),
            r"^gpus: expected none, or 0, received 0\.5 for each fit",
        ),
        ("cuda:1", Ray("", 2, Resources(gpus=1)), "leave the number out"),
    ):
        with pytest.raises(InputError, match=words):
            device(name, where)


def test_the_fingerprint_holds_the_kind_that_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros((8, 3)), np.arange(8) % 2
    included = shadow.inclusion(8, 2, rng=np.random.default_rng(0))

    def decides(name: str, where: Local | Ray) -> dict[str, str]:
        return shadow.Fits(shadow.placed(target(name), where)[0], x, y, included, 0).decides()

    machine(monkeypatch, usable=0, listed=())
    on_cpu = decides("auto", Local())
    assert "device" not in on_cpu  # as in stores from before
    assert decides("cpu", Local()) == on_cpu
    machine(monkeypatch, usable=2, listed=H200)
    on_gpu = decides("auto", Local())
    assert on_gpu == {**on_cpu, "device": "cuda"}
    assert decides("cuda", Local()) == decides("cuda:1", Local()) == on_gpu
    assert decides("auto", Local(1, Resources(gpus=0))) == on_cpu


def test_threads_are_in_the_fingerprint_where_there_are_more_than_one() -> None:
    x, y = np.zeros((8, 3)), np.arange(8) % 2
    included = shadow.inclusion(8, 2, rng=np.random.default_rng(0))
    one, two = (shadow.Fits(target("cpu"), x, y, included, 0, threads=number).decides() for number in (1, 2))
    assert two == {**one, "threads": "2"}


def settings() -> list[str]:
    backends = torch.backends
    places = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
    return [place.fp32_precision for place in places]


@pytest.mark.parametrize("tf32", [False, True])
def test_products_are_as_stated_in_fits_and_outputs_and_restored(tf32: bool, asked_for_tf32: None) -> None:
    seen: list[list[str]] = []

    class Watched(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(settings())
            return super().forward(x)

    config = TrainConfig(epochs=1, batch=4, device="cpu", tf32=tf32)
    made = TorchTarget(lambda: Watched(3, 2), config)
    x, y = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 2
    made.outputs(made.fit(x, y, np.arange(8), seed=0), x)
    assert {tuple(one) for one in seen} == {("tf32" if tf32 else "ieee",) * 3 + ("ieee",)}
    assert settings()[:3] == ["tf32"] * 3


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_saved_weights_in_half_precision_have_an_identity(tmp_path, precision) -> None:
    net = MLP()
    torch.save({name: value.to(precision) for name, value in net.state_dict().items()}, tmp_path / "half.pt")
    torch.save({name: 2 * value.to(precision) for name, value in net.state_dict().items()}, tmp_path / "other.pt")
    one, again, other = (SavedTorch(MLP, tmp_path / name).identity() for name in ("half.pt", "half.pt", "other.pt"))
    assert one == again != other


def test_saved_weights_in_8_bits_have_an_identity_too(tmp_path) -> None:
    weights = {name: value.to(torch.float8_e4m3fn) for name, value in MLP().state_dict().items()}
    torch.save(weights, tmp_path / "small.pt")
    made = SavedTorch(MLP, tmp_path / "small.pt")
    assert made.identity() == SavedTorch(MLP, tmp_path / "small.pt").identity()
    assert made.outputs(None, np.ones((2, 3))).shape == (2, 2)


def test_sums_have_a_fixed_order_on_a_gpu_too_and_the_choice_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn = torch.backends.cudnn
    for deterministic, benchmark in ((False, True), (True, False)):
        monkeypatch.setattr(cudnn, "deterministic", deterministic)
        monkeypatch.setattr(cudnn, "benchmark", benchmark)
        with pytest.raises(ZeroDivisionError), devices.fixed_order(torch.device("cuda", 0)):
            assert (cudnn.deterministic, cudnn.benchmark) == (True, False)
            raise ZeroDivisionError
        assert (cudnn.deterministic, cudnn.benchmark) == (deterministic, benchmark)
