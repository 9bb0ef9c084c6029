"""Files that miaudit wrote on an earlier day: they read, verify, resume and come out again, equal to the byte.

"To the byte" holds on the processor that they were made on (``PROCESSOR``): loops and linear algebra of numpy and scipy
round otherwise on another, and there numbers are compared to eight digits, and words and counts as they are.

They are in ``files/``, and ``make.py`` says how each was made. A failure here means that those who hold such files
cannot use them any more, or get other numbers or words. What was computed by other versions of numpy, scikit-learn or
torch is compared only where they are the ones of ``files/versions.json``.
"""

from __future__ import annotations

import difflib
import filecmp
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sklearn.base

import miaudit as ma
from frozen import make
from frozen.make import FILES, call, kept

VERSIONS = json.loads((FILES / "versions.json").read_text(encoding="utf-8"))
PAGES = json.loads((FILES / "pages" / "pages.json").read_text(encoding="utf-8"))
DIGEST = r"\b[0-9a-f]{64}\b"  # of scores that were computed
PROCESSOR = "AVX512_SKX SkylakeX"
FITTED = {"run-tree"}  # fits break ties otherwise there: other numbers, of the same kinds
CODES = json.loads((FILES / "exit_codes.json").read_text(encoding="utf-8"))


FRACTION = r"(-?\d+\.\d+(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+)(?![\w.])"


def same_versions(*names: str) -> None:
    """Skip where a library that decides the digits, or the words, is another one."""
    here = make.versions()
    other = [f"{name} {here[name]}, not {VERSIONS[name]}" for name in names if here[name] != VERSIONS[name]]
    if other:
        pytest.skip("; ".join(other))


def alike(text: str, expected: str, *, exactly: bool) -> bool:
    """Whether texts are equal; where not exactly, but for digits of fractions beyond the eighth."""
    if text == expected or exactly:
        return text == expected
    found, held = (re.split(FRACTION, re.sub(DIGEST, "digest", one)) for one in (text, expected))
    if found[::2] != held[::2]:
        return False
    return all(
        float(a) == pytest.approx(float(b), rel=1e-8, abs=2e-9) for a, b in zip(found[1::2], held[1::2], strict=True)
    )


def same_arrays(found: np.ndarray, held: np.ndarray, what: str) -> None:
    """Fail where arrays differ, on another processor by more than its rounding."""
    assert (found.dtype, found.shape) == (held.dtype, held.shape), what
    if make.processor() == PROCESSOR or held.dtype.kind != "f":
        assert found.tobytes() == held.tobytes(), what
    else:
        np.testing.assert_allclose(found, held, rtol=1e-5 if held.dtype == np.float32 else 1e-9, err_msg=what)


