"""Bundles made to exhaust the memory: refused in one line, or read within ten times what they declare plus 300 MB.

Each is read in a process of its own, whose largest resident size is what counts: libraries included.
"""

import hashlib
import io
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import miaudit as ma
from miaudit.auditing.plan import Plan
from miaudit.bundle import archive, contents, plain_json, read, record
from miaudit.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the largest resident size is read from /proc")
MB = 1_000_000
READ = """
import pathlib, sys
from miaudit.bundle import read
from miaudit.errors import MiauditError
try:
    print("read", read(sys.argv[1]).n)
except MiauditError as error:
    print(error)
status = pathlib.Path("/proc/self/status").read_text()  # ru_maxrss would be that of the parent, if it was larger
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


def measured(path):
    """What reading said, and the bytes that the process took at most."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, peak = done.stdout.rsplit("\n", 2)[:2]
    assert "\n" not in said
    return said, int(peak)


def limit(path):
    with zipfile.ZipFile(path) as held:
        files = json.loads(held.read("manifest.json"))["files"]
    return 10 * sum(stated["bytes"] for stated in files.values()) + 300 * MB


def honest(n=60, **fields):
    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    held = ma.Evidence(score=rng.normal(size=n), member=member, design="one-run", **fields)
    return contents._entries(record(held, plan=Plan(bounds=None), rng=rng)[1])


def bundled(path, **changed):
    """An honest bundle with entries changed (None takes one out), and a manifest that declares what is there."""
    entries = honest()
    manifest = json.loads(entries.pop("manifest.json"))
    entries |= {name.replace("__", "."): content for name, content in changed.items()}
    entries = {name: content for name, content in entries.items() if content is not None}
    manifest["files"] = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in entries.items()
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as made:
        for name, content in {**entries, "manifest.json": json.dumps(manifest).encode()}.items():
            made.writestr(name, content)
    return path


def header(shape, dtype):
    handle = io.BytesIO()
    np.lib.format.write_array_header_1_0(handle, {"descr": dtype, "fortran_order": False, "shape": shape})
    return handle.getvalue()


def archived(names, stored, size, crc, *, method=8, share=False):
    """An .npz by hand: the same bytes under many names, each said to grow to ``size``; or all at one place."""
    body, directory, place = b"", b"", 0
    for name in names:
        at = 0 if share else len(body)
        fields = (20, 0, method, 0, 33, crc, len(stored), size, len(name), 0)
        if not (share and body):
            body += struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields) + name.encode() + stored
        directory += struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *fields[:-1], 0, 0, 0, 0, 0, at) + name.encode()
        place = len(body)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(names), len(names), len(directory), place, 0)
    return body + directory + end


def zeros(names, size):
    """Arrays of zeros, compressed: each a thousandth of what it grows to, and below the size that tables refuse."""
    n = (size - 128) // 8
    head = header((n,), "<f8")
    packer, crc, stored = zlib.compressobj(9, zlib.DEFLATED, -15), zlib.crc32(head), b""
    stored += packer.compress(head)
    block = bytes(8 * MB)
    for start in range(0, 8 * n, len(block)):
        part = block[: 8 * n - start]
        crc, stored = zlib.crc32(part, crc), stored + packer.compress(part)
    return archived(names, stored + packer.flush(), len(head) + 8 * n, crc)


@pytest.mark.long
def test_archives_within_archives_do_not_grow(tmp_path):
    """1.6 MB that become 6.4 GB: 32 arrays of zeros, each below 200 MB."""
    names = ["member.npy", *(f"score.{i}.npy" for i in range(31))]
    path = bundled(tmp_path / "b.zip", records__npz=zeros(names, 199 * MB))
    assert path.stat().st_size < 8 * MB
    said, peak = measured(path)
    assert "compressed" in said
    assert peak < limit(path)


@pytest.mark.long
def test_parquet_of_one_value_does_not_grow(tmp_path):
    """49 kB that become 3.5 GB: a dictionary of one text, and how often it stands."""
    n, handle = 8_000_000, io.BytesIO()
    columns = {"score": pl.repeat(0.0, n, eager=True), "member": pl.repeat(True, n, eager=True)}
    pl.DataFrame({**columns, "text": pl.repeat("a text of some length", n, eager=True)}).write_parquet(handle)
    path = bundled(tmp_path / "b.zip", records__npz=None, records__parquet=handle.getvalue())
    assert path.stat().st_size < MB
    said, peak = measured(path)
    assert said.startswith("bundle: expected ")
    assert peak < limit(path)


