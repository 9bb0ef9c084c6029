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
from miaudit import bundle
from miaudit.auditing.plan import Plan
from miaudit.bundle import record, sealing
from miaudit.bundle.sealing import SealKeys
from miaudit.bundle.verify import verify
from miaudit.collect import decoys, probe_scores
from miaudit.collect.records import Records
from miaudit.config import audit as audit_config
from miaudit.config import disclosure as disclosure_config
from miaudit.config import synthesise
from miaudit.errors import MiauditError
from miaudit.findings import kinds
from miaudit.io import tables, token_records
from miaudit.models import weights
from miaudit.models.given import GivenShadows
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.table_attacks import table_files

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
        SealKeys.new(evidence().member, seal=True).write(path)
        return [path.read_bytes()]


def openings() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "o.json"
        SealKeys.new(evidence().member, seal=True).opening(bytes(32), ["ab" * 32]).write(path)
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

_PLACE = {"7": {"logprob": -0.5, "rank": 1, "decoded_token": " a"}, "9": {"logprob": -2.0, "rank": 2}}
_ECHO = {"tokens": ["t", " a"], "token_logprobs": [None, -0.5], "top_logprobs": [None, {" a": -0.5, " b": -2.0}]}
ANSWERS = [
    json.dumps({"id": 1, "member": True, "text": "t a", **answer}).encode()
    for answer in (
        {"prompt_logprobs": [None, _PLACE], "prompt_token_ids": [3, 7]},
        {"logprobs": _ECHO},
        {"choices": [{"index": 0, "logprobs": _ECHO, "text": "t a"}], "usage": {"prompt_tokens": 2}},
    )
]


GRAPH = (
    b"columns:\n  - {name: age, kind: continuous, low: 18, high: 95, decimals: 0}\n"
    b"  - {name: smoker, kind: binary, categories: ['no', 'yes']}\n"
    b"  - {names: [heart, lung], kind: binary}\n"
    b"  - {name: breath, kind: ordinal, categories: [never, often], missing: true}\n"
    b"groups: {person: [age, smoker], signs: [heart, lung, breath]}\nedges:\n  - [person, signs]\n"
)
SYNTHESISE = [
    b"data: {file: x.csv}\ngraph: g.yaml\nprivacy: {epsilon: 2, records: 100, clip: 2.0}\n"
    b"generator: {kind: causal, epochs: 4, batch: 10, learning_rate: 0.01, draws_missing: true}\n"
    b"ledger: {file: ledger.json, table: t, label: first, epsilon: 5, delta: 0.001}\noutput_dir: out\n"
]
DISCLOSURE = [
    b"target: {kind: sklearn, estimator: 'sklearn.tree:DecisionTreeClassifier', options: {min_samples_leaf: 3}}\n"
    b"data: {path: x.npz, x: x, y: y}\nshadow: {models: 8}\ndisclosure:\n  release: label\n"
    b"  defences: [label, {rounding: {digits: 3}}, {conformal: {coverage: 0.8}}]\n"
    b"  trainings: {shallow: {options: {max_depth: 2}}, parts: {ensemble: {models: 3, parts: disjoint}}}\n"
    b"  queries: 5\nevaluation: {seed: 3}\n"
]


DOCUMENTS = [
    b"\n".join(
        json.dumps(
            {"id": i, "who": "ab"[i % 2], "text": f"No {92_831_047 + 611 * i * i} of {i:02d}f0c9d3e5b7a864"}
        ).encode()
        for i in range(6)
    )
]


