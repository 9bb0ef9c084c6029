"""The comparison of private synthetic tables: its columns, what it keeps and makes again, and its page."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / "peers"
MODULES = ("run", "data", "score", "ours", "page", "call_tool", "compare")


@pytest.fixture(scope="module")
def peers():
    """The modules under their plain names, which are gone afterwards."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    folders = [str(PEERS / "tables"), str(PEERS)]
    sys.path[:0] = folders
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        for folder in folders:
            sys.path.remove(folder)
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


# -- the tables -------------------------------------------------------------------------------------------------------

ROW = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "


def adult_rows(*changes):
    """Rows of Adult, each with some of its 15 fields changed."""
    rows = []
    for change in changes:
        row = (ROW + "United-States, <=50K").split(", ")
        for place, value in change.items():
            row[place] = value
        rows.append(row)
    return rows


def test_numbers_are_cut_at_the_bounds_written_down(peers):
    """The bin of a number is the one whose name says so; nothing depends on the other records."""
    data = peers["data"]
    given = {0: "19"}, {0: "20"}, {0: "64"}, {0: "65"}, {10: "0"}, {10: "4999"}, {10: "99999"}, {12: "40"}, {12: "99"}
    schema, codes = data.adult_codes(adult_rows(*given))
    said = [
        schema.column(name).categories[int(codes[i, schema.position(name)])]
        for i, name in enumerate(["age"] * 4 + ["capital_gain"] * 3 + ["hours"] * 2)
    ]
    expected = ["under 20", "20 to under 25", "60 to under 65", "65 and more", "under 1", "1 to under 5000"]
    assert said == [*expected, "10000 and more", "40 to under 41", "60 and more"]
    alone, first = data.adult_codes(adult_rows(given[0]))
    assert alone == schema and np.array_equal(first[0], codes[0])


def test_every_category_of_the_files_has_a_group(peers):
    data = peers["data"]
    rows = adult_rows({13: "Cuba"}, {13: "?"}, {1: "?", 6: "?"})
    schema, codes = data.adult_codes(rows)
    country = schema.column("native_country").categories
    assert [country[int(c)] for c in codes[:2, schema.position("native_country")]] == ["other", "unknown"]
    with pytest.raises(KeyError, match="Astronaut"):
        data.adult_codes(adult_rows({6: "Astronaut"}))
    for _place, groups in data.ADULT.values():
        values = [value for group in groups.values() for value in group]
        assert len(values) == len(set(values))


def acs_records(n=2):
    found = {source: np.ones(n) for source, _groups in peers_acs().values()}
    return found | {"Age": np.full(n, 75.0), "Hours_Worked": np.full(n, 40.0)}


def peers_acs():
    return importlib.import_module("data").ACS


def test_missing_census_codes_are_a_group_and_unknown_ones_refused(peers):
    found = acs_records() | {"COW": np.array([np.nan, 6.0])}
    schema, codes = peers["data"].acs_codes(found, np.array([49_999.0, 50_000.0]))
    said = [[schema.columns[j].categories[int(c)] for j, c in enumerate(row)] for row in codes]
    place = schema.position("workclass")
    assert [row[place] for row in said] == ["none or without pay", "own business"]
    assert [row[-1] for row in said] == ["under 50000", "50000 and more"]
    with pytest.raises(KeyError):
        peers["data"].acs_codes(found | {"Sex": np.array([1.0, 3.0])}, np.zeros(2))


@pytest.mark.parametrize("name", ["adult", "acs"])
def test_graphs_are_over_the_columns_and_have_at_most_six_parents(peers, name):
    data = peers["data"]
    found = data.adult_codes(adult_rows({})) if name == "adult" else data.acs_codes(acs_records(), np.zeros(2))
    graph = data.real_subject(name, name, found[0], {}, np.zeros((3, len(found[0])))).graph
    assert graph.full and max(len(graph.parents(column)) for column in graph.groups) <= 6
    roots = {column for column in graph.groups if not graph.parents(column)}
    assert {"age", "sex", "race"} <= roots <= {"age", "sex", "race", "native_country"}
    if name == "adult":
        assert "income" not in {cause for cause, _effect in graph.edges}


