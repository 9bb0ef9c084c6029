"""Files that miaudit wrote on an earlier day: they read, verify and resume.

They are in ``files/``, one small file of each format, and ``make.py`` makes them again. A failure here means that
people who hold such files cannot use them any more.

Memberships, counts and digests of files that are only read are equal on every machine, and the tests compare them
exactly. Sums of fractions differ from one processor to another in their last digits, so arrays are compared with the
tolerances below, and only where the libraries are those of ``files/versions.json``.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sklearn.base

import miaudit as ma
from frozen import make
from frozen.make import FILES, call, kept
from miaudit.collect import probe_scores
from miaudit.findings import kinds

VERSIONS = json.loads((FILES / "versions.json").read_text(encoding="utf-8"))
NAMES = sorted(path.name.removesuffix(".json.gz") for path in (FILES / "findings").iterdir())

# Tolerances: |new - frozen| <= absolute + relative * |frozen|.
ARRAYS = {"f8": (1e-7, 1e-9), "f4": (1e-4, 1e-6)}  # computed from outputs that are on file
TRAINED = (1e-2, 2e-3)  # computed from models that are trained anew: rounding grows from step to step


def same_versions(*names: str) -> None:
    """Skip where a library that decides the digits, or the words, is another one."""
    here = make.versions()
    other = [f"{name} {here[name]}, not {VERSIONS[name]}" for name in names if here[name] != VERSIONS[name]]
    if other:
        pytest.skip("; ".join(other))


def same_arrays(new: np.ndarray, frozen: np.ndarray, what: str, near: tuple[float, float] | None = None) -> None:
    """Fail where types, shapes or values differ; fractions by more than the tolerance."""
    assert (new.dtype, new.shape) == (frozen.dtype, frozen.shape), what
    if frozen.dtype.kind == "f":
        relative, absolute = near or ARRAYS[frozen.dtype.str[1:]]
        np.testing.assert_allclose(new, frozen, rtol=relative, atol=absolute, err_msg=what)
    else:
        np.testing.assert_array_equal(new, frozen, err_msg=what)


def same_evidence(new: Path, frozen: Path, near: tuple[float, float] | None = None) -> None:
    """Fail where the arrays of two .npz files differ."""
    with np.load(new) as written, np.load(frozen) as held:
        assert written.files == held.files
        for field in held.files:
            same_arrays(written[field], held[field], field, near)


# -- the comparison itself ---------------------------------------------------------------------------------------------


def test_what_changes_is_seen_in_arrays() -> None:
    with np.load(FILES / "stores" / "regression" / "evidence.npz") as held:
        score = next(held[name] for name in held.files if name.startswith("score"))
        member = held["member"]
    same_arrays(np.nextafter(score, 1), score, "score")  # the last digit
    for changed, frozen in ((score * (1 + 1e-5), score), (score.astype(np.float32), score), (~member, member)):
        with pytest.raises(AssertionError):
            same_arrays(changed, frozen, "changed")
    with pytest.raises(AssertionError):
        same_arrays(np.roll(score, 1), score, "records in another order", TRAINED)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all inputs."""
    make.inputs.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copied(source: Path, target: Path) -> Path:
    """Copy a file; keys are for their owner only, which git does not remember."""
    shutil.copy(source, target)
    if "key" in source.name:
        (target / source.name if target.is_dir() else target).chmod(0o600)
    return target


@pytest.fixture
def bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of all bundles and keys, and a stronger attack's scores."""
    for path in (FILES / "bundles").iterdir():
        copied(path, tmp_path)
    make.inputs.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- findings ----------------------------------------------------------------------------------------------------------


def test_every_kind_of_findings_is_here() -> None:
    contents = [json.loads(kept(FILES / "findings" / f"{name}.json.gz")) for name in NAMES]
    assert {one.get("kind", "audit") for one in contents} == {*kinds.BUILT_IN}
    statuses = {one["verdict"]["status"] for one in contents if "verdict" in one and "design" in one}
    assert statuses >= {"flagged", "inconclusive", "not-testable", "refused"}


# -- bundles -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in make.BUNDLES if name != "sealed"])
@pytest.mark.usefixtures("bundles")
def test_bundles_verify(name: str) -> None:
    code, out, err = call("verify", f"{name}.zip", "--json")
    assert (code, err, json.loads(out)["differences"]) == (0, "", []), out
    make._changed(Path(f"{name}.zip"), Path("changed.zip"))  # the control
    code, out, _ = call("verify", "changed.zip", "--json")
    assert code == 3 and "findings.metrics[3].value" in str(json.loads(out)["differences"])


