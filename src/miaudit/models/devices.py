"""On which kind of device a network is trained and asked, how exactly it computes there, and what is said of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from miaudit.errors import InputError
from miaudit.jobs import resources
from miaudit.models.train_config import DEVICES

_ALLOWED = "auto, cpu, cuda or cuda:N"


def check_name(name: object) -> None:
    """Refuse what names no device, whether or not it is there."""
    if not isinstance(name, str) or DEVICES.fullmatch(name) is None:
        raise InputError("device", _ALLOWED, repr(name), "auto takes a GPU if there is one")


def usable() -> int:
    """How many GPUs torch can use here."""
    return torch.cuda.device_count()


def device_of(name: str) -> torch.device:
    """Return the device of a name, of which "auto" takes a GPU if there is one.

    Raises
    ------
    InputError
        For another name, or a GPU that is not there.
    """
    check_name(name)
    count = usable()
    if name == "cpu" or (name == "auto" and not count):
        return torch.device("cpu")
    if not count:
        raise InputError("device", "auto or cpu on this machine", name, f"torch sees no GPU here{_why()}")
    number = int(name.partition(":")[2] or 0)
    if number >= count:
        hint = "they are numbered from 0; CUDA_VISIBLE_DEVICES may hide others"
        raise InputError("device", f"cuda:0 to cuda:{count - 1} here", name, hint)
    return torch.device("cuda", number)


def _why() -> str:
    """Why torch may see none where the driver lists some."""
    if not resources.gpus():
        return ""
    listed = f", though the driver lists {resources.gpus()[0].name}"
    if torch.version.cuda is None:
        return f"{listed}: torch {torch.__version__} is built without CUDA"
    return f"{listed}: CUDA_VISIBLE_DEVICES hides it" if not resources.visible() else listed


def kind_of(name: str) -> str:
    """Return the kind of device that a name means here: "cpu" or "cuda"."""
    check_name(name)
    return ("cuda" if usable() else "cpu") if name == "auto" else name.partition(":")[0]


def said(name: str, *, tf32: bool = False, mixed: bool = False) -> tuple[str, ...]:
    """What a page says of the device: nothing of a CPU where there is no GPU.

    Parameters
    ----------
    name : as of :func:`device_of`
    tf32, mixed : whether products are taken in TF32, and what torch deems safe in bfloat16
    """
    listed = resources.gpus()
    if kind_of(name) == "cpu":
        if not listed and not usable():
            return ()
        why = "as asked" if name == "cpu" else _why().removeprefix(", ") or "since none was given to the fits"
        which = listed[0].name if listed else "which torch can use"
        return (f"Networks were trained and asked on the CPU, {why}, on a machine with a GPU ({which}).",)
    which = f" ({listed[0].name})" if listed else ""
    products = "in TF32" if tf32 else "in float32, without TF32"
    rounded = "; in bfloat16 where torch deems it safe" if mixed else ""
    return (f"Networks were trained and asked on a GPU{which}, matrix products and convolutions {products}{rounded}.",)


@contextmanager
def fixed_order(device: torch.device) -> Iterator[None]:
    """Take sums in a fixed order, so that equal seeds give equal models.

    On a CPU as many threads as the job may use (one by itself), which also keeps jobs apart; on a GPU no convolution
    whose gradient adds up in the order in which its threads arrive: after two passes such models were up to .02 of
    their way apart.
    """
    cudnn: Any = torch.backends.cudnn
    before = torch.get_num_threads(), cudnn.deterministic, cudnn.benchmark
    if device.type == "cpu":
        torch.set_num_threads(resources.threads())
    else:
        cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]


@contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """Take matrix products and convolutions of float32 in TF32, or exactly, whatever was asked for around it."""
    backends: Any = torch.backends
    with ExitStack() as open_:
        if hasattr(backends.cuda.matmul, "fp32_precision"):  # from PyTorch 2.9, which refuses to mix it with the other
            chosen = "tf32" if tf32 else "ieee"
            for one in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
                open_.callback(setattr, one, "fp32_precision", one.fp32_precision)
                one.fp32_precision = chosen
            for one in (backends.mkldnn.matmul, backends.mkldnn.conv):
                open_.callback(setattr, one, "fp32_precision", one.fp32_precision)
                one.fp32_precision = "ieee"
        else:
            open_.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            open_.callback(setattr, backends.cudnn, "allow_tf32", backends.cudnn.allow_tf32)
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            backends.cudnn.allow_tf32 = tf32
        yield
