"""Tables from strangers: each is refused in one line, quickly and without making room for what is not there."""

import io
import resource
import struct
import time
import zipfile

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.io import tables


def header(text: str) -> bytes:
    body = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def described(shape: str, dtype: str = "<f8") -> bytes:
    return header(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}")


ARRAYS = {
    "a header of a thousand terabytes": described("(1000000000000000,)") + b"\0" * 64,
    "a negative shape": described("(-1,)") + b"\0" * 64,
    "a shape of text": described("('x',)") + b"\0" * 64,
    "a shape beyond counting": described("(" + "9" * 400 + ",)"),
    "objects": described("(1,)", "|O") + b"cos\nsystem\n(S'true'\ntR.",
    "no shape": header("{'descr': '<f8'}"),
    "a call": header("{'descr': '<f8', 'fortran_order': False, 'shape': __import__('os').getpid()}"),
    "deep nesting": header("(" * 9000),
    "an oversized header": header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), " + " " * 60000 + "}"),
    "a version to come": b"\x93NUMPY\x09\x00" + b"\0" * 64,
    "half a header": b"\x93NUMPY\x01\x00\xff\xff{'descr'",
    "a pickle": b"\x80\x04\x95cos\nsystem\n",
    "nothing": b"",
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("inside", [False, True], ids=["npy", "npz"])
def test_hostile_arrays(tmp_path, content, inside):
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / ("x.npz" if inside else "x.npy")
    if inside:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        tables.read_columns(path, ["x"]) if inside else tables.read_array(path, "x")
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    assert time.perf_counter() - started < 20  # a hang, not a speed


def bomb(size: int) -> bytes:
    handle = io.BytesIO()
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as entry:
        entry.write(described(f"({size // 8},)"))
        block = b"\0" * (1 << 20)
        for _ in range(size >> 20):
            entry.write(block)
    return handle.getvalue()


@pytest.mark.long
def test_a_zip_bomb_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(bomb(256 << 20))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InputError, match="would grow"):
        tables.read_columns(path, ["x"])


def test_an_ordinary_compressed_array_is_read(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1_000_000))
    assert tables.read_columns(path, ["x"])["x"].sum() == 0


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["x.npz", "x.parquet", "x.csv"])
def test_random_bytes_are_no_table(tmp_path, name):
    rng = np.random.default_rng(0)
    for _ in range(20):
        (tmp_path / name).write_bytes(rng.bytes(int(rng.integers(0, 400))))
        with pytest.raises(InputError):
            tables.read_columns(tmp_path / name, ["x"])


def test_numbers_as_text_stay_text(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array(["1", "2"]))
    assert tables.read_columns(path, ["x"])["x"].dtype.kind == "U"