@pytest.mark.long
@pytest.mark.usefixtures("bundles")
def test_a_sealed_bundle_is_opened_and_challenged() -> None:
    order = json.loads(Path("sealed.key.json").read_text(encoding="utf-8"))["order"]
    np.save("sorted.npy", np.load("strong.npy")[order])
    assert call("verify", "sealed.zip")[0] == 4
    assert call("verify", "sealed.zip", "--key", "sealed.key.json")[0] == 0
    code, out, _ = call("challenge", "sealed.zip", "--scores", "sorted.npy")
    assert code == 4
    digest = out.splitlines()[-1].split()[-1]
    assert call("unseal", "sealed.zip", "--key", "sealed.key.json", "--submission", digest)[0] == 0
    assert call("verify", "sealed.zip", "--key", "sealed.opening.json")[0] == 0
    code, out, _ = call("challenge", "sealed.zip", "--scores", "sorted.npy", "--key", "sealed.opening.json", "--json")
    assert (code, json.loads(out)["order"]) == (3, "committed before the opening")


@pytest.mark.usefixtures("bundles")
def test_an_opening_of_that_day_opens() -> None:
    copied(FILES / "opening" / "sealed.opening.json", Path.cwd())
    assert call("verify", "sealed.zip", "--key", "sealed.opening.json")[0] == 0


# -- stores ------------------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What is in each file of a folder, and when it was written; apart from locks."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is fitted from here on: clones of estimators, and steps of an optimiser of networks."""
    found: list[str] = []
    clone = sklearn.base.clone

    def noted(estimator, **options):
        found.append(type(estimator).__name__)
        return clone(estimator, **options)

    monkeypatch.setattr(sklearn.base, "clone", noted)
    return found


@pytest.mark.parametrize("name", make.CAMPAIGNS)
def test_campaigns_resume_from_their_store(name: str, place: Path, fits: list[str]) -> None:
    """Nothing is fitted, no file of the store is written, and the evidence is the same.

    The fingerprint holds names and source of factories and networks, and the text of options: a store that is not
    known again is refused, and one of a moved class is not known again.
    """
    same_versions("python", "numpy", "scipy", "scikit-learn", "torch", "polars")
    held = FILES / "stores" / name
    if (held / "store").is_dir():
        shutil.copytree(held / "store", place / "store")
    before = contents(place / "store")
    code, _, err = call("collect", f"{name}.yaml", "--out", "evidence.npz")
    assert code == 0, err
    assert {path: read for path, (read, _) in contents(place / "store").items()} == {
        path: read for path, (read, _) in before.items()
    }
    models = {path: at for path, (_, at) in before.items() if path.endswith(".npy")}
    assert {path: at for path, (_, at) in contents(place / "store").items() if path.endswith(".npy")} == models
    assert fits == []
    same_evidence(place / "evidence.npz", held / "evidence.npz")


@pytest.mark.parametrize("name", make.CAMPAIGNS)
def test_campaigns_draw_as_before(name: str, place: Path) -> None:
    """Without a store: memberships, seeds and outputs are drawn anew, in the same order."""
    same_versions("python", "numpy", "scipy", "scikit-learn", "torch", "polars")
    code, _, err = call("collect", f"{name}.yaml", "--out", "evidence.npz")
    assert code == 0, err
    same_evidence(place / "evidence.npz", FILES / "stores" / name / "evidence.npz", TRAINED)
    wrote = sorted(path for path in contents(place / "store") if path.endswith((".npy", "about.json")))
    expected = FILES / "stores" / name / "store"
    assert wrote == sorted(path for path in contents(expected) if path.endswith((".npy", "about.json")))
    if wrote:
        assert (place / "store/about.json").read_text() == (expected / "about.json").read_text()


@pytest.mark.parametrize("name", make.LIBRARY_STORES)
def test_stores_of_the_library_resume(name: str, tmp_path: Path) -> None:
    held = np.load(FILES / "stores" / name / "result.npz")
    shutil.copytree(FILES / "stores" / name / "store", tmp_path / "store")
    fitted: list[int] = []
    resumed = make.LIBRARY_STORES[name](tmp_path / "store", fitted)
    assert fitted == []
    afresh = make.LIBRARY_STORES[name](tmp_path / "other", fitted)
    assert len(fitted) >= 8
    for found in (resumed, afresh):
        assert list(found) == held.files
        for field in held.files:
            same_arrays(found[field], held[field], field)
    stored, again = (contents(folder) for folder in (FILES / "stores" / name / "store", tmp_path / "other"))
    assert list(again) == list(stored)
    for path, (read, _) in stored.items():
        if path.endswith(".npz"):
            same_evidence(tmp_path / "other" / path, FILES / "stores" / name / "store" / path)
        else:
            assert again[path][0] == read, path


# -- evidence ----------------------------------------------------------------------------------------------------------


