"""First rows of arrays: as numpy reads them, from the first bytes alone, and nothing unpickled."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.io.array_heads import array_heads

RNG = np.random.default_rng(0)
ARRAYS = {
    "flat": RNG.normal(size=500),
    "wide": RNG.normal(size=(300, 7)).astype(np.float32),
    "whole": RNG.integers(0, 9, 40),
    "coin": RNG.random(50) < 0.5,
    "word": np.array(["member", "other"] * 20),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("numbers", [1, 21, 10_000])
def test_first_rows_are_those_that_numpy_reads(save: object, numbers: int, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **ARRAYS)  # type: ignore[operator]
    found = array_heads(tmp_path / "a.npz", numbers)
    assert list(found) == list(ARRAYS)
    for name, (rows, values) in found.items():
        whole, width = ARRAYS[name], ARRAYS[name][0].size
        assert rows == len(whole) and values is not None
        assert len(values) == min(len(whole), max(1, numbers // width)) and values.dtype == whole.dtype
        np.testing.assert_array_equal(values, whole[: len(values)])


def test_what_is_no_plain_array_has_a_length_alone(tmp_path: Path) -> None:
    odd = {"cube": np.zeros((2, 3, 4)), "none": np.zeros(0), "column": np.asfortranarray(np.ones((5, 2)))}
    odd |= {"point": np.array(3.0), "record": np.zeros(3, dtype=[("a", float)]), "object": np.array([{}], dtype=object)}
    np.savez(tmp_path / "odd.npz", **odd)
    found = array_heads(tmp_path / "odd.npz", 100)
    assert found == {"cube": (2, None), "none": (0, None), "column": (5, None)} | {
        "point": (0, None),
        "record": (3, None),
        "object": (1, None),
    }


def test_a_file_of_one_array_has_its_own_name(tmp_path: Path) -> None:
    np.save(tmp_path / "losses.npy", ARRAYS["flat"])
    assert list(array_heads(tmp_path / "losses.npy", 3)) == ["losses"]


def test_the_rest_of_a_file_is_not_read(tmp_path: Path) -> None:
    """A file whose end is missing has the head that it promises; one whose header promises too much is refused."""
    rows = 200_000_000  # 1.6 GB, of which nothing is on the disk but the first rows
    with (tmp_path / "large.npy").open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f8", "fortran_order": False, "shape": (rows,)})
        handle.write(np.arange(4.0).tobytes())
        start = handle.tell() - 32
        handle.truncate(start + 8 * rows)
    counted, values = array_heads(tmp_path / "large.npy", 4)["large"]
    assert counted == rows and values is not None and values.tolist() == [0, 1, 2, 3]
    with (tmp_path / "large.npy").open("rb") as handle:
        (tmp_path / "cut.npy").write_bytes(handle.read(200))
    with pytest.raises(InputError, match="cannot be read"):
        array_heads(tmp_path / "cut.npy", 4)


def test_damage_and_repeated_names_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    (tmp_path / "noise.npy").write_bytes(bytes(range(256)))
    with zipfile.ZipFile(tmp_path / "inner.npz", "w") as archive:
        archive.writestr("loss.npy", b"no array")
    for name in ("noise.npz", "noise.npy", "inner.npz"):
        with pytest.raises(InputError, match="cannot be read"):
            array_heads(tmp_path / name, 10)
    np.save(tmp_path / "a.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            archive.write(tmp_path / "a.npy", "loss.npy")
    with pytest.raises(InputError, match="stands twice"):
        array_heads(tmp_path / "twice.npz", 10)
