"""Public tools beside ours, in a tiny form: benchmarks/peers measures what it says, and tools present agree."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / "peers"
MODULES = ("measure", "lira", "roc", "one_run", "multi_run", "run")
ENVIRONMENTS = Path(os.environ.get("MIAUDIT_PEERS", "/tmp/peers"))


@pytest.fixture(scope="module")
def peers():
    """The modules of benchmarks/peers under their plain names, which are gone afterwards."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(PEERS))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(PEERS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="module")
def evidence(peers, tmp_path_factory):
    folders = {}
    for subject, write in peers["run"].WRITE.items():
        folders[subject] = tmp_path_factory.mktemp(subject)
        write(folders[subject], 6, 0.05)
    return folders


def measured(peers, evidence, subject, tool, option):
    python = peers["run"].python_of(tool, ENVIRONMENTS)
    if python is None:
        pytest.skip(f"{tool} is not installed in {ENVIRONMENTS}")
    found = peers["run"].measured(subject, tool, option, evidence[subject], python, 0.5)
    assert "failed" not in found, found
    return found


def test_every_tool_has_requirements_and_a_subject_and_we_answer_every_question(peers):
    answered = set()
    for subject in peers["run"].SUBJECTS:
        ways = peers[subject].WAYS
        answered |= set(ways)
        ours = {way.question for way in ways["miaudit"].values() if way.held}
        assert {way.question for offered in ways.values() for way in offered.values()} <= ours
    assert answered == {"miaudit", *peers["run"].PEERS}
    assert {path.stem for path in (PEERS / "requirements").glob("*.txt")} == set(peers["run"].PEERS)


def test_what_is_installed_is_what_was_asked_for(peers, tmp_path, monkeypatch, capsys):
    """--install --tool makes that tool's environment; without --tool, all of them. What is there is left alone."""
    made = []

    def pretend(command, **_options):
        if "venv" in command:
            made.append(Path(command[-1]).name)

    run = peers["run"]
    monkeypatch.setattr(run.subprocess, "run", pretend)
    monkeypatch.setattr(run, "measure_all", lambda _options: [])
    (tmp_path / "opake").mkdir()
    command = ["run.py", "--show", "--install", "--environments", str(tmp_path)]
    for asked, expected in (
        (["--tool", "art", "--tool", "opake"], ["art"]),
        (["--tool", "miaudit"], []),
        ([], [tool for tool in run.PEERS if tool != "opake"]),
    ):
        made.clear()
        monkeypatch.setattr(sys, "argv", [*command, *asked])
        run.main()
        assert made == expected
    monkeypatch.setattr(sys, "argv", [*command, "--tool", "arts"])
    with pytest.raises(SystemExit):
        run.main()
    assert "arts" in capsys.readouterr().err


def test_our_options_are_all_there(peers):
    from typing import get_args

    from miaudit.dp import multi_run, selection

    one = {name.split(", ")[-1] for name in peers["one_run"].WAYS["miaudit"] if name.startswith("audit")}
    assert one == {option.__name__ for option in get_args(selection.Option)} - {"Fixed"}
    many = {tuple(name.split(", ")[1:]) for name in peers["multi_run"].WAYS["miaudit"] if name.startswith("epsilon")}
    rules = {rule.__name__ for rule in get_args(multi_run.ThresholdRule)}
    methods = {method.__name__ for method in get_args(multi_run.Method)}
    assert many == {(rule, method) for rule in rules for method in methods}


@pytest.mark.parametrize(("wrong", "count"), [(0, 40), (3, 400), (40, 40)])
def test_limits_are_the_exact_ones(peers, wrong, count):
    exact = stats.binomtest(wrong, count).proportion_ci(0.95, method="exact")
    assert peers["run"].limits(wrong, count) == pytest.approx((exact.low, exact.high))


def test_alarms_count_limits_above_the_truth(peers):
    measure = peers["measure"]
    draws = [measure.Trials(np.zeros(2), np.array([True, False]), 0.0, 0.0, seed) for seed in range(20)]
    worlds = [("null", 0.5, draws)]
    count = measure.alarms(lambda draw: (0.0, float(draw.seed < 8)), worlds, 60.0)
    assert count["null"][:2] == [8, 20]
    assert measure.alarms(lambda _draw: (9.0, 0.5), worlds, 60.0)["null"][0] == 0  # at the truth is no alarm
    assert measure.alarms(lambda _draw: (9.0, 0.5), worlds, 0.0)["null"][1] == 5  # a slow tool gets fewer


