"""transformers without the network, and without code from a hub; every module takes it from here.

A configuration that was saved by somebody else may name code: in the folder, on a hub, or in another package. The names
are refused here, wherever in the configuration they are, and the libraries are told that there is no network.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from miaudit.errors import InputError

__all__ = ["foreign_code", "no_network", "refuse_code", "transformers"]

_SWITCHES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_SAFETENSORS_CONVERSION": "1",
    "USE_HUB_KERNELS": "0",
}
os.environ.update(_SWITCHES)  # read by the next import, and by processes that this one starts

import transformers  # noqa: E402

_ATTENTION = ("eager", "sdpa")  # of transformers and torch themselves; any other may be a name on a hub
_NEVER = {  # key: what it does
    "auto_map": "code of its own",
    "trust_remote_code": "code of its own",
    "custom_pipelines": "code of its own",
    "custom_generate": "code of its own",
    "use_kernels": "kernels of a hub",
    "kernel_config": "kernels of a hub",
    "quantization_config": "weights that other packages and kernels unpack",
    "compression_config": "weights that other packages unpack",
    "use_pretrained_backbone": "weights of a hub",
    "use_timm_backbone": "another package",
    "transformers_weights": "weights of another name",
}


def foreign_code(content: Any) -> Iterator[str]:
    """Name what a configuration asks for, at any depth, that is not transformers' own."""
    if isinstance(content, list):
        for one in content:
            yield from foreign_code(one)
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        name = str(key)
        if name in _NEVER and value:
            yield f"{name}, {_NEVER[name]}"
        elif "_implementation" in name:
            for one in value.values() if isinstance(value, dict) else [value]:
                if one is not None and one not in _ATTENTION:
                    yield f"{name} {str(one)[:60]!r}, code of a hub or of another package"
        yield from foreign_code(value)


def refuse_code(content: Any, file: str) -> None:
    """Refuse a configuration that asks for foreign code.

    Raises
    ------
    InputError
        That names the key.
    """
    asks = next(foreign_code(content), "")
    if asks:
        allowed = f"an architecture of transformers with plain weights, attention {' or '.join(_ATTENTION)}"
        raise InputError(
            "model", allowed, f"{file} with {asks}", "code of a folder is never run; save without that key"
        )


@contextlib.contextmanager
def no_network() -> Iterator[None]:
    """Tell the hub's library that there is no network, also where it was imported before this module."""
    import huggingface_hub.constants as hub  # noqa: PLC0415

    before: Any = hub.HF_HUB_OFFLINE
    hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        hub.HF_HUB_OFFLINE = before
