"""The store of finished arrays: fingerprints, atomic writes, damage, a full disk, two processes."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError, OutputError
from miaudit.jobs.resumable import Store, digest

DECIDES = {"records": "a", "seed": "0"}


def opened(folder: Path, decides: Mapping[str, str]) -> Store:
    with Store.alone(folder, decides, "model") as store:
        return store


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    store = opened(tmp_path / "new" / "store", DECIDES)
    values = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    assert not store.has(1)
    store.keep(1, values)
    again = opened(tmp_path / "new" / "store", dict(reversed(DECIDES.items())))
    assert again == store
    assert again.has(1)
    read = again.read(1)
    assert isinstance(read, np.memmap)
    assert read.dtype == np.float32
    assert not read.flags.writeable
    np.testing.assert_array_equal(read, values)


def test_a_store_of_something_else_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    opened(tmp_path, DECIDES)
    with pytest.raises(InputError, match=r"a folder of the same records and seed, received .*delete this one"):
        opened(tmp_path, {"records": "b", "seed": "1"})
    with pytest.raises(InputError, match="a folder of the same views"):
        opened(tmp_path, {**DECIDES, "views": "x"})
    (tmp_path / "about.json").write_text("[]")
    with pytest.raises(InputError, match="records and seed"):
        opened(tmp_path, DECIDES)


def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("words")
    with pytest.raises(InputError, match="a store or an empty folder"):
        opened(tmp_path, DECIDES)
    with pytest.raises(InputError, match="a folder, received the file"):
        opened(tmp_path / "thesis.tex", DECIDES)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", None])
def test_a_damaged_file_counts_as_absent(tmp_path: Path, damage: bytes | None) -> None:
    store = opened(tmp_path, DECIDES)
    path = store.keep(1, np.arange(100.0))
    path.write_bytes(path.read_bytes()[:-30] if damage is None else damage)
    assert not store.has(1)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    store = opened(tmp_path, DECIDES)
    np.save(store.path(1), np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert not store.has(1)


def test_a_full_disk_is_one_line_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path, DECIDES)
    store.keep(1, np.arange(3.0))
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(handle, array, **_):
        handle.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.save", full)
    with pytest.raises(OutputError, match=r"model-00002-\w+\.npy: cannot be written \(No space left on device\)") as at:
        store.keep(2, np.arange(3.0))
    assert "\n" not in str(at.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert store.has(1)


def test_a_real_full_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    store = opened(tmp_path, DECIDES)
    original = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, *a: original(Path("/dev/full") if self.suffix == ".part" else self, *a)
    )
    with pytest.raises(OutputError, match="cannot be written"):
        store.keep(2, np.arange(1e5))
    assert not store.has(2)


def test_two_processes_do_not_write_at_once_and_leftovers_go(tmp_path: Path) -> None:
    (tmp_path / ".model.npy.abc.part").write_bytes(b"half")
    with Store.alone(tmp_path, DECIDES, "model") as store:
        assert not list(tmp_path.glob(".*.part"))
        with pytest.raises(InputError, match="another process is at work"):
            opened(tmp_path, DECIDES)
    assert opened(tmp_path, DECIDES) == store


def test_digests_tell_all_that_differs_apart() -> None:
    a = np.arange(6.0)
    different = [
        a, a[::-1], a.astype(np.float32), a.reshape(2, 3), a.reshape(3, 2), np.empty(0), np.empty((0, 2)), [], "",
        b"", "ab", ["ab"], ["a", "b"], [["a"], ["b"]], [np.arange(2), np.arange(3)], [np.arange(3), np.arange(2)], 3,
    ]  # fmt: skip
    for one, two in itertools.combinations(different, 2):
        assert digest(one) != digest(two) or (len(np.shape(one)) == 1 and np.shape(one) == np.shape(two) == (0,))
    assert digest(a) == digest(np.arange(12.0)[:6]) == digest(np.repeat(a, 2)[::2])
    big = np.random.default_rng(0).normal(size=(3000, 1000))
    assert digest(big) == digest(big.copy(order="F"))
    other = big.copy()
    other[2999, 999] += 1e-9
    assert digest(big) != digest(other)
    with pytest.raises(InputError, match="Python objects"):
        digest(np.array([object()]))


def test_a_store_that_failed_before_its_first_array_holds_nobody_up(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Store.alone(tmp_path, DECIDES, "model"):
        raise RuntimeError
    other = {**DECIDES, "seed": "another"}
    with pytest.raises(RuntimeError), Store.alone(tmp_path, other, "model") as store:
        store.keep(0, np.zeros(2))
        raise RuntimeError
    with pytest.raises(InputError, match="made with another"):
        opened(tmp_path, DECIDES)
