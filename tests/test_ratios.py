"""A growth that a second run confirms fails, and the page of peers shows the newest file of costs."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def ratios():
    path = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("ratios")
    finally:
        sys.path[:] = path
        sys.modules.pop("ratios", None)


def results(**ratio):
    way = lambda value: {"cpu": 0.01, "ratio": value, "megabytes": 1.0}  # noqa: E731
    return {
        name: {"straightforward_is": "a loop", "note": "", "ways": {"miaudit": way(1.0), "straightforward": way(value)}}
        for name, value in ratio.items()
    }


@pytest.mark.parametrize(
    ("first", "second", "fails"),
    [(0.66, 0.66, True), (0.9, 0.7, True), (0.64, 0.9, False), (0.9, 0.64, False), (0.3, 0.9, False)],
    ids=["both", "both more", "first within", "second within", "faster"],
)
def test_only_a_growth_in_two_runs_fails(ratios, first, second, fails):
    before, now = results(a=0.5, b=0.1), results(a=first, b=0.1, new=9.0)
    measured = []

    def again(name):
        measured.append(name)
        return results(a=second)["a"]

    assert set(ratios.confirmed(before, now, again)) == ({"a"} if fails else set())
    assert measured == (["a"] if first > 0.65 else [])  # what is new, or as fast as before, is not measured again


def test_a_question_is_measured_in_turn_with_the_ways_beside_it(ratios):
    work = lambda n: lambda: sum(i * i for i in range(n))  # noqa: E731
    question = ratios.Question(work(20_000), work(200_000), "ten times the work", {"opacus": work(100_000)})
    rows = ratios.measured(question, rounds=3)["ways"]
    assert rows["miaudit"]["ratio"] == 1.0
    assert 0.02 < rows["straightforward"]["ratio"] < 0.5
    assert set(rows) <= {"miaudit", "straightforward", "opacus"}
    held = ratios.megabytes(lambda: bytearray(8 * 2**20))
    assert 8 <= held < 9


def test_the_newest_file_of_another_commit_is_compared(ratios, tmp_path):
    assert ratios.newest(tmp_path) is None
    for commit, date in (("a", "2026-01-02 10:00"), ("b", "2026-01-03 10:00"), ("c", "2026-01-01 10:00")):
        content = {"commit": commit, "date": date, "packages": {}, "questions": results(q=0.5)}
        (tmp_path / f"{commit}.json").write_text(json.dumps(content))
    assert ratios.newest(tmp_path)["commit"] == "b"
    assert ratios.newest(tmp_path, but="b")["commit"] == "a"


def test_the_page_shows_the_newest_file(ratios):
    latest = ratios.newest(ratios.HISTORY)
    page = (ROOT / "benchmarks" / "public_tools.md").read_text(encoding="utf-8")
    shown = page.partition(ratios.MARKS[0])[2].partition(ratios.MARKS[1])[0].strip()
    assert shown == ratios.table(latest)
    assert set(latest["questions"]) == set(ratios.QUESTIONS)
    latest["questions"][next(iter(ratios.QUESTIONS))]["ways"]["miaudit"]["cpu"] *= 2
    assert shown != ratios.table(latest)


def test_a_peer_with_an_environment_of_its_own_is_measured_there_and_kept_where_it_is_absent(ratios, tmp_path):
    python = tmp_path / "peer" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    script = tmp_path / "times.py"
    script.write_text(
        'import json\nprint("first")\nprint(json.dumps({"cpu": 2.0, "megabytes": 3.0, "version": "1.2"}))'
    )
    work = lambda: sum(range(1_000))  # noqa: E731
    elsewhere = {"peer": lambda own: ratios.answered(own, script), "absent": lambda own: 1 / 0}
    question = ratios.Question(work, work, "the same", elsewhere=elsewhere)
    now = ratios.measured(question, rounds=1, environments=tmp_path)
    assert set(now["ways"]) == {"miaudit", "straightforward", "peer"}
    assert 0 < now["ways"]["peer"]["ratio"] < 0.01 and now["ways"]["peer"]["version"] == "1.2"
    later = {"a": ratios.measured(question, rounds=1), "new": ratios.measured(question, rounds=1)}
    assert "peer" not in later["a"]["ways"]
    before = {"commit": "abc", "questions": {"a": now}}
    ratios.kept(before, later)
    assert later["a"]["ways"]["peer"]["at"] == "abc" and "peer" not in later["new"]["ways"]
    ratios.kept({"commit": "def", "questions": later}, later)
    assert later["a"]["ways"]["peer"]["at"] == "abc"
    page = ratios.table({"commit": "def", "date": "2026-01-01", "packages": {}, "questions": later})
    assert "| peer 1.2, at commit abc |" in page
