"""Labels that stay sealed until a challenger's scores are in: a salted commitment for each, opened with a key file.

Half of the units is sealed, not half of the records: an open label of a unit would tell the sealed ones beside it. And
the records are shuffled: members often stand before non-members in a file.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.bundle.sharing import KEY_BYTES
from miaudit.errors import InputError, OutputError, one_line
from miaudit.whole import write_atomically

SEALED = -1
_FORMAT = 1
_SALT = 16
_LARGEST_FILE = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Keys:
    """What the owner of a bundle keeps: it opens sealed labels, and ties pseudonyms to names.

    Attributes
    ----------
    pseudonyms : 32 random bytes
    rows : array (m,) of indices of the sealed records, rising
    labels : array (m,) of bool, whether each is a member
    salts : array (m, 16) of uint8
    order : array (n,), the place in the owner's evidence of each record of the bundle; None where it was not shuffled
    """

    pseudonyms: bytes
    rows: NDArray[np.int64]
    labels: NDArray[np.bool_]
    salts: NDArray[np.uint8]
    order: NDArray[np.int64] | None = None

    @classmethod
    def new(
        cls,
        member: NDArray[np.bool_],
        *,
        seal: bool,
        unit: NDArray[np.int64] | None = None,
        order: NDArray[np.int64] | None = None,
    ) -> Keys:
        """Draw keys from the operating system, and a random half of the units to seal if wanted.

        The generator of an audit is not used: who knows its seed would know the salts.
        """
        code = np.arange(len(member)) if unit is None else unit
        units = int(code.max()) + 1 if len(code) else 0
        chosen = secrets.SystemRandom().sample(range(units), units // 2) if seal else []
        rows = np.flatnonzero(np.isin(code, chosen)).astype(np.int64)
        salts = np.frombuffer(secrets.token_bytes(_SALT * len(rows)), dtype=np.uint8).reshape(-1, _SALT)
        return cls(secrets.token_bytes(KEY_BYTES), rows, member[rows], salts, order)

    def commitments(self) -> NDArray[np.uint8]:
        """Return a commitment (m, 32) to each sealed label: it binds the owner and tells nobody else anything."""
        return _commitments(self.rows, self.labels, self.salts)

    def opens(self, rows: NDArray[Any], commitments: NDArray[Any]) -> bool:
        """Whether these keys fit the sealed labels of a bundle."""
        return bool(np.array_equal(self.rows, rows) and np.array_equal(self.commitments(), commitments))

    def write(self, path: Path) -> None:
        """Write the key file, readable by its owner only; an earlier one is never overwritten.

        Raises
        ------
        OutputError
            If the file is there already or cannot be written.
        """
        content = {
            "format": _FORMAT,
            "pseudonyms": self.pseudonyms.hex(),
            "rows": self.rows.tolist(),
            "labels": self.labels.tolist(),
            "salts": self.salts.tobytes().hex(),
            "order": None if self.order is None else self.order.tolist(),
        }
        try:
            text = json.dumps(content)
            write_atomically(path, lambda target: _write_text(target, text), replace=False, mode=0o600)
        except FileExistsError as error:
            raise OutputError(one_line(f"{path}: keys are there already, and are kept; name another bundle")) from error
        except OSError as error:
            raise OutputError(one_line(f"{path}: cannot be written ({error.strerror or error})")) from error

    @classmethod
    def read(cls, path: str | Path) -> Keys:
        """Read a key file.

        Raises
        ------
        InputError
            If it is missing, damaged or no key file.
        """
        from miaudit import tables  # noqa: PLC0415

        path = tables.existing_file(path, "key", (".json",))
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError("key", "a file below 1 GB", f"{path.stat().st_size:,} bytes", "this is no key file")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError("another format")
            rows = np.asarray(content["rows"], dtype=np.int64)
            labels = np.asarray([_truth(value) for value in content["labels"]], dtype=np.bool_)
            salts = np.frombuffer(bytes.fromhex(content["salts"]), dtype=np.uint8).reshape(len(rows), _SALT)
            if rows.ndim != 1 or labels.shape != rows.shape:
                raise ValueError("columns of unequal length")
            order = None if content.get("order") is None else np.asarray(content["order"], dtype=np.int64)
            return cls(bytes.fromhex(content["pseudonyms"]), rows, labels, salts, order)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
            raise InputError(
                "key", "the key file that miaudit wrote", f"{path.name} ({str(error)[:60]})", "ask its owner"
            ) from error


def shuffled(n: int) -> NDArray[np.int64]:
    """Return 0 to n - 1 in an order drawn from the operating system."""
    return np.array(secrets.SystemRandom().sample(range(n), n), dtype=np.int64)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("labels are true or false")
    return value


def _commitments(rows: NDArray[Any], labels: NDArray[Any], salts: NDArray[Any]) -> NDArray[np.uint8]:
    found = [
        hashlib.sha256(b"miaudit label\x00" + int(row).to_bytes(8, "little") + bytes([bool(label)]) + salt.tobytes())
        for row, label, salt in zip(rows, labels, salts, strict=True)
    ]
    return np.frombuffer(b"".join(h.digest() for h in found), dtype=np.uint8).reshape(-1, 32)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