def npz(**arrays):
    handle = io.BytesIO()
    np.savez(handle, **arrays)
    return handle.getvalue()


def plain(n, **more):
    return npz(score=np.zeros(n), member=np.arange(n) % 2 == 0, **more)


BOMBS = {
    "arrays on top of each other": lambda: {
        "records__npz": archived(
            [f"score.{i}.npy" for i in range(500)],
            header((4 * MB // 8,), "<f8") + bytes(4 * MB),
            len(header((4 * MB // 8,), "<f8")) + 4 * MB,
            zlib.crc32(header((4 * MB // 8,), "<f8") + bytes(4 * MB)),
            method=0,
            share=True,
        )
    },
    "a header of terabytes": lambda: {
        "records__npz": archived(["score.npy"], h := header((10**12,), "<f8"), len(h), zlib.crc32(h), method=0)
    },
    "records of no bytes": lambda: {
        "records__npz": archived(["unit.npy"], h := header((10**12,), "<U0"), len(h), zlib.crc32(h), method=0)
    },
    "small numbers that become large ones": lambda: {
        "records__npz": npz(score=np.zeros(30 * MB, dtype=np.int8), member=np.arange(30 * MB) % 2 == 0)
    },
    "JSON of empty lists": lambda: {"audit__json": b'{"notes": [' + b"[]," * (10 * MB) + b"[]]}"},
    "JSON of small numbers": lambda: {"findings__json": b'{"a": [' + b"1.5," * (3 * MB) + b"1]}"},
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_other_bombs_are_refused(tmp_path, make):
    path = bundled(tmp_path / "b.zip", **make())
    if path.stat().st_size > 50 * MB:
        assert limit(path) < 1500 * MB
    said, peak = measured(path)
    assert not said.startswith("read")
    assert peak < 300 * MB + 10 * path.stat().st_size


@pytest.mark.long
def test_what_the_manifest_does_not_declare_is_not_read(tmp_path):
    path = bundled(tmp_path / "b.zip", records__npz=plain(3 * MB))

    with zipfile.ZipFile(path) as held:
        entries = {name: held.read(name) for name in held.namelist()}
    manifest = json.loads(entries["manifest.json"])
    manifest["files"]["records.npz"]["bytes"] = 1000
    entries["manifest.json"] = json.dumps(manifest).encode()
    archive.write(path, entries)
    said, peak = measured(path)
    assert "more than its manifest declares" in said
    assert peak < limit(path)


@pytest.mark.long
def test_a_bundle_of_another_format_is_refused_with_who_made_it(tmp_path):
    path = bundled(tmp_path / "b.zip")
    with zipfile.ZipFile(path) as held:
        entries = {name: held.read(name) for name in held.namelist()}
    entries["manifest.json"] = json.dumps({"format": 2, "made_by": "miaudit 0.9.0"}).encode()
    archive.write(path, entries)
    said, _ = measured(path)
    assert "the version that wrote it (miaudit 0.9.0)" in said
    assert Path(path).is_file()


TWICE = {
    "a score under two names": {"score.score": np.zeros(60)},
    "covariates under two names": {"covariates": np.zeros((60, 2)), "covariate.0": np.ones(60)},
    "two designs": {"design": np.array(["one-run", "zero-run"] * 30)},
    "a text of no type": {"text": np.array(["a"] * 60)},
    "a column that no evidence has": {"weight": np.zeros(60)},
    "complex numbers": {"score": np.zeros(60, dtype=complex)},
    "big-endian numbers": {"score": np.zeros(60, dtype=">f8")},
}


@pytest.mark.parametrize("columns", TWICE.values(), ids=TWICE)
def test_columns_are_those_that_miaudit_writes(tmp_path, columns):
    path = bundled(
        tmp_path / "b.zip", records__npz=npz(**{"score": np.zeros(60), "member": np.arange(60) < 9, **columns})
    )
    with pytest.raises(InputError):
        read(path)


def test_labels_of_another_byte_order_come_back(tmp_path):
    entries = honest(unit=np.arange(60, dtype=">i8") // 2, group=np.array(["a", "b"] * 30, dtype=">U1"))
    archive.write(tmp_path / "b.zip", entries)
    assert not read(tmp_path / "b.zip").tampered


def test_what_nobody_could_read_is_not_written(monkeypatch):
    monkeypatch.setattr(plain_json, "LARGEST", 1000)
    with pytest.raises(InputError, match="at most 1,000 bytes"):
        honest()