def test_calls_are_timed_on_rows_they_have_not_met(peers):
    met = []
    peers["measure"].cpu(met.append, list(range(10)))
    assert met == list(range(10))


def test_the_worlds_are_what_their_names_say(peers):
    """The delta of a world is the share of runs, or of trials, that show their bit; scores say nothing otherwise."""
    run, rng = peers["run"], np.random.default_rng(5)
    shown = [run.sometimes_all(rng, 50, 1.0) for _ in range(400)]
    rate = np.mean([np.all((score > 3) == member) for score, member in shown])
    assert abs(rate - run.CHANCE) < 4 * math.sqrt(run.CHANCE * (1 - run.CHANCE) / 400)
    score, member = run.each_may_fail(rng, 20_000, 0.05)
    assert abs(np.mean(np.abs(score) > 5) - 0.05) < 0.007
    assert np.all((score > 0)[np.abs(score) > 5] == member[np.abs(score) > 5])
    quiet = np.abs(score) < 4
    assert abs(score[quiet & member].mean() - score[quiet & ~member].mean()) < 0.06


def test_the_table_marks_what_is_shown_to_exceed_the_level(peers):
    row = {"subject": "one_run", "question": "q", "note": "", "held": True, "cpu": 0.01, "peak": 90.0, "value": 1.0}
    rows = [
        row | {"tool": "miaudit", "option": "a", "alarms": {"nothing leaks": [10, 400, 0.0]}},
        row | {"tool": "other", "option": "b", "cpu": 0.02, "alarms": {"nothing leaks": [90, 400, 0.1]}},
        {
            "subject": "one_run",
            "question": "q",
            "note": "",
            "held": True,
            "tool": "third",
            "option": "c",
            "failed": "no",
        },
    ]
    shown = peers["run"].table(rows).splitlines()
    ours, other, third = (
        next(line for line in shown if f"| {name} |" in line) for name in ("miaudit", "other", "third")
    )
    assert "**" not in ours and "**22.5%**" in other
    assert "| 2 |" in other and "| no |" in third
    assert len({line.count("|") for line in (ours, other, third)}) == 1


def test_ours_is_measured(peers, evidence):
    found = measured(peers, evidence, "one_run", "miaudit", "epsilon_lower_bound")
    assert found["cpu"] > 0 and found["peak"] >= found["before"] > 10
    wrong, count, _mean = found["alarms"]["nothing leaks"]
    assert 0 <= wrong <= count == 6


@pytest.mark.parametrize(
    ("subject", "tool", "theirs", "ours", "apart"),
    [
        ("one_run", "jax-privacy", "epsilon_one_run, Explicit", "epsilon_lower_bound", 1e-5),
        ("one_run", "jax-privacy", "epsilon_one_run_fdp, Explicit", "mu_lower_bound", 1e-4),
        (
            "multi_run",
            "jax-privacy",
            "epsilon_clopper_pearson, Explicit, two-sided",
            "epsilon, Threshold, ClopperPearson",
            1e-9,
        ),
        ("multi_run", "privacy-estimates", "beta (Clopper-Pearson)", "epsilon, Threshold, ClopperPearson", 0.2),
        ("lira", "tensorflow-privacy", "compute_score_lira, mean", "online", 1e-3),
        ("roc", "confidenceinterval", "delong", "AUC, default", 1e-6),
    ],
)
def test_tools_that_are_present_agree(peers, evidence, subject, tool, theirs, ours, apart):
    other = measured(peers, evidence, subject, tool, theirs)
    own = measured(peers, evidence, subject, "miaudit", ours)
    if subject == "lira":
        folder = evidence[subject]
        other, own = (peers["run"].compared(folder, *way) for way in ((tool, theirs), ("miaudit", ours)))
    assert abs(other["value"] - own["value"]) < apart


def test_an_absent_tool_is_skipped_and_named(peers, tmp_path):
    options = argparse.Namespace(environments=tmp_path, repetitions=5, seconds=0.1, scale=0.02, tool=None)
    ways = peers["roc"].WAYS
    peers["roc"].WAYS = {"miaudit": {"AUC, default": ways["miaudit"]["AUC, default"]}, "art": ways["art"]}
    try:
        assert [row["tool"] for row in peers["run"].rows_of("roc", options)] == ["miaudit"]
    finally:
        peers["roc"].WAYS = ways
    assert "- art: no environment of it here" in peers["run"].skipped(tmp_path)
