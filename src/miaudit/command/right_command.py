"""Which command reads a file that another one was given: a line that names it, in place of a refusal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from miaudit.errors import InputError
from miaudit.io import tables

__all__ = ["DATA", "check"]

DATA = (".csv", ".parquet", ".npz", ".npy", ".jsonl")
_OF_MODEL = "describe it under target, with data, in a configuration: docs/your_model.md; then miaudit run"
_OTHERS = (
    ((".zip",), ("a bundle, if miaudit wrote it", "miaudit verify {file}")),
    ((".html",), ("a page", "miaudit report {folder} draws it again")),
    ((".onnx", ".safetensors"), ("a model", _OF_MODEL)),
    (
        (".pt", ".pth", ".ckpt", ".bin", ".h5", ".keras", ".gguf", ".tflite", ".pb"),
        ("a model, which is never unpickled here", _OF_MODEL),
    ),
    (
        (".pkl", ".pickle", ".joblib", ".dill"),
        ("a pickle, which is code and is never opened", "save its arrays by numpy.savez; a model: docs/your_model.md"),
    ),
    (
        (".xlsx", ".xls", ".ods", ".tsv", ".feather", ".arrow", ".rds", ".sav", ".dta", ".gz", ".bz2", ".xz", ".zst"),
        ("no .csv or .parquet", "save it as one of these, a .csv with commas"),
    ),
)
_HEAD = 2_000  # bytes of a .json or .jsonl file that are looked at


def check(path: Path, command: str) -> None:
    """Refuse a file that another command reads, and name that one; nothing is unpickled, and no model is opened.

    Parameters
    ----------
    path : of a file or folder; what is not there is left to the command
    command : that was given it: audit, run or init

    Raises
    ------
    InputError
        If it is findings, a bundle, a configuration or a model, or data where a configuration is wanted.
    """
    found = _found(path, command)
    if found is not None:
        what, step = found
        allowed = "a configuration (.yaml)" if command == "run" else "data (.csv, .parquet, .npz, .npy or .jsonl)"
        argument = "config" if command == "run" else "file"
        raise InputError(argument, allowed, f"{path.name or path}, {what}", step)


def _found(path: Path, command: str) -> tuple[str, str] | None:
    """What a file is, and the next step; None where the command may read it."""
    name, ending = shlex.quote(str(path)), path.suffix.lower()
    if path.is_dir():
        return _folder(path, name)
    if not path.is_file():
        return None
    if ending in (".yaml", ".yml"):
        return None if command == "run" else _configuration(path, name)
    if ending in (*DATA, *tables.FORMATS):
        step = f"miaudit audit {name} audits it, and miaudit init {name} drafts a configuration"
        return ("which is data", step) if command == "run" else None
    if ending == ".json":
        findings = re.search(r'^\s*\{\s*"format": \d', _start(path)) is not None
        step = f"miaudit report {name} draws its page" if findings else "write .jsonl, a record on each line, or .csv"
        return ("findings" if findings else "a .json file that holds no findings"), step
    known = next((advice for endings, advice in _OTHERS if ending in endings), None)
    return known and (known[0], known[1].format(file=name, folder=shlex.quote(str(path.parent))))


def _folder(path: Path, name: str) -> tuple[str, str] | None:
    if (path / "findings.json").is_file():
        return "a results folder", f"miaudit report {name} draws its page"
    if (path / "config.json").is_file():
        step = "name it under target, with texts under data, in a configuration: docs/text.md; then miaudit run"
        return "a folder with a model", step
    return None


def _configuration(path: Path, name: str) -> tuple[str, str]:
    """Which command reads a configuration, by its sections."""
    sections = set(re.findall(r"^(\w+):", _start(path), flags=re.M))
    if "columns" in sections:
        return "a schema or graph", "a configuration names it: miaudit synthesise, docs/synthesis.md"
    reader = "disclosure" if "disclosure" in sections else "synthesise" if "graph" in sections else "run"
    return "a configuration", f"miaudit {reader} {name}"


def _start(path: Path) -> str:
    with path.open("rb") as handle:
        return handle.read(_HEAD).decode("utf-8", errors="replace")
