"""Multi-run against a plain loop, over workers and interruptions; zero-run at its door."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from miaudit.collect import runs
from miaudit.errors import InputError
from miaudit.jobs.resumable import JobsFailedError
from miaudit.metrics.roc import Roc

N, BASE = 30, np.arange(30, 40)
DATA = np.random.default_rng(5).normal(size=(40, 3))


def noisy_mean(data=DATA):
    """A trainer that draws random numbers, as closures that can travel to another process."""

    def fit(rows, rng):
        return data[rows].mean(axis=0) + 0.01 * rng.normal(size=data.shape[1])

    def score(model, rows):
        return data[rows] @ model

    return fit, score


def collect(**options):
    fit, score = options.pop("functions", None) or noisy_mean()
    seed = options.pop("seed", 0)
    return runs.multi_run(fit, score, records=N, base=BASE, rng=np.random.default_rng(seed), **options)


def plain_loop(seed=0):
    """Algorithm 1, written out."""
    rng = np.random.default_rng(seed)
    member = rng.random(N) < 0.5
    scores = []
    for i, child in enumerate(rng.spawn(N)):
        rows = [*BASE, i] if member[i] else list(BASE)
        model = DATA[rows].mean(axis=0) + 0.01 * child.normal(size=3)
        scores.append(float(DATA[i] @ model))
    return member, scores


def same(one, two) -> bool:
    return one.digest == two.digest


def test_a_plain_loop_gives_the_same() -> None:
    member, scores = plain_loop()
    evidence = collect()
    assert evidence.design == "multi-run"
    assert evidence.member.tolist() == member.tolist()
    np.testing.assert_allclose(evidence.score, scores, rtol=1e-12)


@pytest.mark.long
def test_the_number_of_workers_changes_nothing() -> None:
    seen: list[tuple[int, int]] = []
    alone, two = collect(), collect(workers=2, progress=lambda done, total: seen.append((done, total)))
    assert same(alone, two)
    assert seen == [(i + 1, N) for i in range(N)]


@pytest.mark.slow
def test_a_ray_cluster_changes_nothing(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    try:
        far = collect(executor="ray", workers=2, store=tmp_path, key="mean")
    finally:
        ray.shutdown()
    assert same(far, collect())
    assert len(list(tmp_path.rglob("run-*.npz"))) == N  # written by this process, not on the cluster's machines


def test_memberships_are_drawn_before_any_training() -> None:
    shared = np.random.default_rng(7)
    trained: list[int] = []

    def fit(rows):
        shared.random(int(rows.sum()) % 5)  # a trainer that disturbs the caller's generator
        trained.append(len(rows))
        return 0.0

    evidence = runs.multi_run(fit, lambda model, rows: [model], records=N, base=BASE, rng=shared)
    expected = np.random.default_rng(7).random(N) < 0.5
    assert evidence.member.tolist() == expected.tolist()
    assert trained == [len(BASE) + int(inside) for inside in expected]


def test_a_record_is_scored_alone_by_its_own_model_and_only_members_are_trained_on() -> None:
    calls: list[tuple[list[int], list[int]]] = []

    def score(model, rows):
        calls.append((model, rows.tolist()))
        return [0.0]

    rows = np.array([31, 4, 8, 2, 15])
    evidence = runs.multi_run(
        lambda at: at.tolist(), score, records=rows, rng=np.random.default_rng(0), base=[1, 0], inclusion=0.6
    )
    assert [own for _, own in calls] == [[row] for row in rows]
    for (model, own), inside in zip(calls, evidence.member, strict=True):
        assert model == ([1, 0, *own] if inside else [1, 0])


@pytest.mark.thorough
@pytest.mark.long
def test_a_model_that_memorises_is_seen_and_a_constant_one_is_not() -> None:
    def auc(score):
        evidence = runs.multi_run(lambda rows: set(rows.tolist()), score, records=200, rng=np.random.default_rng(1))
        return Roc.of(evidence.score, evidence.member).auc

    assert auc(lambda model, rows: [float(rows[0] in model)]) == 1.0
    assert auc(lambda model, rows: [0.0]) == 0.5


@pytest.mark.long
def test_several_scores_by_name() -> None:
    fit, score = noisy_mean()
    evidence = collect(functions=(fit, lambda model, rows: {"a": score(model, rows), "b": [1.0]}))
    assert list(evidence.scores) == ["a", "b"]
    np.testing.assert_allclose(evidence.scores["a"], collect().score)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_run_is_named_and_the_rest_resumes(tmp_path: Path, workers: int) -> None:
    fit, score = noisy_mean()

    def failing(model, rows):
        if rows[0] == 3:
            raise ArithmeticError("diverged")
        return score(model, rows)

    with pytest.raises(JobsFailedError, match=r"1 of 30 .*: run 3 \(row 3, .*diverged.*29 others are kept") as at:
        collect(functions=(fit, failing), store=tmp_path, key="mean", workers=workers)
    assert [one.run for one in at.value.failed] == [3]
    assert "ArithmeticError" in at.value.__notes__[0]

    trained: list[int] = []

    def counted(model, rows):
        trained.append(int(rows[0]))
        return score(model, rows)

    assert same(collect(functions=(fit, counted), store=tmp_path, key="mean"), collect())
    assert trained == [3]


@pytest.mark.long
def test_every_failed_run_is_named_also_without_a_store() -> None:
    fit, _ = noisy_mean()
    with pytest.raises(JobsFailedError, match=r"30 of 30 runs failed.*\(29 more alike: run 1, .*\.\.\.\); give store="):
        collect(functions=(fit, lambda model, rows: [np.nan]))
    with pytest.raises(JobsFailedError, match="one finite score for the one row, received shape"):
        collect(functions=(fit, lambda model, rows: [1.0, 2.0]))


@pytest.mark.thorough
@pytest.mark.long
def test_a_worker_that_dies_is_named(tmp_path: Path) -> None:
    fit, score = noisy_mean()

    def deadly(model, rows):
        if rows[0] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return score(model, rows)

    with pytest.raises(JobsFailedError, match="a worker process died"):
        collect(functions=(fit, deadly), store=tmp_path, key="mean", workers=2)
    assert same(collect(store=tmp_path, key="mean", workers=2), collect())


SCRIPT = """
    import sys, time
    import numpy as np
    from miaudit.collect import runs
    data = np.random.default_rng(5).normal(size=(40, 3))
    def fit(rows, rng):
        time.sleep(0.05)
        return data[rows].mean(axis=0) + 0.01 * rng.normal(size=3)
    runs.multi_run(fit, lambda model, rows: data[rows] @ model, records=30, base=np.arange(30, 40),
                   rng=np.random.default_rng(0), store=sys.argv[1], key="mean")
