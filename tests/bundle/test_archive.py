"""The archive of a bundle: written whole, and whatever is wrong with one is refused in one line."""

import stat
import zipfile

import numpy as np
import pytest

from bundle.test_bundle import made
from miaudit.bundle import archive, read, recording
from miaudit.bundle.verify import verify
from miaudit.errors import InputError, OutputError


def test_an_earlier_bundle_is_not_overwritten(tmp_path):
    path, _, bundle, keys = made(tmp_path)
    with pytest.raises(OutputError, match="--overwrite"):
        bundle.write(path)
    bundle.write(path, overwrite=True)
    keys.write(tmp_path / "k.json")
    with pytest.raises(OutputError, match="keys are there already"):
        keys.write(tmp_path / "k.json")


def hostile(path, make):
    with zipfile.ZipFile(path, "w") as held:
        make(held)
    return path


def link(held):
    info = zipfile.ZipInfo("records.npz")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    held.writestr(info, "/etc/passwd")


def twice(held):
    held.writestr("audit.json", "{}")
    with pytest.warns(UserWarning, match="Duplicate"):
        held.writestr("audit.json", "{}")


HOSTILE = {
    "a path out of it": lambda held: held.writestr("../../evil.json", "{}"),
    "an absolute path": lambda held: held.writestr("/tmp/evil.json", "{}"),
    "a backslash": lambda held: held.writestr("..\\evil.json", "{}"),
    "a link": link,
    "compressed": lambda held: held.writestr("audit.json", b"0" * 10_000_000, zipfile.ZIP_DEFLATED),
    "twice": twice,
    "many": lambda held: [held.writestr(f"a{i}.json", "{}") for i in range(40)],
    "no manifest": lambda held: held.writestr("audit.json", "{}"),
    "a strange entry": lambda held: [
        held.writestr(n, '{"format": 1, "files": {}}') for n in ("manifest.json", "x.npy")
    ],
    "deep": lambda held: held.writestr("manifest.json", "[" * 100_000 + "]" * 100_000),
    "a list": lambda held: held.writestr("manifest.json", "[]"),
    "numbers as text": lambda held: held.writestr("manifest.json", '{"format": "1"}'),
    "not a number": lambda held: held.writestr("manifest.json", '{"format": NaN}'),
    "nothing": lambda held: None,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archives_are_refused_in_one_line(tmp_path, make):
    path = hostile(tmp_path / "b.zip", make)
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.zip"]


def test_an_archive_larger_than_allowed_is_refused(tmp_path):
    path, *_ = made(tmp_path)
    with pytest.raises(InputError, match="more than 1,000"):
        archive.unpack(path, tmp_path / "into", largest=1000)


def test_a_bundle_that_nobody_could_read_is_not_made(tmp_path, monkeypatch):
    """Before the audit where the records alone are too large, else before a byte is written."""
    _, _, bundle, _ = made(tmp_path)
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    monkeypatch.setattr(recording.pipeline, "examine", lambda *_, **__: pytest.fail("audited first"))
    with pytest.raises(InputError, match=r"at most 10,000 bytes.*scores only"):
        made(tmp_path, name="large.zip")
    with pytest.raises(InputError, match=r"at most 10,000 bytes"):
        bundle.write(tmp_path / "large.zip")
    assert not (tmp_path / "large.zip").exists()


def test_a_bundle_that_cannot_be_written_is_one_line(tmp_path):
    _, _, bundle, _ = made(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"--bundle .*x\.zip: cannot be written .*name another file"):
        bundle.write(tmp_path / "file" / "x.zip")


def test_a_truncated_archive_is_refused(tmp_path):
    path, *_ = made(tmp_path)
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:length])
        with pytest.raises(InputError):
            read(path)


def test_flipped_bytes_never_pass_as_verified(tmp_path):
    path, *_ = made(tmp_path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 25):
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        try:
            found = verify(path)
        except InputError:
            continue
        # a flag, a date or a comment of the archive says nothing of the audit
        assert found.status == "failed" or found.digest != archive.sha256(path) or found.differences == ()