def test_a_seed_is_one_split_into_records_that_are_not_shared(peers):
    data = peers["data"]
    schema, _codes = data.adult_codes(adult_rows({}))
    codes = np.zeros((30, len(schema)))
    codes[:, 0], codes[:, 2], codes[:, 4] = np.arange(30) % 11, np.arange(30) % 8, np.arange(30) % 12
    subject = data.real_subject("adult", "a", schema, {"sex": ("sex", ["male"])}, codes)
    splits = [subject.draw(seed) for seed in (0, 0, 1)]
    rows = [[tuple(row) for part in (s.private, s.other, s.test) for row in part.values] for s in splits]
    assert rows[0] == rows[1] != rows[2]
    assert len(set(rows[0])) == len({tuple(row) for row in codes}) == 30
    assert subject.targets == {"sex": ("sex", frozenset({1}))}


@pytest.mark.long
def test_scores_tell_shuffled_columns_from_another_real_sample(peers):
    subject = peers["data"].subject("synthetic22")
    split = subject.draw(0)
    tables = peers["score"].baselines(split, 0)
    found = {name: peers["score"].scored(table, split, subject, 0) for name, table in tables.items()}
    assert found["shuffled"]["columns"] == pytest.approx(found["private"]["columns"])
    assert found["shuffled"]["pairs"] > 1.3 * found["real"]["pairs"]
    means = {name: np.mean(list(scores["auc"].values())) for name, scores in found.items()}
    assert abs(means["real"] - means["private"]) < 0.03 and means["private"] - means["shuffled"] > 0.15


@pytest.mark.parametrize(
    ("tool", "method", "graph", "forced"),
    [
        ("miaudit-graph", "tables", True, True),
        ("miaudit-tables", "tables", False, False),
        ("miaudit-stages", "tables", False, False),
        ("miaudit-vae", "vae", True, True),
    ],
)
def test_ours_are_called_through_the_public_door(peers, monkeypatch, tool, method, graph, forced):
    """The world stands in for the generator: the privacy asked is the job's, and only a graph can answer what if."""
    ours, subject = peers["ours"], peers["data"].subject("synthetic22")
    asked = {}

    def fit(table, graph, privacy, **options):
        asked.update(options, table=table, graph=graph, privacy=privacy)
        return subject.world

    monkeypatch.setattr(ours, "fit", fit)
    monkeypatch.setattr(ours, "DRAWN", 200)
    codes = subject.draw(0).private.values[:50].astype(int)
    job = {"tool": tool, "table": "synthetic22", "epsilon": 1.0, "delta": 1e-5, "records": 50, "seed": 0}
    call, _versions = peers["call_tool"].RUN[tool][1](job, {"codes": codes})
    assert call().shape == (50, 22)
    privacy = asked["privacy"]
    assert (privacy.records, privacy.epsilon, privacy.delta) == (50, 1.0, 1e-5)
    assert asked["method"] == method and asked["repeatable"] and np.array_equal(asked["table"].values, codes)
    assert (getattr(asked.get("config"), "two_stages", False) is True) == (tool == "miaudit-stages")
    assert asked["graph"] is (subject.graph if graph else None)
    more = call.more()
    assert bool(more) == forced
    if forced:
        found = more["interventional"]
        assert abs(found["error"] - found["floor"]) < 0.02 < found["effect"]


# -- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def measuring(peers, tmp_path, monkeypatch):
    """Measure two tools of one table, each run pretended; returns the call and the list of runs made."""
    compare, made = peers["compare"], []
    monkeypatch.setattr(compare, "absent", lambda *_given: ({}, {}))
    options = argparse.Namespace(
        measured=tmp_path, environments=tmp_path, table=["adult"], epsilon=[1.0], seeds=2, limit=9.0, again=False
    )
    answer = {"entry": lambda _job: {"columns": 0.1, "pairs": 0.2, "auc": {"sex": 0.7}, "cpu": 1.0}}

    def pretend(job, _limit, _python):
        made.append((job.tool, job.key))
        return answer["entry"](job)

    monkeypatch.setattr(compare, "measured_run", pretend)
    return options, made, answer, lambda: compare.measure(options, ["mst", "aim"])


def test_a_second_call_makes_only_what_is_missing(measuring, tmp_path):
    options, made, answer, call = measuring
    usual = answer["entry"]

    def stopped(job):
        if (job.tool, job.key) == ("aim", "1 0"):
            raise KeyboardInterrupt
        return usual(job)

    answer["entry"] = stopped
    with pytest.raises(KeyboardInterrupt):
        call()
    before = list(made)
    assert before[-2:] == [("mst", "1 0"), ("aim", "1 0")] and len(before) == 8
    assert not (tmp_path / "adult" / "aim.json").exists()
    answer["entry"] = usual
    made.clear()
    call()
    assert made == [("aim", "1 0"), ("mst", "1 1"), ("aim", "1 1")]
    made.clear()
    call()
    assert made == []
    options.epsilon = [1.0, 0.3]
    call()
    assert {key for _tool, key in made} == {"0.3 0", "0.3 1"}
    assert sorted(json.loads((tmp_path / "adult" / "mst.json").read_text())) == ["0.3 0", "0.3 1", "1 0", "1 1"]