"""


@pytest.mark.long
def test_a_killed_process_loses_at_most_the_run_in_flight(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SCRIPT), tmp_path])
    deadline = time.monotonic() + 20
    while len(list(tmp_path.rglob("run-*.npz"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = len(list(tmp_path.rglob("run-*.npz")))
    assert 5 <= kept < N
    trained: list[int] = []
    fit, score = noisy_mean()

    def counted(model, rows):
        trained.append(int(rows[0]))
        return score(model, rows)

    assert same(collect(functions=(fit, counted), store=tmp_path, key="mean"), collect())
    assert trained == list(range(kept, N))


@pytest.mark.long
def test_another_fingerprint_reuses_nothing(tmp_path: Path) -> None:
    fit, score = noisy_mean()
    count = [0]

    def counted(model, rows):
        count[0] += 1
        return score(model, rows)

    def runs_of(expected, **options):
        count[0] = 0
        collect(functions=(fit, counted), store=tmp_path, **options)
        assert count[0] == expected

    runs_of(N, key="mean")
    runs_of(0, key="mean")
    runs_of(N, key="mean, v2")
    runs_of(N, key="mean", seed=1)
    runs_of(N, key="mean", inclusion=0.3)
    runs_of(0, key="mean", workers=2)
    for options in ({"records": np.arange(N)[::-1], "base": BASE}, {"records": N, "base": BASE[1:]}):
        count[0] = 0
        runs.multi_run(fit, counted, rng=np.random.default_rng(0), store=tmp_path, key="mean", **options)
        assert count[0] == N


@pytest.mark.long
def test_a_damaged_or_foreign_file_counts_as_absent(tmp_path: Path) -> None:
    collect(store=tmp_path, key="mean")
    collect(store=tmp_path, key="other", seed=1)
    of_key = {path.parent.name: sorted(path.parent.glob("run-*.npz")) for path in tmp_path.rglob("about.json")}
    first, second = of_key.values()
    first[4].write_bytes(first[4].read_bytes()[:50])
    first[5].write_bytes(b"")
    first[6].write_bytes(second[6].read_bytes())
    second[4].write_bytes(second[4].read_bytes()[:-30])
    assert same(collect(store=tmp_path, key="mean"), collect())
    assert same(collect(store=tmp_path, key="other", seed=1), collect(seed=1))
    assert not list(tmp_path.rglob("*.part"))


def test_functions_that_cannot_travel_are_refused_by_name() -> None:
    lock = threading.Lock()

    def fit(rows):
        with lock:
            return 0.0

    with pytest.raises(InputError, match="fit and score: expected functions that can be sent to other processes"):
        collect(functions=(fit, lambda model, rows: [model]), workers=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers"),
        ({"inclusion": 1.0}, "inclusion"),
        ({"inclusion": 1e-9}, "all drawn alike"),
        ({"store": "somewhere"}, "key"),
    ],
)
def test_bad_options(options, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        collect(**options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("records", "base", "message"),
    [
        (0, None, "records: .*received no row"),
        (5, [4, 6], "base: .*1 in both, the first 4"),
        ([1, 1], None, "distinct"),
        ([-1, 2], None, "from 0"),
        ([0.5, 1.0], None, "row indices"),
        ([[1, 2]], None, "shape"),
    ],
)
def test_bad_rows(records, base, message: str) -> None:
    with pytest.raises(InputError, match=message):
        runs.multi_run(lambda rows: 0, lambda m, rows: [0], records=records, base=base, rng=np.random.default_rng(0))


def test_zero_run_scores_members_first() -> None:
    members, nonmembers = np.array([3, 1]), np.array([7, 8, 9])
    evidence = runs.zero_run(
        lambda rows: DATA[rows, 0],
        members=members,
        nonmembers=nonmembers,
        covariates=lambda rows: DATA[rows],
        group=list("aabbb"),
        covariate_names=["p", "q", "r"],
    )
    assert evidence.design == "zero-run"
    assert evidence.score.tolist() == DATA[[3, 1, 7, 8, 9], 0].tolist()
    assert evidence.member.tolist() == [True, True, False, False, False]
    assert evidence.covariates is not None
    assert evidence.covariates.tolist() == DATA[[3, 1, 7, 8, 9]].tolist()
    assert evidence.covariate_names == ("p", "q", "r")


def test_zero_run_takes_records_of_any_kind() -> None:
    texts = runs.zero_run(lambda records: [len(t) for t in records], members=["abc", "d"], nonmembers=["", "efghi"])
    assert texts.score.tolist() == [3, 1, 0, 5]
    arrays = runs.zero_run(lambda x: x.sum(axis=(1, 2)), members=np.ones((2, 3, 3)), nonmembers=np.zeros((4, 3, 3)))
    assert arrays.score.tolist() == [9, 9, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("members", "nonmembers", "message"),
    [
        ([], [1], "members: expected at least one"),
        (np.array([1, 2]), np.array([2, 3]), "row 2 in both"),
        (np.ones((2, 3)), np.ones((2, 4)), "nonmembers"),
        (3, [1], "members"),
        ("abc", ["d"], "members"),
    ],
)
def test_zero_run_at_the_door(members, nonmembers, message: str) -> None:
    with pytest.raises(InputError, match=message):
        runs.zero_run(lambda rows: np.zeros(len(rows)), members=members, nonmembers=nonmembers)
    with pytest.raises(InputError, match="score"):
        runs.zero_run(lambda rows: [np.nan] * len(rows), members=[1], nonmembers=[2])
