"""Places of finished work: whole files at a path or at a URL, and arrays whose damage shows."""

from __future__ import annotations

import importlib.util
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError, OutputError
from miaudit.io import storage

needs_fsspec = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="needs fsspec")


@pytest.fixture(params=["disk", "file", pytest.param("memory", marks=needs_fsspec)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    names = {"disk": tmp_path / "s", "file": (tmp_path / "s").as_uri(), "memory": f"memory://{uuid.uuid4().hex}/s"}
    return names[request.param]


def put(store: storage.Disk | storage.ObjectStore, name: str, values: np.ndarray) -> None:
    store.write(name, lambda handle: storage.write_array(handle, values))


def test_what_is_written_is_read_from_another_process_too(place: Any) -> None:
    store = storage.folder(place)
    assert store.names() == set()
    with pytest.raises(FileNotFoundError):
        store.read("about.json")
    assert list(store.fetched(["a.npy"])) == []
    store.write("about.json", lambda handle: handle.write(b"{}"))
    put(store, "a.npy", np.arange(5))
    again = storage.folder(place)
    assert again.names() == {"about.json", "a.npy"}
    assert again.read("about.json") == b"{}"
    found = dict(again.fetched(["a.npy", "b.npy"]))
    assert list(found) == ["a.npy"]
    assert storage.verified(found["a.npy"])
    assert np.array_equal(np.load(found["a.npy"], mmap_mode="r"), np.arange(5))
    again.remove("a.npy")
    again.remove("a.npy")
    assert store.names() == {"about.json"}


def test_the_bytes_are_the_same_everywhere(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    stores = [storage.folder(tmp_path / "s"), storage.folder(f"memory://{uuid.uuid4().hex}/s")]
    for store in stores:
        put(store, "a.npy", np.linspace(0, 1, 1000).astype(np.float32))
    assert stores[0].read("a.npy") == stores[1].read("a.npy")


def test_a_write_that_fails_leaves_nothing(place: Any) -> None:
    store = storage.folder(place)

    def half(handle: Any) -> None:
        handle.write(b"half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        store.write("a.npy", half)
    assert store.names() == set()
    if isinstance(store, storage.Disk):
        assert not list(store.place.iterdir())


@pytest.mark.parametrize("at", [5, 100, 130, 400, -40, -1])
def test_one_changed_byte_shows(tmp_path: Path, at: int) -> None:
    store = storage.folder(tmp_path)
    put(store, "a.npy", np.arange(100.0))
    data = bytearray((tmp_path / "a.npy").read_bytes())
    assert storage.verified(tmp_path / "a.npy")
    data[at] ^= 1
    (tmp_path / "a.npy").write_bytes(data)
    assert not storage.verified(tmp_path / "a.npy")


def test_a_file_that_ends_too_early_or_late_shows_and_old_ones_have_no_digest(tmp_path: Path) -> None:
    store, path = storage.folder(tmp_path), tmp_path / "a.npy"
    put(store, "a.npy", np.arange(100.0))
    whole = path.read_bytes()
    assert len(whole) == 800 + storage.BESIDE
    for data in (whole[:-1], whole[:500], whole[:-39], whole + b"x", b""):
        path.write_bytes(data)
        assert not storage.verified(path)
    np.save(path, np.arange(100.0))
    assert storage.verified(path)
    assert path.read_bytes() == whole[: 800 + 128]


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """An array of objects is a pickle, which would run code: it counts as damaged."""

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    assert not storage.verified(tmp_path / "a.npy")
    assert not storage.verified(tmp_path / "b.npy")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("ftp://host/store", r"store: expected a folder, or a URL that starts with file:// or s3://.*received ftp://"),
        ("https://host/store", "a URL that starts with"),
        (
            "s3://key:secret@bucket/store",
            r"a URL without a password, received s3://\.\.\.; set them",
        ),
        ("file://store", r"file:///PATH, with three slashes"),
    ],
)
def test_other_places_are_refused_in_one_line(place: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        storage.folder(place)
    assert "\n" not in str(refused.value) and "secret" not in str(refused.value)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(storage, "import_module", missing)
    with pytest.raises(InputError, match=r"received gs://bucket/store; pip install '.*\[storage\]' gcsfs$"):
        storage.folder("gs://bucket/store")


@pytest.mark.skipif(importlib.util.find_spec("s3fs") is not None, reason="s3fs is installed")
@needs_fsspec
def test_s3_without_its_package_is_one_line() -> None:
    with pytest.raises(InputError, match=r"store: .*s3:// where its package is installed.*\[storage\]' s3fs$"):
        storage.folder("s3://bucket/store")


@needs_fsspec
def test_what_the_storage_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    store = storage.folder(f"memory://{uuid.uuid4().hex}")
    assert isinstance(store, storage.ObjectStore)

    def refuses(*args: Any, **options: Any) -> Any:
        raise RuntimeError("403\nforbidden")

    for name in ("pipe_file", "ls", "cat_file"):
        monkeypatch.setattr(type(store.filesystem), name, refuses)
    with pytest.raises(OutputError, match=r"cannot be written .403 forbidden"):
        put(store, "a.npy", np.arange(3))
    with pytest.raises(InputError, match=r"cannot be read .403 forbidden"):
        store.names()
    with pytest.raises(InputError, match="cannot be read"):
        store.read("about.json")


@needs_fsspec
def test_what_was_listed_and_cannot_be_read_is_not_taken_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = storage.folder(f"memory://{uuid.uuid4().hex}")
    assert isinstance(store, storage.ObjectStore)
    for i in range(3):
        put(store, f"{i}.npy", np.arange(3))
    cat_file = type(store.filesystem).cat_file
    error: Exception = FileNotFoundError("1.npy")

    def refuses(self: Any, path: str, *args: Any, **options: Any) -> Any:
        if path.endswith("1.npy"):
            raise error
        return cat_file(self, path, *args, **options)

    monkeypatch.setattr(type(store.filesystem), "cat_file", refuses)
    names = [f"{i}.npy" for i in range(3)]
    assert [name for name, _ in store.fetched(names)] == ["0.npy", "2.npy"]  # gone since it was listed
    error = TimeoutError("the network is away")
    with pytest.raises(InputError, match=r"/1\.npy, which cannot be read .the network is away.; check its name, your"):
        list(store.fetched(names))


@needs_fsspec
def test_a_name_with_brackets_is_no_pattern() -> None:
    name = uuid.uuid4().hex
    store = storage.folder(f"memory://{name}/run [1]*")
    put(store, "a.npy", np.arange(3))
    assert [found for found, _ in storage.folder(f"memory://{name}/run [1]*").fetched(["a.npy"])] == ["a.npy"]


def test_an_object_that_stands_for_the_folder_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    store = storage.folder(f"memory://{uuid.uuid4().hex}/s")
    assert isinstance(store, storage.ObjectStore)
    entries = [{"name": f"{store.prefix}/{name}", "type": "file", "size": 0} for name in ("", "a.npy")]
    monkeypatch.setattr(type(store.filesystem), "ls", lambda self, path, detail: entries)
    assert store.names() == {"a.npy"}


@needs_fsspec
def test_many_files_are_fetched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_TOGETHER", 500)
    store = storage.folder(f"memory://{uuid.uuid4().hex}")
    for i in range(7):
        put(store, f"{i}.npy", np.full(20, i))
    found = {name: np.load(path)[0] for name, path in store.fetched([f"{i}.npy" for i in range(9)])}
    assert found == {f"{i}.npy": i for i in range(7)}