def named(text: str, expected: str, what: str, *, exactly: bool = make.processor() == PROCESSOR) -> None:
    """Fail with the lines that differ, shortened."""
    if alike(text, expected, exactly=exactly):
        return
    lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), "frozen", "now", lineterm="", n=0)
    pytest.fail(f"{what}:\n" + "\n".join(line[:400] for line in list(lines)[:60]), pytrace=False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of all inputs."""
    shutil.copytree(make.INPUTS, tmp_path, dirs_exist_ok=True)
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
    copied(make.INPUTS / "strong.npy", tmp_path)
    copied(make.INPUTS / "propensity.npy", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- findings and pages ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", make.FINDINGS)
def test_findings_come_out_again(name: str) -> None:
    """The same command gives the same findings.json, and so every draw behind it keeps its order."""
    same_versions("python", "numpy", "scipy", "scikit-learn", "polars")
    if name == "synthesis":
        same_versions("torch")
    code, text = make.one_finding(make.FINDINGS[name])
    assert code == CODES[name]
    held = kept(FILES / "findings" / f"{name}.json.gz")
    if name in FITTED and make.processor() != PROCESSOR:
        assert set(json.loads(text)) == set(json.loads(held))
        return
    named(text, held, f"findings of {name}")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_drawn_again(name: str) -> None:
    same_versions("altair", "vl-convert-python")
    page, figures = make.page_of(FILES / "findings" / f"{name}.json.gz")
    assert figures == PAGES[name]["figures"]
    if name in make.PAGES_IN_WORDS:
        named(make.slim(page), kept(FILES / "pages" / f"{name}.html.gz"), f"page of {name}")
    assert hashlib.sha256(page.encode()).hexdigest() == PAGES[name]["sha256"]


def test_every_kind_of_findings_is_here() -> None:
    kinds = {json.loads(kept(FILES / "findings" / f"{name}.json.gz")).get("kind", "audit") for name in PAGES}
    assert kinds == {
        *("audit", "disclosure", "table", "synthesis", "verification", "challenge", "comparison", "history")
    }
    audits = [json.loads(kept(FILES / "findings" / f"{name}.json.gz")) for name in PAGES]
    statuses = {one["verdict"]["status"] for one in audits if "verdict" in one and "design" in one}
    assert statuses >= {"flagged", "inconclusive", "not-testable", "refused"}


# -- bundles -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", make.VERIFIES)
def test_bundles_verify(name: str, bundles: Path) -> None:
    code, out, err = call("verify", f"{name}.zip", "--json")
    assert (code, err) == (make.VERIFIES[name], ""), out
    found = json.loads(out)
    if name == "changed":
        assert any("findings.metrics[3].value" in str(one) for one in found["differences"])
    else:
        assert found["differences"] == []
        expected = json.loads((FILES / "recomputed.json").read_text(encoding="utf-8"))
        assert found["recomputed"] == expected[name]  # as many numbers and words as on that day
    assert bundles.is_dir()


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
    """Nothing is fitted, no file of the store is written, and the evidence is equal to the byte.

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
    made, kept_then = np.load("evidence.npz"), np.load(held / "evidence.npz")
    assert made.files == kept_then.files
    for field in made.files:
        same_arrays(made[field], kept_then[field], field)
    if make.processor() == PROCESSOR:
        assert filecmp.cmp("evidence.npz", held / "evidence.npz", shallow=False)


@pytest.mark.parametrize("name", make.CAMPAIGNS)
def test_campaigns_draw_as_before(name: str, place: Path) -> None:
    """Without a store: memberships, seeds and outputs are drawn anew, in the same order."""
    same_versions("python", "numpy", "scipy", "scikit-learn", "torch", "polars")
    code, _, err = call("collect", f"{name}.yaml", "--out", "evidence.npz")
    assert code == 0, err
    held = np.load(FILES / "stores" / name / "evidence.npz")
    made = np.load("evidence.npz")
    assert made.files == held.files
    for field in held.files:
        if held[field].dtype.kind == "f":
            near = 1e-4 if make.processor() == PROCESSOR else 1e-2
            np.testing.assert_allclose(made[field], held[field], rtol=near, atol=near / 10)
        else:
            np.testing.assert_array_equal(made[field], held[field])
    wrote = sorted(path for path in contents(place / "store") if path.endswith((".npy", "about.json")))
    expected = FILES / "stores" / name / "store"
    assert wrote == sorted(path for path in contents(expected) if path.endswith((".npy", "about.json")))
    if wrote:
        named(Path("store/about.json").read_text(), (expected / "about.json").read_text(), "what decides the store")


@pytest.mark.long
def test_a_comparison_of_disclosures_resumes(place: Path, fits: list[str]) -> None:
    same_versions("python", "numpy", "scipy", "scikit-learn")
    shutil.copytree(FILES / "stores" / "disclosure" / "store", place / "store")
    before = contents(place / "store")
    with make.quick_pictures():
        _, out, err = call("disclosure", "disclosure.yaml", "--json")
    assert out, err
    named(out, kept(FILES / "findings" / "disclosure.json.gz"), "findings of disclosure")
    models = {path: one for path, one in before.items() if path.endswith(".npy")}
    assert {path: one for path, one in contents(place / "store").items() if path.endswith(".npy")} == models
    assert fits == []


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
    stored = {path: read for path, (read, _) in contents(FILES / "stores" / name / "store").items()}
    again = {path: read for path, (read, _) in contents(tmp_path / "other").items()}
    assert again == stored if make.processor() == PROCESSOR else list(again) == list(stored)


# -- evidence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
@pytest.mark.parametrize("design", ["one-run", "multi-run", "zero-run"])
def test_evidence_reads_and_is_written_alike(design: str, ending: str, tmp_path: Path) -> None:
    held = FILES / "evidence" / f"{design}.{ending}"
    loaded, made = ma.Evidence.load(held), make.evidence_of(design)
    assert loaded.digest == made.digest
    assert (loaded.design, loaded.n_members) == (design, 6)
    same_versions(*{"parquet": ["polars"], "npz": ["python"]}.get(ending, []))  # versions of zipfile write other heads
    loaded.save(tmp_path / held.name)
    assert (tmp_path / held.name).read_bytes() == held.read_bytes()


def test_a_pair_reads_and_is_written_alike(tmp_path: Path) -> None:
    pair = [FILES / "evidence" / f"{name}.npy" for name in ("members", "nonmembers")]
    loaded = ma.Evidence.load_pair(*pair, design="one-run")
    assert (loaded.n, loaded.n_members) == (8, 4)
    loaded.save_pair(tmp_path / "members.npy", tmp_path / "nonmembers.npy")
    for held in pair:
        assert (tmp_path / held.name).read_bytes() == held.read_bytes()


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


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", make.DRY_RUNS)
def test_what_is_printed_stays(name: str) -> None:
    named(make.printed(make.DRY_RUNS[name]), (FILES / "printed" / f"{name}.txt").read_text(), name, exactly=False)


def test_the_commands_stay() -> None:
    assert sorted(path.stem for path in (FILES / "help").iterdir()) == sorted(
        name or "miaudit" for name in make.commands()
    )


@pytest.mark.parametrize("name", make.commands())
def test_the_help_of_each_command_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    same_versions("typer", "rich")
    monkeypatch.setenv("COLUMNS", make.WIDTH)
    monkeypatch.setenv("TERMINAL_WIDTH", make.WIDTH)
    text = re.sub(r"\x1b\[[0-9;]*m", "", make.help_of(name))
    named(text, (FILES / "help" / f"{name or 'miaudit'}.txt").read_text(encoding="utf-8"), f"miaudit {name} --help")
