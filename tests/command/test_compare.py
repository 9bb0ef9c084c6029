"""``miaudit compare`` and ``miaudit history``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from command import test_bundle
from command.test_bundle import AUDIT, QUICK, N, Run
from findings.test_budget import release

place = test_bundle.place


@pytest.mark.thorough
@pytest.mark.long
def test_audits_are_compared_and_lined_up(place: Path, run: Run) -> None:
    member = np.arange(N) % 2 == 0
    for i, gap in enumerate((0.3, 0.3, 1.5)):
        np.savez("t.npz", score=np.random.default_rng(i).normal(size=N) + gap * member, member=member)
        run(*QUICK, "--out", f"r{i}", "--bundle", f"b{i}.zip")
    assert run("compare", "r0", "r1")[0] == 0
    code, out, err = run("compare", "r0", "r2/findings.json", "--out", "compared")
    assert (code, err) == (3, "")
    assert "Leakage rose" in out
    assert "Leakage rose" in (place / "compared" / "report.html").read_text()
    code, out, _ = run("compare", "b0.zip", "b2.zip", "--json")
    assert code == 3
    assert json.loads(out)["status"] == "rose"
    assert run("compare", "r2", "r0")[0] == 0
    assert run("history", "r0", "r1")[0] == 0
    code, out, _ = run("history", "r0", "b1.zip", "r2", "--out", "history")
    assert code == 3
    assert [line.split(":")[0].strip() for line in out.splitlines()[2:5]] == ["r0", "b1", "r2"]
    assert run("history", "r0", "r1", "--out", "history")[0] == 1
    assert json.loads(run("history", "r0", "r2", "--json")[1])["kind"] == "history"
    run("audit", "t.npz", "--score", "score", "--member", "member", "--no-bounds", "--confidence", "0.9", "--out", "r9")
    code, out, err = run("compare", "r0", "r9")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


@pytest.mark.long
def test_what_is_not_resolved_is_not_comparable(place: Path, run: Run) -> None:
    options = ("--fpr-targets", "0.001", "--primary-metric", "tpr_at_fpr_0.001")
    code = run(*AUDIT, "--no-bounds", "--out", "r", *options)[0]
    if code == 2:
        pytest.fail("the options of audit have changed")
    shutil.copytree(place / "r", place / "again")
    assert run("compare", "r", "again")[0] == 4


@pytest.mark.thorough
@pytest.mark.long
def test_a_folder_of_audits_has_a_page_that_every_audit_keeps_up_to_date(place: Path, run: Run) -> None:
    index = place / "results" / "index.html"
    run(*QUICK)
    assert "./audit/report.html" in index.read_text()
    run(*QUICK, "--out", "mine/a")
    assert not (place / "mine" / "index.html").exists()
    code, out, err = run("history", "mine")
    assert (code, err) == (0, "") and out.startswith("1 audit:") and out.endswith("Index: mine/index.html\n")
    run(*QUICK, "--out", "mine/b")
    text = (place / "mine" / "index.html").read_text()
    assert "./b/report.html" in text and 'data-chart="trend-1"' in text
    listed = json.loads(run("history", "mine", "--json")[1])
    assert {one["entry"]["name"] for one in listed} == {"a", "b"}
    assert run("history", "mine", "--out", "x")[0] == 1 and not (place / "x").exists()
    (place / "mine" / "index.html").write_text("<p>of somebody else")
    code, out, err = run("history", "mine")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert (place / "mine" / "index.html").read_text() == "<p>of somebody else"


HARD = np.random.default_rng(0).normal(size=N)
HALF = np.random.default_rng(1).permutation(N) < N // 2


def written(name: str, member: np.ndarray, seed: int, *, loss: bool = False, ids: bool = True) -> None:
    """A table of the same people as any other, in an order of its own."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(N)
    score = (HARD + 0.4 * rng.normal(size=N) + 0.6 * member)[rows]
    columns = {"loss" if loss else "score": (-score if loss else score).tolist(), "member": member[rows].astype(int)}
    columns |= {"id": rows} if ids else {}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    Path(name).write_text("\n".join(lines) + "\n")


def auc_change(out: str) -> dict[str, float]:
    changes = json.loads(out)["changes"]
    return next(dict(change) for change in changes if change["name"] == "auc")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("loss", [False, True])
def test_evidence_beside_findings_gives_the_interval_of_paired_records(place: Path, run: Run, loss: bool) -> None:
    """Losses too, whose column is known by its name as the audit knew it; other evidence is refused."""
    kind = ("--score", "loss", "--signal", "loss") if loss else ("--score", "score")
    common = ("--member", "member", "--design", "one-run", "--primary-metric", "auc", "--no-bounds")
    for name, member, seed in (("a", HALF, 1), ("b", HALF, 2), ("c", ~HALF, 3)):
        written(f"{name}.csv", member, seed, loss=loss)
        run("audit", f"{name}.csv", *kind, *common, "--out", name)
    wide = auc_change(run("compare", "a", "b", "--json")[1])
    same = auc_change(run("compare", "a", "b", "--evidence", "a.csv", "b.csv", "--json")[1])
    opposite = auc_change(run("compare", "a", "c", "--evidence", "a.csv", "c.csv", "--json")[1])
    assert wide["correlation"] is None
    assert same["correlation"] > 0.7 and opposite["correlation"] < -0.6
    assert same["high"] - same["low"] < 0.5 * (wide["high"] - wide["low"])
    out = " ".join(run("compare", "a", "b", "--evidence", "a.csv", "b.csv")[1].split())
    assert f"Note: Both audits have {N} records in common ({N} in a and {N} in b; matched by id)." in out
    assert "Note: The intervals of the differences are wide." in " ".join(run("compare", "a", "b")[1].split())
    code, out, err = run("compare", "a", "b", "--evidence", "b.csv", "a.csv")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the evidence that a was audited on" in err
    assert run("compare", "a", "b", "--evidence", "a.csv")[0] == 2