def test_what_did_not_finish_is_recorded_and_not_tried_again(measuring, tmp_path):
    options, made, answer, call = measuring
    usual = answer["entry"]
    answer["entry"] = lambda job: {"failed": "did not finish in 9 CPU s"} if job.tool == "aim" else usual(job)
    call()
    call()
    assert [key for tool, key in made if tool == "aim"] == ["1 0"]
    kept = json.loads((tmp_path / "adult" / "aim.json").read_text())
    assert kept["1 1"] == {"failed": "not run: seed 0 did not finish in 9 CPU s"}
    options.again, answer["entry"] = True, usual
    made.clear()
    call()
    assert made == [("aim", "1 0"), ("aim", "1 1")]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -XCPU $$", "did not finish in 5 CPU s"),
        ("kill -KILL $$", "killed"),
        ("echo warning >&2; echo 'ValueError: no noise' >&2; exit 1", "ValueError: no noise"),
        ("exit 3", "ended with 3"),
    ],
)
def test_failures_have_one_line(peers, tmp_path, script, reason):
    subject = peers["data"].subject("synthetic22")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    job = {"tool": "mst", "limit": 5.0}
    found = peers["compare"].made(subject, subject.draw(0), job, python)
    assert set(found) == {"failed"} and found["failed"].startswith(reason)


@pytest.mark.long
def test_a_process_ends_when_its_cpu_seconds_are_used_up():
    code = "import call_tool; call_tool.limited(0.0)\nwhile True: pass"
    environment = os.environ | {"PYTHONPATH": str(PEERS / "tables")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False)
    assert done.returncode == -signal.SIGXCPU


def test_a_table_outside_its_columns_is_a_failure(peers, monkeypatch, tmp_path):
    compare = peers["compare"]
    values = np.full((5, 22), 7.0)
    monkeypatch.setattr(compare, "made", lambda *_given: {"cpu": 1.0, "values": values})
    entry = compare.measured_run(compare.Run("synthetic22", "mst", 1.0, 0), 5.0, tmp_path)
    assert entry["failed"].startswith("made a table that its columns do not allow")


def test_absent_tools_and_data_are_named(peers, monkeypatch, tmp_path):
    monkeypatch.setenv("MIAUDIT_DATA", str(tmp_path / "nowhere"))
    peers["data"].subject.cache_clear()
    tools, tables = peers["compare"].absent(["mst", "miaudit-vae"], ["adult", "acs", "synthetic22"], tmp_path)
    peers["data"].subject.cache_clear()
    assert set(tools) == {"mst"} and "--install" in tools["mst"]
    assert set(tables) == {"adult", "acs"} and "adult.data.gz" in tables["adult"]


