"""Files of token log-probabilities by their ending: one JSON object on each line (.jsonl), or columns (.parquet)."""

from __future__ import annotations

import json
from pathlib import Path

from miaudit.errors import InputError
from miaudit.io import tables, token_parquet, token_records
from miaudit.io.token_records import Limits, TokenRecords

__all__ = ["SUFFIXES", "holds", "read", "write"]

_OF_TOKENS = {"logprobs", "choices", "prompt_logprobs", "response"}  # or what a server answered
SUFFIXES = (*token_records.SUFFIXES, *token_parquet.SUFFIXES)


def holds(path: Path) -> bool:
    """Whether a file is one of token log-probabilities, by its columns, or by the first line of a .jsonl.

    Raises
    ------
    InputError
        For a .jsonl of anything else, which nothing reads.
    """
    if path.suffix.lower() == ".parquet" and path.is_file():
        return token_parquet.holds_tokens(path, "file")
    if path.suffix.lower() not in token_records.SUFFIXES:
        return False
    with tables.existing_file(path, "file", SUFFIXES).open("rb") as handle:
        lines = iter(lambda: handle.readline(Limits().line_bytes), b"")
        line = next((line for line in lines if line.strip()), b"")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    keys = set(content) if isinstance(content, dict) else set()
    if not keys & _OF_TOKENS or "member" not in keys:
        allowed = "a JSON object on each line with id, member and logprobs"
        hint = "miaudit collect asks a model for them: docs/text.md"
        raise InputError("file", allowed, f"{path.name}, whose first line is none", hint)
    return True


def read(path: str | Path, *, limits: Limits | None = None) -> TokenRecords:
    """Read token log-probabilities from a .jsonl or a .parquet file.

    Parameters
    ----------
    path : as of :func:`token_records.read_jsonl` or :func:`token_parquet.read_parquet`
    limits : Limits, optional

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> held = TokenRecords(("a", "b"), np.array([True, False]), np.array([-1.0, -2.5, -0.5]), np.array([0, 2, 3]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/t.parquet", held)
    ...     read(f"{folder}/t.parquet").log_p
    array([-1. , -2.5, -0.5])
    """
    path = tables.existing_file(path, "token-logprobs", SUFFIXES)
    parquet = path.suffix.lower() in token_parquet.SUFFIXES
    return (token_parquet.read_parquet if parquet else token_records.read_jsonl)(path, limits=limits)


def write(path: str | Path, records: TokenRecords) -> None:
    """Write token log-probabilities to a .jsonl or a .parquet file, for :func:`read`."""
    path = tables.require_suffix(path, "path", SUFFIXES)
    parquet = path.suffix.lower() in token_parquet.SUFFIXES
    (token_parquet.write_parquet if parquet else token_records.write_jsonl)(path, records)