def entries(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of each file in an archive, whose own heads depend on the version of zipfile."""
    if path.suffix != ".npz":
        return {"": path.read_bytes()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_evidence_reads_and_is_written_alike(ending: str, tmp_path: Path) -> None:
    held = FILES / "evidence" / f"zero-run.{ending}"
    loaded, made = ma.Evidence.load(held), make.evidence_of("zero-run")
    assert loaded.digest == made.digest
    assert (loaded.design, loaded.n_members) == ("zero-run", 6)
    same_versions(*{"parquet": ["polars"]}.get(ending, []))
    loaded.save(tmp_path / held.name)
    assert entries(tmp_path / held.name) == entries(held)


def test_a_pair_reads_and_is_written_alike(tmp_path: Path) -> None:
    pair = [FILES / "evidence" / f"{name}.npy" for name in ("members", "nonmembers")]
    loaded = ma.Evidence.load_pair(*pair, design="one-run")
    assert (loaded.n, loaded.n_members) == (8, 4)
    loaded.save_pair(tmp_path / "members.npy", tmp_path / "nonmembers.npy")
    for held in pair:
        assert (tmp_path / held.name).read_bytes() == held.read_bytes()


# -- probes ------------------------------------------------------------------------------------------------------------


def test_probes_and_their_key_read_and_are_drawn_alike(place: Path) -> None:
    """A seed of that day gives the same decoys and places, so that old probes can be checked."""
    (place / "old").mkdir()
    for path in (FILES / "probes").iterdir():
        copied(path, place / "old")
    read = probe_scores.from_probes(place / "old" / "probes.jsonl").evidence
    assert (read.design, read.n_members, read.n_nonmembers) == ("matched", 6, 24)
    same_versions("numpy")
    call("decoys", "tickets.jsonl", "--ids", "id", "--count", "4", "--seed", "7")
    assert (place / "probes.key.json").read_bytes() == (place / "old" / "probes.key.json").read_bytes()


# -- ledgers and releases ----------------------------------------------------------------------------------------------


@pytest.fixture
def ledgers(place: Path) -> Path:
    """A folder with a copy of the inputs, and of a ledger with one entry."""
    for path in (FILES / "ledgers").iterdir():
        if path.is_file():
            copied(path, place)
    return place


@pytest.mark.slow
def test_a_ledger_continues_until_its_budget_is_spent(ledgers: Path) -> None:
    before = json.loads((ledgers / "ledger.json").read_text())
    code, _, err = call("synthesise", "private.yaml", "--json")
    assert code == 1
    assert "label: expected a name of its own for each release" in err
    code, _, err = call("synthesise", "third.yaml", "--json")
    assert code == 1
    assert "an epsilon of at most 9 for all releases" in err
    assert json.loads((ledgers / "ledger.json").read_text()) == before
    code, out, err = call("synthesise", "second.yaml", "--json")
    assert code == 4, err  # two epochs on 120 records: no release that is of use
    after = json.loads((ledgers / "ledger.json").read_text())
    assert after["entries"][:1] == before["entries"]
    assert after["entries"][1]["label"] == "second"
    assert json.loads(out)["kind"] == "synthesis"
    (ledgers / "ledger.json").write_text(json.dumps(before))
    code, _, err = call("synthesise", "second.yaml", "--json", "--out", "again")  # an older ledger put in its place
    assert code == 1
    assert "ledger" in err


def test_a_ledger_of_each_kind_of_entry_reads(tmp_path: Path) -> None:
    held = FILES / "ledgers" / "kinds" / "ledger.json"
    for path in held.parent.iterdir():
        copied(path, tmp_path)
    text = held.read_text(encoding="utf-8")
    read = make.ledger.read(tmp_path / "ledger.json")
    assert read is not None
    assert read.to_mapping() == json.loads(text)
    make.ledger_of_each_kind(tmp_path / "made.json")
    links = [json.loads(one.read_text(encoding="utf-8")) for one in (held, tmp_path / "made.json")]
    assert [entry["mechanism"] for entry in links[0]["entries"]] == [one["mechanism"] for one in links[1]["entries"]]
    assert links[0]["entries"][0]["before"] == links[1]["entries"][0]["before"]
    spent = make.mechanism.from_mapping(make.MECHANISMS[0])
    grown = make.ledger.spend(tmp_path / "ledger.json", table="patients", label="another", mechanism=spent)
    assert grown.to_mapping()["entries"][:-1] == json.loads(text)["entries"]


def test_a_release_loads_and_is_saved_alike(tmp_path: Path) -> None:
    held = FILES / "ledgers" / "release"
    release = ma.synthesis.Release.load(held / "synthetic.csv")
    release.save(tmp_path / "synthetic.csv")
    for name in ("synthetic.csv", "synthetic.json"):
        assert (tmp_path / name).read_bytes() == (held / name).read_bytes()