def git(folder, *words):
    """Run git in a folder as a person without a configuration, and return what it prints."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_mechanisms_of_mbi_are_those_of_one_commit(peers, monkeypatch, tmp_path, capsys):
    """Later commits of the repository change nothing, and what cannot be had is named, not called."""
    compare, source, environments = peers["compare"], tmp_path / "source", tmp_path / "environments"
    (source / "mechanisms").mkdir(parents=True)
    (environments / "mbi" / "bin").mkdir(parents=True)
    (environments / "mbi" / "bin" / "python").touch()
    git(source, "init", "-q")
    commits = []
    for text in ("first", "second"):
        (source / "mechanisms" / "mst.py").write_text(text)
        git(source, "add", ".")
        git(source, "commit", "-q", "-m", text)
        commits.append(git(source, "rev-parse", "HEAD"))
    monkeypatch.setattr(compare, "MECHANISMS", ("", commits[0]))
    compare.install_mechanisms(environments, str(tmp_path / "nowhere"))
    assert "not to be had" in capsys.readouterr().err
    assert "--mechanisms" in compare.absent(["mbi-mst"], [], environments)[0]["mbi-mst"]
    compare.install_mechanisms(environments, str(source))
    assert (environments / "mbi" / "mechanisms" / "mst.py").read_text() == "first"
    assert compare.absent(["mbi-mst"], [], environments) == ({}, {})


def test_tools_have_an_environment_and_a_row(peers):
    compare, call_tool = peers["compare"], peers["call_tool"]
    environments = {environment for environment, _run in call_tool.RUN.values()}
    assert environments == {"miaudit", *compare.ENVIRONMENTS}
    assert {path.stem for path in (PEERS / "tables" / "requirements").glob("*.txt")} == set(compare.ENVIRONMENTS)
    assert set(call_tool.RUN) | {"real", "shuffled"} == set(peers["page"].ROWS)
    assert set(peers["page"].TITLES) == set(peers["data"].READ)


# -- the page ---------------------------------------------------------------------------------------------------------


def stored(folder, tool, entries):
    (folder / "adult").mkdir(exist_ok=True)
    (folder / "adult" / f"{tool}.json").write_text(json.dumps(entries))


def entry(pairs, auc, **more):
    return {"columns": 0.01, "pairs": pairs, "auc": {"sex": auc}} | more


def test_the_page_shows_intervals_failures_and_paired_differences(peers, tmp_path):
    page = peers["page"]
    stored(tmp_path, "private", {f"- {k}": entry(0.02, 0.9 + 0.01 * k) for k in range(3)})
    stored(tmp_path, "shuffled", {f"- {k}": entry(0.08, 0.5) for k in range(3)})
    stored(tmp_path, "miaudit-tables", {f"1 {k}": entry(0.03, 0.85 + 0.01 * k, cpu=3.0) for k in range(3)})
    mst = {f"1 {k}": entry(0.05, 0.8 + 0.01 * k, cpu=5.0, versions="tool 1") for k in range(3)}
    stored(tmp_path, "mst", mst | {"0.3 0": entry(0.07, 0.7, cpu=4.0)})
    stored(tmp_path, "dpctgan", {f"1 {k}": entry(0.4, 0.5, cpu=1.0, spent=0.9 + 0.3 * k) for k in range(3)})
    stored(tmp_path, "aim", {"1 0": {"failed": "did not finish in 9 CPU s"}, "1 1": {"failed": "not run: seed 0"}})
    found = page.written(tmp_path)
    lines = found.splitlines()
    assert "| MST | 0.010 (0.010 to 0.010) | 0.050 (0.050 to 0.050) | 0.100 (0.100 to 0.100) | 5 | 3 |" in lines
    assert "| AIM | did not finish in 9 CPU s |  |  |  | 0 of 2 |" in lines
    assert "| MST | 0.020 (0.020 to 0.020) | 0.050 (0.050 to 0.050) | 3 |" in lines  # less ours, seed by seed
    assert "DP-CTGAN: its own accountant said 1.20 on average, 1.50 at most at the end." in lines
    weak = lines[lines.index("### Adult, epsilon 0.3") :]
    assert "| MST | 0.010 | 0.070 | 0.200 | 4 | 1 |" in weak
    assert found.index("epsilon 1") < found.index("epsilon 0.3")
    assert "Measured with tool 1." in found and "pain1000" in lines[-1]
    widths = {line.count("|") for line in lines[: lines.index("### Adult, epsilon 0.3")] if line.startswith("| ")}
    assert len(widths) == 2  # of the table and of the differences


def test_the_command_shows_what_is_kept_and_refuses_what_it_does_not_know(peers, tmp_path, monkeypatch, capsys):
    compare = peers["compare"]
    docs = tmp_path / "page.md"
    docs.write_text(f"# Title\n{compare.MARKS[0]}\nold\n{compare.MARKS[1]}\nend\n")
    stored(tmp_path, "private", {"- 0": entry(0.02, 0.9)})
    stored(tmp_path, "mst", {"1 0": entry(0.05, 0.8, cpu=5.0)})
    command = ["compare.py", "--show", "--measured", str(tmp_path), "--docs", str(docs)]
    monkeypatch.setattr(sys, "argv", command)
    compare.main()
    written = docs.read_text()
    assert "| MST |" in written and "old" not in written and written.startswith("# Title") and written.endswith("end\n")
    bare = tmp_path / "bare.md"
    bare.write_text("# No marks\n")
    wrongs = ["--tool", "mts"], ["--epsilon", "2"], ["--seeds", "0"], ["--limit", "nan"], ["--docs", str(bare)]
    for wrong in (*wrongs, ["--docs", str(tmp_path / "none.md")], ["--measured", str(bare)]):
        monkeypatch.setattr(sys, "argv", [*command, *wrong])
        with pytest.raises(SystemExit) as stop:
            compare.main()
        assert stop.value.code == 2
    assert "mts" in capsys.readouterr().err