@pytest.mark.thorough
@pytest.mark.long
def test_scores_without_anything_that_identifies_them_stay_wide(place: Path, run: Run) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        written(f"{name}.csv", HALF, seed, ids=False)
        run("audit", f"{name}.csv", *AUDIT[2:], "--no-bounds", "--out", name)
    out = run("compare", "a", "b", "--evidence", "a.csv", "b.csv")[1]
    assert "nothing identifies the records" in out
    alone, read = (run("compare", "a", "b", *more, "--json")[1] for more in ((), ("--evidence", "a.csv", "b.csv")))
    assert auc_change(alone) == auc_change(read)


@pytest.mark.thorough
@pytest.mark.long
def test_bundles_that_share_all_are_read_in_compare_and_history(place: Path, run: Run) -> None:
    person = np.array([f"p{i}" for i in range(N)])
    for name, member, seed, share in (("a", HALF, 1, "all"), ("b", ~HALF, 2, "all"), ("c", ~HALF, 2, "scores")):
        score = HARD + 0.4 * np.random.default_rng(seed).normal(size=N) + 0.6 * member
        np.savez("t.npz", score=score, member=member, unit=person)
        run(*QUICK, "--unit", "unit", "--json", "--bundle", f"{name}.zip", "--share", share)
    assert auc_change(run("compare", "a.zip", "b.zip", "--json")[1])["correlation"] < -0.6
    assert auc_change(run("compare", "a.zip", "c.zip", "--json")[1])["correlation"] is None
    steps = json.loads(run("history", "a.zip", "b.zip", "a.zip", "c.zip", "--json")[1])["changes"]
    assert [f"{N} records in common" in step["cautions"][-1] for step in steps] == [True, True, False]


def audits(place: Path, *p_values: float) -> Path:
    """A folder with findings of one release a month."""
    (place / "audits").mkdir(exist_ok=True)
    for month, p in enumerate(p_values, 1):
        (place / "audits" / f"v{month}.json").write_text(release(month, p).to_json())
    return place / "audits"


@pytest.mark.long
def test_a_budget_judges_all_releases_of_a_folder(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    audits(tmp_path, 0.2, *[0.008] * 4)
    code, out, err = run("history", "audits", "--budget", "0.05")
    assert (code, err) == (0, "") and out.startswith("No alarm in 5 releases.")
    assert "2026-01-01 v1" in out and "left 0.829%" in out and "Memberships: shared." in out
    code, out, _ = run("history", "audits", "--budget", "0.05", "--memberships", "fresh", "--out", "out")
    assert code == 3 and out.startswith("Alarm at v") and (tmp_path / "out" / "report.html").is_file()
    assert not (tmp_path / "audits" / "index.html").exists()
    code, out, _ = run("history", "audits", "--budget", "0.05", "--memberships", "fresh", "--json")
    assert code == 3 and json.loads(out)["budget"]["alarm_at"] == 40
    (tmp_path / "next.json").write_text(release(6, 1e-7).to_json())
    assert run("history", "audits", "next.json", "--budget", "0.05")[0] == 3
    assert run("history", "audits/v1.json", "audits/v2.json")[0] in (0, 3)  # without a budget all is as it was


def test_a_history_that_cannot_be_judged_is_refused_in_one_line(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = audits(tmp_path, 0.2, 0.3)
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("--budget", "2"), "budget"),
        (("--budget", "0.05", "--memberships", "new"), "memberships"),
    ]
    for options, word in wrong:
        code, out, err = run("history", "audits", *options)
        assert (code, out, err.count("\n")) == (1, "", 1) and word in err
    assert run("history", "audits", "--memberships", "fresh")[0] == 2
    for more in ((), ("--overwrite",)):  # findings in the folder of audits would hide them from the next history
        code, out, err = run("history", "audits", "--budget", "0.05", "--out", "audits", *more)
        assert (code, out) == (1, "") and "choose --out audits/history" in err
    assert not (folder / "findings.json").exists()
    for name, text, word in (
        ("undated.json", release(3, 0.4, date=None).to_json(), "date"),  # type: ignore[arg-type]
        ("other.json", release(3, 0.4, model="other").to_json(), "one model"),
        ("broken.zip", "no bundle", "broken.zip"),
    ):
        (folder / name).write_text(text)
        code, out, err = run("history", "audits", "--budget", "0.05")
        assert (code, out, err.count("\n")) == (1, "", 1) and word in err
        (folder / name).unlink()