def decoys_made(folder: Path) -> list[bytes]:
    """Write probes with scores into a folder, and their key; return the content of both."""
    read = decoys.read_documents(_written(folder / "documents.jsonl", DOCUMENTS[0]), ids="id")
    made = decoys.make(read, find=["digits", "hex"], count=2, seed=decoys.Seed.of(7))
    (folder / "x.key.json").write_text(made.key.text(), encoding="utf-8")
    lines = [
        {**probe._asdict(), "log_probability": -1.5 * i, "token_logprobs": [None, -2]}
        for i, probe in enumerate(made.probes)
    ]
    (folder / "scored.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return [(folder / name).read_bytes() for name in ("scored.jsonl", "x.key.json")]


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def probes(number: int) -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return [decoys_made(Path(folder))[number]]


def read_documents(path: Path) -> Any:
    read = decoys.read_documents(path, ids="id", unit="who")
    return decoys.make(read, find=["digits", "hex", "uuid4", "base64"], count=2, seed=decoys.Seed.of(7))


def read_scored(path: Path) -> Any:
    _written(path.with_name("x.key.json"), probes(1)[0])
    return probe_scores.from_probes(path, key=path.with_name("x.key.json"))


def read_key(path: Path) -> Any:
    scored = _written(path.with_name("scored.jsonl"), probes(0)[0])
    return probe_scores.from_probes(scored, key=path)


def shadows() -> list[bytes]:
    rng = np.random.default_rng(0)
    included = np.arange(8 * 20).reshape(8, 20) % 3 == 0
    found = []
    for arrays in (
        {"outputs": rng.normal(size=(8, 20, 3)), "labels": np.arange(20) % 3, "rows": np.arange(20)},
        {"signals": rng.normal(size=(8, 20))},
    ):
        handle = io.BytesIO()
        np.savez(handle, included=included, **arrays)
        found.append(handle.getvalue())
    return found


def frame() -> list[bytes]:
    import polars as pl

    handle = io.BytesIO()
    pl.DataFrame({"job": ["cook", "clerk"] * 30, "age": range(60), "x": [i / 7 for i in range(60)]}).write_parquet(
        handle
    )
    return [handle.getvalue()]


def tensors() -> list[bytes]:
    import tempfile

    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.safetensors"
        weights.save({"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.zeros(2)}, path)
        return [path.read_bytes()]


def beside(folder: Path) -> None:
    """Write the files that configurations name, so that a valid one is read to its end."""
    np.save(folder / "x.npy", np.arange(12.0))
    np.savez(folder / "x.npz", x=np.arange(80.0).reshape(40, 2), y=np.arange(40) % 2)
    (folder / "x.csv").write_text("age,smoker,heart,lung,breath\n" + "30,no,0,1,never\n40,yes,1,0,often\n" * 10)
    (folder / "g.yaml").write_bytes(GRAPH)


def table(path: Path) -> Any:
    return ma.Evidence.load(path)


READERS = [
    Reader("evidence-npz", ".npz", table, lambda: saved(".npz")),
    Reader("evidence-csv", ".csv", table, lambda: saved(".csv")),
    Reader("evidence-parquet", ".parquet", table, lambda: saved(".parquet")),
    Reader("array", ".npy", lambda path: tables.read_array(path, "file"), array),
    Reader("records-csv", ".csv", lambda path: Records.load(path, x=["score"], y="member"), lambda: saved(".csv")),
    Reader("tokens", ".jsonl", token_records.read_jsonl, lambda: TOKENS),
    Reader("answers", ".jsonl", token_records.read_jsonl, lambda: ANSWERS),
    Reader("documents", ".jsonl", read_documents, lambda: DOCUMENTS),
    Reader("scored-probes", ".jsonl", read_scored, lambda: probes(0)),
    Reader("key-of-probes", ".json", read_key, lambda: probes(1)),
    Reader("findings", ".json", kinds.read, found),
    Reader("keys", ".json", SealKeys.read, keys),
    Reader("opening", ".json", sealing.read, openings),
    Reader("bundle", ".zip", bundle.read, bundled),
    Reader("bundle-verified", ".zip", verify, bundled),
    Reader("configuration", ".yaml", audit_config.read, lambda: CONFIG),
    Reader("mechanism", ".yaml", audit_config.read_mechanism, lambda: MECHANISM),
    Reader("disclosure", ".yaml", disclosure_config.read, lambda: DISCLOSURE),
    Reader("synthesise", ".yaml", synthesise.read, lambda: SYNTHESISE),
    Reader("schema", ".yaml", table_files.read_schema, lambda: [GRAPH]),
    Reader("graph", ".yaml", CausalGraph.from_yaml, lambda: [GRAPH]),
    Reader("synthetic-table", ".parquet", lambda path: table_files.read(path, path, path), frame),
    Reader("shadows", ".npz", GivenShadows.load, shadows),
    Reader("weights", ".safetensors", weights.load, tensors),
]


def attempt(reader: Reader, content: bytes, folder: Path) -> str:
    """Read one file; return what is wrong with how it was refused, or nothing."""
    if reader.suffix == ".yaml":
        beside(folder)
    path = folder / f"x{reader.suffix}"
    path.write_bytes(content)
    try:
        reader.read(path)
    except MiauditError as error:
        lines = str(error).splitlines()
        if len(lines) != 1 and type(error).__name__ != "ConfigError":
            return f"{len(lines)} lines: {error!s:.200}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the point of it all; panics of polars are no Exception
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
