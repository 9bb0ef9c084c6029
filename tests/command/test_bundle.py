"""Bundles on the command line: audit --bundle, verify, challenge, compare, history."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

import miaudit.bundle as bundles
from miaudit.bundle import archive, contents, read
from miaudit.bundle.sealing import SealKeys
from miaudit.findings import kinds

Run = Callable[..., tuple[int, str, str]]
N = 800
AUDIT = ("audit", "t.npz", "--score", "score", "--member", "member", "--design", "one-run", "--primary-metric", "auc")
QUICK = (*AUDIT, "--no-bounds")


def scores(gap: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.asarray(rng.normal(size=N) + gap * (np.arange(N) % 2 == 0))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "t.npz", score=scores(0.5), member=np.arange(N) % 2 == 0)
    np.save(tmp_path / "strong.npy", scores(1.5))
    np.save(tmp_path / "weak.npy", scores(0.1))
    return tmp_path


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture
def bundle(place: Path, run: Run) -> Path:
    run(*QUICK, "--json", "--bundle", "b.zip")
    return place / "b.zip"


@pytest.mark.thorough
@pytest.mark.long
def test_a_bundle_is_written_verified_and_challenged(place: Path, run: Run) -> None:
    code, out, err = run(*QUICK, "--json", "--bundle", "b.zip")
    assert code in (0, 3, 4)
    assert "SHA-256" in err
    digest = err.split("SHA-256 ")[1].split()[0]
    assert json.loads(out)["metrics"] == read(place / "b.zip").findings.to_dict()["metrics"]
    assert not (place / "b.key.json").exists()
    code, out, err = run("verify", "b.zip")
    assert (code, err) == (0, "")
    assert digest in out
    assert "came out again" in out
    for name, expected, said in (("strong.npy", 3, "is stronger"), ("weak.npy", 0, "is not shown to be stronger")):
        code, out, _ = run("challenge", "b.zip", "--scores", name)
        assert code == expected
        assert said in out.splitlines()[0]
        assert "SHA-256 of the submission" in out
    assert (
        run("challenge", "b.zip", "--scores", "strong.npy", "--made-before", "3")[1].count("is corrected for 3 earlier")
        == 1
    )


@pytest.mark.parametrize(("share", "code"), [("scores", 0), ("hashes", 4)])
def test_less_is_shared(share: str, code: int, place: Path, run: Run) -> None:
    assert run(*QUICK, "--json", "--bundle", "b.zip", "--share", share)[0] in (0, 3, 4)
    assert stat.S_IMODE((place / "b.key.json").stat().st_mode) == 0o600
    assert run("verify", "b.zip")[0] == code


@pytest.mark.thorough
@pytest.mark.long
def test_a_sealed_challenge_from_submission_to_decision(place: Path, run: Run) -> None:
    _, _, err = run(*QUICK, "--json", "--bundle", "b.zip", "--seal")
    assert "miaudit unseal" in err
    assert "publish the bundle alone" in err
    order = SealKeys.read("b.key.json").order
    assert order is not None
    np.save("strong.npy", np.load("strong.npy")[order])
    code, out, _ = run("verify", "b.zip")
    assert code == 4
    assert "labels are sealed" in out
    assert run("verify", "b.zip", "--key", "b.key.json")[0] == 0
    code, first, _ = run("challenge", "b.zip", "--scores", "strong.npy")
    assert code == 4
    assert first.startswith("Nothing is decided yet")
    digest = first.splitlines()[-1].split()[-1]
    code, out, _ = run("unseal", "b.zip", "--key", "b.key.json", "--submission", digest)
    assert (code, out.split(",")[1].strip()) == (0, "signed for 1 submission")
    assert run("unseal", "b.zip", "--key", "b.key.json", "--submission", "0" * 64)[0] == 1  # once
    assert run("verify", "b.zip", "--key", "b.opening.json")[0] == 0
    code, second, _ = run("challenge", "b.zip", "--scores", "strong.npy", "--key", "b.opening.json", "--out", "won")
    assert code == 3
    assert first.splitlines()[-1] in second  # the same submission, by its digest
    assert "the owner signed its digest" in second
    assert kinds.read(place / "won" / "findings.json").order == "committed before the opening"
    page = (place / "won" / "report.html").read_text()
    assert "Challenge won" in page
    assert "Submission: committed before the opening" in page


@pytest.mark.thorough
@pytest.mark.long
def test_who_submits_after_the_opening_wins_nothing(place: Path, run: Run) -> None:
    run(*QUICK, "--json", "--bundle", "b.zip", "--seal")
    run("unseal", "b.zip", "--key", "b.key.json")
    opening = json.loads((place / "b.opening.json").read_text())
    member = np.array(read(place / "b.zip").columns["member"], dtype=float)
    member[opening["rows"]] = opening["labels"]
    np.save("labels.npy", member)
    for key in ("b.opening.json", "b.key.json"):
        code, out, _ = run("challenge", "b.zip", "--scores", "labels.npy", "--key", key, "--out", "late", "--overwrite")
        assert code == 4
        assert out.startswith("Nothing is decided: order unknown.")
        assert kinds.read(place / "late" / "findings.json").order == "order unknown"
        assert "Submission: order unknown" in (place / "late" / "report.html").read_text()


@pytest.mark.long
def test_a_key_file_is_used_once_and_the_same_opening_is_signed_again(place: Path, run: Run) -> None:
    run(*QUICK, "--json", "--bundle", "b.zip", "--seal")
    unseal = ("unseal", "b.zip", "--key", "b.key.json")
    (place / "there.json").write_text("{}")
    code, _, err = run(*unseal, "--submission", "b" * 64, "--out", "there.json")  # signs nothing
    assert (code, "an opening is there already" in err) == (1, True)
    assert run(*unseal, "--submission", "a" * 64)[0] == 0
    for given in ((), ("--submission", "b" * 64), ("--submission", "a" * 64, "--submission", "b" * 64)):
        code, out, err = run(*unseal, *given, "--out", "again.json")
        assert (code, out, err.count("\n"), "a secret signs once" in err) == (1, "", 1, True)
        assert not (place / "again.json").exists()
    assert run(*unseal, "--submission", "a" * 64, "--out", "same.json")[0] == 0
    assert (place / "same.json").read_bytes() == (place / "b.opening.json").read_bytes()


HIDDEN = {
    "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
    "data": {"path": "d.npz", "x": "x", "y": "y"},
    "evaluation": {"seed": 7},
    "privacy": {"bounds": False},
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("share", ["scores", "hashes"])
def test_memberships_of_a_run_that_shares_hashes_follow_from_no_seed(
    share: str, place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from that of the configuration, which anybody may guess; the control shares them anyway."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    np.savez(place / "d.npz", x=x, y=(x[:, 0] + rng.normal(size=300) > 0).astype(int))
    (place / "c.yaml").write_text(yaml.safe_dump(HIDDEN))
    assert run("collect", "c.yaml", "--out", "e.npz")[0] == 0
    of_seed, kept = np.load(place / "e.npz")["member"], []
    recorded = bundles.record

    def record(evidence: object, **options: object) -> object:
        kept.append(evidence)
        return recorded(evidence, **options)

    monkeypatch.setattr("miaudit.bundle.record", record)
    code, out, _ = run("run", "c.yaml", "--json", "--bundle", "b.zip", "--share", share)
    assert code in (0, 3, 4)
    alike = int(np.count_nonzero(kept[0].member == of_seed))
    assert (alike == 300) is (share == "scores")
    assert alike == 300 or alike < 200
    assert json.loads(out)["repeat"].get("seed") == (7 if share == "scores" else None)  # the operating system's


@pytest.mark.long
@pytest.mark.parametrize("command", [("verify", "b.zip"), ("challenge", "b.zip", "--scores", "weak.npy")], ids="-".join)
def test_json_is_alone_on_standard_output(command: tuple[str, ...], place: Path, run: Run, bundle: Path) -> None:
    before = names(place)
    code, out, err = run(*command, "--json")
    assert (code, err) == (0, "")
    assert kinds.from_dict(json.loads(out)).exit_code == 0
    assert names(place) == before
    assert bundle.is_file()


@pytest.mark.long
@pytest.mark.usefixtures("bundle")
def test_a_changed_bundle_fails_and_is_named(place: Path, run: Run) -> None:
    with zipfile.ZipFile("b.zip") as held:
        entries = {name: held.read(name) for name in held.namelist()}
    stated = json.loads(entries["findings.json"])
    stated["metrics"][0]["value"] = 0.123
    entries["findings.json"] = json.dumps(stated).encode()
    with zipfile.ZipFile("c.zip", "w") as made:
        for name, content in entries.items():
            made.writestr(name, content)
    code, out, _ = run("verify", "c.zip", "--out", "failed")
    assert code == 3
    assert "findings.json was changed" in out
    assert "findings.metrics[0].value: stated 0.123" in out
    page = (place / "failed" / "report.html").read_text()
    assert "Verification failed" in page
    assert "findings.metrics[0].value" in page
    for command in (("challenge", "c.zip", "--scores", "weak.npy"), ("compare", "b.zip", "c.zip")):
        code, _, err = run(*command)
        assert code == 1
        assert "miaudit verify" in err


BAD = {
    "no such bundle": ("verify", "none.zip"),
    "no bundle": ("verify", "t.npz"),
    "no archive": ("verify", "text.zip"),
    "no key file": ("verify", "b.zip", "--key", "none.json"),
    "no key": ("verify", "b.zip", "--key", "text.json"),
    "nothing to unseal": ("unseal", "b.zip", "--key", "s.key.json"),
    "no key to unseal": ("unseal", "b.zip", "--key", "text.json"),
    "another key": ("unseal", "s.zip", "--key", "r.key.json"),
    "no digest": ("unseal", "s.zip", "--key", "s.key.json", "--submission", "x"),
    "too few scores": ("challenge", "b.zip", "--scores", "short.npy"),
    "no number": ("challenge", "b.zip", "--scores", "nan.npy"),
    "text": ("challenge", "b.zip", "--scores", "text.npy"),
    "no such scores": ("challenge", "b.zip", "--scores", "none.npy"),
    "no such column": ("challenge", "b.zip", "--scores", "t.npz", "--column", "loss"),
    "no propensity": ("challenge", "b.zip", "--propensity", "half.npy"),
    "no probability": ("challenge", "b.zip", "--propensity", "strong.npy"),
    "a share that is none": (*QUICK, "--bundle", "n.zip", "--share", "some"),
    "sealed hashes": (*QUICK, "--bundle", "n.zip", "--share", "hashes", "--seal"),
    "another ending": (*QUICK, "--bundle", "n.tar"),
    "a bundle below a file": (*QUICK, "--bundle", "t.npz/n.zip"),
    "a bundle that is there": (*QUICK, "--bundle", "b.zip"),
    "a folder that is there": ("verify", "b.zip", "--out", "full"),
    "nothing to compare": ("compare", "none", "b.zip"),
    "no findings": ("compare", "text.json", "b.zip"),
    "findings of another kind": ("compare", "full", "b.zip"),
    "one audit": ("history", "b.zip"),
}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("command", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(command: tuple[str, ...], place: Path, run: Run, bundle: Path) -> None:
    (place / "text.zip").write_text("text")
    (place / "text.json").write_text("[]")
    np.save("short.npy", np.zeros(3))
    np.save("nan.npy", np.full(N, np.nan))
    np.save("text.npy", np.full(N, "x"))
    np.save("half.npy", np.full(N, 0.5))
    run("verify", "b.zip", "--out", "full")
    for name in "sr":
        run(*QUICK, "--json", "--bundle", f"{name}.zip", "--seal")
    before, content = names(place), bundle.read_bytes()
    code, out, err = run(*command)
    assert (code, out) == (1, "")
    assert err.startswith("miaudit: ")
    assert err.count("\n") == 1
    assert (names(place), bundle.read_bytes()) == (before, content)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("challenge", "b.zip"),
        ("challenge", "b.zip", "--scores", "weak.npy", "--propensity", "weak.npy"),
        ("challenge", "b.zip", "--scores", "weak.npy", "--made-before", "-1"),
        (*QUICK, "--share", "scores"),
        (*QUICK, "--seal"),
        ("compare", "b.zip"),
    ],
    ids=lambda command: " ".join(command)[-40:],
)
@pytest.mark.usefixtures("bundle")
def test_wrong_usage(command: tuple[str, ...], place: Path, run: Run) -> None:
    before = names(place)
    assert run(*command)[0] == 2
    assert names(place) == before


@pytest.mark.long
@pytest.mark.usefixtures("bundle")
def test_nothing_is_overwritten_unasked(place: Path, run: Run) -> None:
    run(*QUICK, "--json", "--bundle", "s.zip", "--share", "scores")
    before = {name: (place / name).read_bytes() for name in ("b.zip", "s.zip", "s.key.json")}
    assert run(*QUICK, "--json", "--bundle", "b.zip", "--seed", "5")[0] == 1
    code, _, err = run(*QUICK, "--json", "--bundle", "s.zip", "--share", "scores", "--overwrite")
    assert code == 1  # keys are kept even then: nobody else has them
    assert "s.key.json" in err
    assert {name: (place / name).read_bytes() for name in before} == before
    assert run(*QUICK, "--json", "--bundle", "b.zip", "--seed", "5", "--overwrite")[0] in (0, 3, 4)
    assert (place / "b.zip").read_bytes() != before["b.zip"]


@pytest.mark.long
@pytest.mark.parametrize("place_killed", ["bundle", "keys"])
def test_a_kill_between_bundle_and_keys_loses_neither(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, place_killed: str
) -> None:
    def killed(*_: object, **__: object) -> None:
        os._exit(9)

    sealed = (*QUICK, "--json", "--bundle", "s.zip", "--seal")
    child = os.fork()
    if not child:  # a process of its own, which ends as a killed one does
        room, name = (archive.tables, "write_atomically") if place_killed == "bundle" else (contents, "finish_keys")
        if place_killed == "bundle":
            whole = archive.tables.write_atomically

            def write(path: Path, save: Callable[[Path], None]) -> None:
                whole(path, lambda target: (save(target), killed()))

            monkeypatch.setattr(room, name, write)
        else:
            calls = iter(range(9))
            monkeypatch.setattr(room, name, lambda *_: killed() if next(calls) else None)
        try:
            run(*sealed)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert (place / "s.zip").exists() == (place_killed == "keys") and not (place / "s.key.json").exists()
    (waiting,) = place.glob(".s.key.json.*")
    assert stat.S_IMODE(waiting.stat().st_mode) == 0o600
    if place_killed == "bundle":
        assert run(*sealed)[0] in (0, 3, 4)
    else:
        code, _, err = run(*sealed, "--overwrite")
        assert code == 1 and "keys are never replaced: name another bundle" in err
    assert run("unseal", "s.zip", "--key", "s.key.json", "--submission", "0" * 64)[0] == 0


def test_keys_are_taken_back_where_the_bundle_fails(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("miaudit.bundle.archive.write", full)
    code, _, err = run(*QUICK, "--json", "--bundle", "b.zip", "--seal")
    assert code == 1
    assert err.count("\n") == 1
    assert names(place) == ["strong.npy", "t.npz", "weak.npy"]


@pytest.mark.thorough
@pytest.mark.long
def test_killed_half_way_it_leaves_nothing(place: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(place / "t.npz", score=rng.normal(size=200_000), member=rng.random(200_000) < 0.5)
    options = ("--n-bootstrap", "100000", "--out", "out", "--bundle", "b.zip", "--seal")
    before = names(place)
    for how in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen([sys.executable, "-m", "miaudit", *QUICK, *options], stderr=subprocess.DEVNULL)
        time.sleep(4)
        assert process.poll() is None
        process.send_signal(how)
        process.wait(timeout=60)
        assert names(place) == before


def test_a_verification_says_what_the_audit_says(place: Path, run: Run, bundle: Path) -> None:
    _, out, _ = run("verify", str(bundle))
    assert f"The audit says: {read(bundle).findings.verdict.text}" in out
    model, design = out.index("  Model: not stated\n"), out.index("  Design: one-run: one model, members assigned")
    assert out.index("The audit says") < model < design < out.index("Not checked, since no bundle can show it:")
    assert "Declared by the author of the audit. Nothing in the bundle proves it." in out
    assert f"miaudit challenge {bundle} --scores FILE" in out


def test_the_model_and_the_auditor_of_a_configuration_reach_the_receiver(place: Path, run: Run) -> None:
    about = {"model": "triage", "version": "2.1", "by": "Jane Doe", "date": "2026-03-01"}
    content = {"evaluation": {"table_path": "t.npz", "design": "one-run"}, "about": about, "privacy": {"bounds": False}}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    run("run", "audit.yaml", "--out", "out", "--bundle", "c.zip")
    code, out, _ = run("verify", "c.zip", "out")
    assert code == 0
    assert "  Model: triage, version 2.1\n" in out
    assert "Declared by the author of the audit (Jane Doe)." in out
    assert "Page: out belongs to the bundle." in out


def test_a_page_beside_a_bundle_belongs_to_it_or_does_not(place: Path, run: Run) -> None:
    run(*QUICK, "--out", "mine", "--bundle", "b.zip")
    run(*QUICK, "--confidence", "0.9", "--out", "other")
    codes = [run("verify", "b.zip", *page)[0] for page in ((), ("mine",), ("mine/report.html",))]
    assert codes == [0, 0, 0]
    for page in ("other", "other/report.html"):
        code, out, _ = run("verify", "b.zip", page)
        assert code == 3
        first, second = out.splitlines()[:2]  # the line that explains the exit code is the first
        assert first.startswith(f"Page: {Path(page).name} does not belong to the bundle")
        assert second.startswith("Bundle: Verified.")  # the bundle itself holds
        assert out.endswith("\nNext: draw the page of the bundle.\n  miaudit verify b.zip --out checked\n")
    code, out, _ = run("verify", "b.zip", "other", "--json")
    assert json.loads(out)["received"]["status"] == "other"
    code, out, err = run("verify", "b.zip", "absent.html")
    assert (code, out, err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("share", ["scores", "hashes"])
def test_a_page_of_a_bundle_that_withholds_is_decided_by_its_findings(share: str, place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    np.savez("u.npz", score=scores(0.5), member=np.arange(N) % 2 == 0, unit=rng.permutation(N) // 2)
    options = ("--unit", "unit", "--show-rows", "3", "--share", share)
    run("audit", "u.npz", *QUICK[2:], *options, "--out", "mine", "--bundle", "s.zip")
    assert "Page: mine belongs to the bundle" in run("verify", "s.zip", "mine")[1]
    code, out, _ = run("verify", "s.zip", "mine/report.html")
    assert (code, "was not decided" in out) == (4, True)
    page = Path("mine/report.html").read_text(encoding="utf-8")
    Path("turned.html").write_text(page.replace("Concern", "Within the limits"), encoding="utf-8")
    code, out, _ = run("verify", "s.zip", "turned.html")
    assert (code, "does not belong" in out) == (3, True)


def test_a_page_of_sealed_labels_waits_for_the_opening(place: Path, run: Run) -> None:
    run(*QUICK, "--out", "mine", "--bundle", "s.zip", "--seal")
    code, out, _ = run("verify", "s.zip", "mine/report.html")
    assert (code, "open records alone" in out) == (4, True)
    np.save("other.npy", np.zeros(N))
    for answer in (out, run("challenge", "s.zip", "--scores", "other.npy")[1]):
        assert "\nThe audit of the open records says: " in answer


def test_a_refuted_claim_leads_what_the_audit_says(place: Path, run: Run) -> None:
    options = ("--limit", "auc=0.99", "--claim-mu", "0.01")
    code, _, _ = run("audit", "t.npz", *AUDIT[2:8], *options, "--out", "out", "--bundle", "c.zip")
    assert code == 3
    code, out, _ = run("verify", "c.zip")
    said = next(line for line in out.splitlines() if line.startswith("The audit says: "))
    findings = read(place / "c.zip").findings
    assert findings.verdict.status == "clear"
    assert said.index(findings.claim.text) < said.index(findings.verdict.text)
    content = json.loads(run("verify", "c.zip", "--json")[1])["audit"]
    assert (content["status"], content["word"]) == ("flagged", "Concern: a privacy claim is refuted")
