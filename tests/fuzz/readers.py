"""Every reader of files from strangers, valid files to start from, and a mutator: the parts of the fuzzing.

A reader may refuse a file in one line (``MiauditError``), or read it. Whatever else it raises is a crash.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import miaudit as ma
from miaudit import config, tables
from miaudit.attacks import tokens
from miaudit.bundle import contents, record
from miaudit.bundle.sealing import Keys
from miaudit.bundle.verify import verify
from miaudit.errors import MiauditError
from miaudit.plan import Plan
from miaudit.records import Records
from miaudit.report import kinds

CORPUS = Path(__file__).parent / "corpus"
WORDS = [
    *(b"NaN", b"Infinity", b"-1", b"1e999", b"99999999999999999999", b"null", b"true", b"[]", b"{}", b'""', b"\\u0000"),
    *(
        b"../../etc/passwd",
        b"!!python/object/apply:os.system",
        b"&a",
        b"*a",
        b"<<: *a",
        b"\x00",
        b"\xff\xfe",
        b"\xe2\x80\xa8",
    ),
    *(
        b"|O",
        b"<f8",
        b"'shape': (1000000000000,)",
        b"PK\x03\x04",
        b"PAR1",
        b"<script>",
        b'"' * 50,
        b"[" * 2000,
        b"{" * 2000,
    ),
]


@dataclass(frozen=True)
class Reader:
    """A reader by name, the ending of its files, what reads one, and valid files."""

    name: str
    suffix: str
    read: Callable[[Path], Any]
    seeds: Callable[[], list[bytes]]


def evidence() -> ma.Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(60) < 0.5
    return ma.Evidence(score=rng.normal(size=60) + member, member=member, design="one-run")


def saved(suffix: str) -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"e{suffix}"
        evidence().save(path)
        return [path.read_bytes()]


def bundled() -> list[bytes]:
    import tempfile

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seal in (False, True):
            path = Path(folder) / f"{seal}.zip"
            record(evidence(), plan=Plan(bounds=None), rng=np.random.default_rng(1), seal=seal)[1].write(path)
            found.append(path.read_bytes())
    return found


def keys() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.key.json"
        Keys.new(evidence().member, seal=True).write(path)
        return [path.read_bytes()]


def found() -> list[bytes]:
    return [ma.audit(evidence(), plan=Plan(bounds=None), rng=np.random.default_rng(0)).to_json().encode()]


def array() -> list[bytes]:
    handle = io.BytesIO()
    np.save(handle, np.arange(12.0))
    return [handle.getvalue()]


CONFIG = [
    b"model: {name: m}\nattack: {fpr_targets: [0.01, 0.1]}\nevaluation: {member_losses_path: x.npy, "
    b"nonmember_losses_path: x.npy, seed: 1, output_dir: out}\n",
    b"target: {kind: sklearn, estimator: 'sklearn.linear_model:LogisticRegression'}\n"
    b"data: {path: x.npy, x: x, y: y}\nshadow: {models: 4}\nattack: {type: loss}\nevaluation: {seed: 1}\n",
]
MECHANISM = [b"kind: dp-sgd\nrecords: 1000\nbatch: 10\nnoise: 1.1\nepochs: 2\n"]
TOKENS = [
    b"\n".join(
        json.dumps({"id": i, "member": i % 2 == 0, "logprobs": [-0.5, -1.0, -2.0], "text": f"t {i}"}).encode()
        for i in range(6)
    )
]


def table(path: Path) -> Any:
    return ma.Evidence.load(path)


READERS = [
    Reader("evidence-npz", ".npz", table, lambda: saved(".npz")),
    Reader("evidence-csv", ".csv", table, lambda: saved(".csv")),
    Reader("evidence-parquet", ".parquet", table, lambda: saved(".parquet")),
    Reader("array", ".npy", lambda path: tables.read_array(path, "file"), array),
    Reader("records-csv", ".csv", lambda path: Records.load(path, x=["score"], y="member"), lambda: saved(".csv")),
    Reader("tokens", ".jsonl", tokens.read_jsonl, lambda: TOKENS),
    Reader("findings", ".json", kinds.read, found),
    Reader("keys", ".json", Keys.read, keys),
    Reader("bundle", ".zip", contents.read, bundled),
    Reader("bundle-verified", ".zip", verify, bundled),
    Reader("configuration", ".yaml", config.read, lambda: CONFIG),
    Reader("mechanism", ".yaml", config.read_mechanism, lambda: MECHANISM),
]


def attempt(reader: Reader, content: bytes, folder: Path) -> str:
    """Read one file; return what is wrong with how it was refused, or nothing."""
    path = folder / f"x{reader.suffix}"
    path.write_bytes(content)
    try:
        reader.read(path)
    except MiauditError as error:
        lines = str(error).splitlines()
        if len(lines) != 1 and type(error).__name__ != "ConfigError":
            return f"{len(lines)} lines: {error!s:.200}"
    except Exception as error:  # the point of it all
        return f"{type(error).__name__}: {error!s:.300}"
    return ""


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a valid file in one to four ways; inside an archive of stored entries the sums are put right again."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        changed = _once(changed, rng)
    if content[:2] == b"PK" and rng.random() < 0.5:
        inside = _inside_archive(content, rng)
        return inside if inside is not None else bytes(changed)
    return bytes(changed)


def _once(content: bytearray, rng: np.random.Generator) -> bytearray:
    kind, at = int(rng.integers(7)), int(rng.integers(0, max(1, len(content))))
    other = int(rng.integers(at, len(content) + 1)) if len(content) else 0
    if kind == 0 and content:
        content[min(at, len(content) - 1)] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        content[at:at] = WORDS[int(rng.integers(len(WORDS)))]
    elif kind == 2:
        del content[at : min(other, at + 40)]
    elif kind == 3:
        content[at:at] = content[at : min(other, at + 200)]
    elif kind == 4:
        del content[at:]
    elif kind == 5:
        content[at : at + 4] = rng.bytes(4)
    else:
        word = WORDS[int(rng.integers(len(WORDS)))]
        content[at : at + len(word)] = word
    return content


def _inside_archive(content: bytes, rng: np.random.Generator) -> bytes | None:
    """The same archive with one entry changed: so that more than the check sums is tried."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as held:
            entries = {name: held.read(name) for name in held.namelist()}
    except zipfile.BadZipFile:
        return None
    name = sorted(entries)[int(rng.integers(len(entries)))]
    entries[name] = bytes(_once(bytearray(entries[name]), rng))
    handle = io.BytesIO()
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as made:
        for key, value in entries.items():
            made.writestr(zipfile.ZipInfo(key, (1980, 1, 1, 0, 0, 0)), value)
    return handle.getvalue()
