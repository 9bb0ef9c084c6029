"""Extras of an installation: what each needs, what is missing, and the line that adds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

__all__ = ["EXTRAS", "missing_modules", "pip_line"]

EXTRAS = {
    "dp": ("dp_accounting",),
    "torch": ("torch", "safetensors"),
    "text": ("torch", "safetensors", "transformers"),
    "synthesis": ("torch", "safetensors", "networkx", "opendp"),
    "onnx": ("onnxruntime",),
    "mlflow": ("mlflow",),
    "ray": ("ray",),
    "storage": ("fsspec",),
}  # the modules that the extras of an installation cannot do without


def missing_modules(extras: Iterable[str]) -> list[str]:
    """Return the modules of some extras that are not installed, without importing any."""

    def is_there(module: str) -> bool:
        with contextlib.suppress(ImportError, ValueError):
            return find_spec(module) is not None
        return False

    modules = dict.fromkeys(module for extra in extras for module in EXTRAS[extra])
    return [module for module in modules if not is_there(module)]


def pip_line(*extras: str) -> str:
    """Return the line that adds extras to this installation, which may come from an index, a folder or a wheel.

    Examples
    --------
    >>> pip_line("dp", "ray").rpartition("[")[2]
    "dp,ray]'"
    """
    origin = "miaudit"
    metadata = import_module("importlib.metadata")  # loaded where something is missing
    with contextlib.suppress(metadata.PackageNotFoundError):
        told = metadata.distribution("miaudit").read_text("direct_url.json") or "{}"
        url = urlsplit(json.loads(told).get("url", ""))
        origin = unquote(url.path) if url.scheme == "file" else origin
    smaller = " (without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu: 1.6 GB in place of 6)"
    networks = any("torch" in EXTRAS[extra] for extra in extras)
    return f"pip install '{origin}[{','.join(extras)}]'{smaller if networks else ''}"
