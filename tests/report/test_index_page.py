"""The page over all audits of a folder: what it lists, what it leaves alone, and who brings it up to date."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest

from findings.test_entry import held
from miaudit.errors import InputError, OutputError
from miaudit.report import index_page, kinds
from report.test_audit_page import EVIL, Page


def put(folder: Path, name: str, content: dict[str, Any], at: int = 0) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / kinds.FINDINGS).write_text(json.dumps(content), encoding="utf-8")
    os.utime(place / kinds.FINDINGS, (1_700_000_000 + 86_400 * at,) * 2)
    return place


def test_every_audit_is_listed_newest_first_with_its_link(tmp_path: Path) -> None:
    put(tmp_path, "first", held("one-run"), at=1)
    put(tmp_path, "second #2?", held("refused"), at=2)
    put(tmp_path, "stated", {**held("comparison"), "about": {"date": "2030-01-01"}}, at=0)
    (tmp_path / "first" / kinds.PAGE).write_text("", encoding="utf-8")
    (tmp_path / "figures").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "first")
    listing = index_page.listed(tmp_path)
    assert [one.entry.name for one in listing.audits] == ["stated", "second #2?", "first"]
    assert [(one.when, one.stated) for one in listing.audits] == [
        ("2030-01-01", True),
        ("2023-11-16 22:13", False),
        ("2023-11-15 22:13", False),
    ]
    assert listing.unread == () and listing.text == "2 audits: 1 with concern, 1 not answered; and 1 other result."
    links = re.findall(r'href="(\./[^"]*)"', index_page.page(listing))
    assert links == ["./stated/findings.json", "./second%20%232%3F/findings.json", "./first/report.html"]


@pytest.mark.parametrize(
    ("status", "reason", "word"),
    [
        ("clear", None, "Within the limits"),
        ("flagged", None, "Concern"),
        ("inconclusive", None, "Not answered (inconclusive)"),
        ("not-testable", "undeclared", "Not answered (undeclared)"),
    ],
)
def test_a_verdict_has_the_words_of_its_page(tmp_path: Path, status: str, reason: str | None, word: str) -> None:
    content = held("one-run")
    put(tmp_path, "one", {**content, "verdict": {**content["verdict"], "status": status, "reason": reason}})
    assert index_page.word(index_page.listed(tmp_path).audits[0]) == word


def test_what_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    put(tmp_path, "good", held("one-run"))
    for name, text in (("cut", '{"kind": "au'), ("list", "[1]"), ("foreign", '{"verdict": "fine"}'), ("nan", "NaN")):
        (tmp_path / name).mkdir()
        (tmp_path / name / kinds.FINDINGS).write_text(text, encoding="utf-8")
    with (tmp_path / "cut" / "x").open("wb") as file:
        file.truncate(1)
    large = tmp_path / "large"
    large.mkdir()
    with (large / kinds.FINDINGS).open("wb") as file:
        file.truncate(30_000_000)
    listing = index_page.listed(tmp_path)
    assert [one.entry.name for one in listing.audits] == ["good"]
    assert [text.split(":")[0] for text in listing.unread] == ["cut", "foreign", "large", "list", "nan"]
    assert "30,000,000 bytes" in listing.unread[2]
    page = Page(index_page.page(listing))
    assert "Not listed" in page.words and "foreign: no findings" in page.words
    with pytest.raises(InputError, match="folder of audits"):
        index_page.listed(tmp_path / "nowhere")


@pytest.mark.long
def test_names_that_try_to_be_markup_stay_text(tmp_path: Path) -> None:
    evil = EVIL.replace("/", "").replace("\u2028", "")
    content = held("one-run")
    content["evidence"]["source"] = EVIL
    content["scores"][0]["score"] = EVIL
    put(tmp_path, evil, content)
    put(tmp_path, "b", content)
    (tmp_path / f"{evil}2").mkdir()
    (tmp_path / f"{evil}2" / kinds.FINDINGS).write_text("{}", encoding="utf-8")
    text = index_page.page(index_page.listed(tmp_path))
    assert "<img src=x" not in text and "<script>alert" not in text
    Page(text)


@pytest.mark.long
def test_a_trend_is_of_one_model_metric_and_score(tmp_path: Path) -> None:
    content = held("one-run")
    for at, name in enumerate("abc"):
        put(tmp_path, name, content, at=at)
    put(tmp_path, "other", {**content, "about": {"model": "another"}})
    put(tmp_path, "raw", held("raw-only"))
    put(tmp_path, "refused", held("refused"))
    charts = index_page._trends(index_page.listed(tmp_path).audits)
    assert list(charts) == ["trend-1"]
    drawn = charts["trend-1"].to_dict()
    assert drawn["title"]["text"][0].startswith("t.npz: AUC in 3 audits, oldest first")
    points = next(rows for rows in drawn["datasets"].values() if "low" in rows[0])
    assert [row["name"] for row in points] == ["a, 2023-11-14", "b, 2023-11-15", "c, 2023-11-16"]
    metric = next(m for m in content["metrics"] if m["name"] == "auc")
    assert {(row["value"], row["low"], row["high"]) for row in points} == {
        (metric["value"], metric["low"], metric["high"])
    }


def test_a_page_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results"
    out = put(results, "audit", held("one-run"))
    (results / "index.html").write_text("<p>mine", encoding="utf-8")
    with pytest.raises(OutputError, match="not made by miaudit"):
        index_page.write(results)
    monkeypatch.chdir(tmp_path)
    index_page.refresh(out)
    assert (results / "index.html").read_text(encoding="utf-8") == "<p>mine"


def test_only_results_and_folders_with_a_page_of_ours_are_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere, default = put(tmp_path / "elsewhere", "a", held("one-run")), put(Path("results"), "a", held("one-run"))
    for out in (elsewhere, default):
        index_page.refresh(out)
    assert not (elsewhere.parent / "index.html").exists() and (default.parent / "index.html").is_file()
    index_page.write(elsewhere.parent)
    second = put(tmp_path / "elsewhere", "b", held("one-run"))
    index_page.refresh(second)
    assert "./b/findings.json" in (elsewhere.parent / "index.html").read_text(encoding="utf-8")
    (default.parent / "index.html").unlink()
    (default.parent / "index.html").mkdir()
    index_page.refresh(default)  # cannot be written, and is no fault of the results


def test_a_page_without_charts_has_no_program(tmp_path: Path) -> None:
    put(tmp_path, "a", held("one-run"))
    text = index_page.page(index_page.listed(tmp_path))
    assert "script-src 'none'" in text and "<script>" not in text and len(text) < 40_000


def _audit(folder: Path, name: str) -> None:
    index_page.refresh(put(folder, name, {**held("one-run"), "about": {"model": name}}))


@pytest.mark.long
def test_audits_that_end_together_are_all_on_the_page(tmp_path: Path) -> None:
    put(tmp_path, "first", held("one-run"))
    index_page.write(tmp_path)
    names = [f"run-{i}" for i in range(6)]
    context = multiprocessing.get_context("fork")
    runs = [context.Process(target=_audit, args=(tmp_path, name)) for name in names]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert all(f"./{name}/" in text for name in names)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["index.html"]
