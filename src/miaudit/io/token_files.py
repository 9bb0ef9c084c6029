"""Files of token log-probabilities by their ending: one JSON object on each line (.jsonl), or columns (.parquet)."""

from __future__ import annotations

from pathlib import Path

from miaudit.io import tables, token_parquet, token_records
from miaudit.io.token_records import Limits, TokenRecords

__all__ = ["SUFFIXES", "read", "write"]

SUFFIXES = (*token_records.SUFFIXES, *token_parquet.SUFFIXES)


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
