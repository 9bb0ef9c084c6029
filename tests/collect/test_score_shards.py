"""Scores in shards, against the ordinary audit of one file with all rows: the findings are equal to the byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import miaudit as ma
from miaudit.collect import score_shards
from miaudit.dp.selection import Bonferroni, Exploratory, Schedule
from miaudit.errors import InputError

OPTIONS = (None, Bonferroni(), Schedule(), Exploratory())


def one_file(y, member, *, design, source, signal="score"):
    """The slow twin: every row in one place, by score and non-members first."""
    order = np.lexsort((member, y if signal == "score" else -y))
    return ma.Evidence(score=y[order], member=member[order], design=design, source=source, signal=signal)


def written(folder, y, member, of_shard, shards):
    """Write rows into shards, the columns of every other file in another order."""
    for i in range(shards):
        rows = of_shard == i
        columns = {"score": y[rows], "member": member[rows], "other": np.arange(rows.sum())}
        names = list(columns) if i % 2 else list(columns)[::-1]
        pl.DataFrame({name: columns[name] for name in names}).write_parquet(Path(folder) / f"part-{i}.parquet")
    return f"{folder}/*.parquet"


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 700),
    seed=st.integers(0, 999),
    digits=st.sampled_from([0, 1, 8]),
    share=st.sampled_from([0.5, 0.5, 0.2]),
    shards=st.integers(1, 6),
    batch=st.sampled_from([1, 7, 100, 10_000]),
    design=st.sampled_from(["one-run", None]),
    shape=st.sampled_from(["mixed", "one class in a shard", "sorted shards"]),
    option=st.sampled_from(OPTIONS),
)
def test_findings_are_to_the_byte_those_of_one_file(n, seed, digits, share, shards, batch, design, shape, option):
    rng = np.random.default_rng(seed)
    member = rng.random(n) < share
    member[:2] = True, False
    y = (rng.normal(size=n) - rng.exponential(size=n) * (seed % 2) + 0.3 * member).round(digits)
    of_shard = rng.integers(0, shards, n)  # a shard may be empty
    if shape == "one class in a shard" and shards > 1:
        of_shard = np.where(member, of_shard % (shards - 1) if shards > 2 else 0, shards - 1)
    if shape == "sorted shards":
        of_shard = np.argsort(np.argsort(y)) * shards // n
    with tempfile.TemporaryDirectory() as folder:
        pattern = written(folder, y, member, of_shard, shards)
        evidence = score_shards.read(pattern, design=design, batch=batch)
    plan = ma.Plan(bounds=ma.Bounds(delta=1e-5, guesses=option))
    twin = one_file(y, member, design=design, source=evidence.source)
    assert evidence.digest == twin.digest
    assert ma.audit(evidence, plan=plan, rng=seed).to_json() == ma.audit(twin, plan=plan, rng=seed).to_json()


@pytest.mark.parametrize("digits", [1, 8])
def test_findings_of_a_few_shards_are_to_the_byte_those_of_one_file(tmp_path, digits):
    rng = np.random.default_rng(digits)
    y, member = rng.normal(size=3000).round(digits), rng.random(3000) < 0.5
    evidence = score_shards.read(written(tmp_path, y, member, np.arange(3000) % 3, 3), design="one-run", batch=400)
    twin = one_file(y, member, design="one-run", source=evidence.source)
    assert ma.audit(evidence, rng=0).to_json() == ma.audit(twin, rng=0).to_json()


def test_another_row_gives_other_findings():
    # The control: the findings see every row.
    rng = np.random.default_rng(0)
    y, member = rng.normal(size=300), rng.random(300) < 0.5
    with tempfile.TemporaryDirectory() as folder:
        pattern = written(folder, np.r_[y, 0.1], np.r_[member, True], np.arange(301) % 3, 3)
        evidence = score_shards.read(pattern, design="one-run")
    twin = one_file(y, member, design="one-run", source=evidence.source)
    assert ma.audit(evidence, rng=0).to_json() != ma.audit(twin, rng=0).to_json()


def test_distinct_scores_in_any_order_of_rows_differ_in_the_digest_and_last_digits_alone(tmp_path):
    rng = np.random.default_rng(3)
    y, member = rng.normal(size=4000), rng.random(4000) < 0.5
    pattern = written(tmp_path, y, member, np.arange(4000) % 5, 5)
    evidence = score_shards.read(pattern, design="one-run")
    shards = ma.audit(evidence, rng=0).to_dict()
    plain = ma.audit(ma.Evidence(score=y, member=member, design="one-run", source=evidence.source), rng=0).to_dict()
    assert shards["bounds"] == plain["bounds"] and shards["verdict"]["status"] == plain["verdict"]["status"]
    for of_counts, of_rows in zip(shards["metrics"], plain["metrics"], strict=True):
        for name in ("value", "low", "high", "standard_error"):
            assert of_counts[name] == (None if of_rows[name] is None else pytest.approx(of_rows[name], rel=1e-12))


def test_counts_are_shards_too_and_a_score_may_be_in_several(tmp_path):
    rng = np.random.default_rng(1)
    y, member = rng.normal(size=5000).round(2), rng.random(5000) < 0.5
    for i in range(4):
        part = pl.DataFrame({"score": y[i::4], "member": member[i::4]})
        part.write_parquet(tmp_path / f"rows-{i}.parquet")
        counts = part.group_by("score").agg(members=pl.col("member").sum(), nonmembers=pl.col("member").not_().sum())
        counts.write_parquet(tmp_path / f"counts-{i}.parquet")
    found = [score_shards.read(tmp_path / f"{kind}-*.parquet", design="one-run") for kind in ("rows", "counts")]
    first, second = (ma.audit(one, rng=0).to_json() for one in found)
    assert first == second and found[0].n == 5000


@pytest.mark.parametrize("kind", ["Float32", "Int16", "String", "loss"])
def test_columns_are_read_as_those_of_one_file_are(tmp_path, kind):
    rng = np.random.default_rng(2)
    y, member = rng.normal(size=600) * 10, rng.random(600) < 0.5
    frame = pl.DataFrame({"loss": np.abs(y) if kind == "loss" else y, "in": member})
    if kind == "String":
        frame = frame.with_columns(pl.when("in").then(pl.lit("Train")).otherwise(pl.lit("test ")).alias("in"))
    elif kind != "loss":
        frame = frame.with_columns(pl.col("loss").cast(getattr(pl, kind)), pl.col("in").cast(pl.Int8))
    frame[:250].write_parquet(tmp_path / "a.parquet")
    frame[250:].write_parquet(tmp_path / "b.parquet")
    signal = "loss" if kind == "loss" else "score"
    evidence = score_shards.read(str(tmp_path / "?.parquet"), score="loss", member="in", signal=signal, batch=64)
    values = frame["loss"].to_numpy().astype(np.float64)
    twin = ma.Evidence(score={"loss": values}, member=member, signal=signal)
    order = np.lexsort((member, twin.score))
    assert evidence.digest == twin.take(order).digest
    assert (list(evidence.scores), evidence.source) == (
        ["loss"], "2 shards (losses, turned by their sign)" if kind == "loss" else "2 shards")  # fmt: skip


def test_saved_evidence_is_read_with_its_design_and_its_name(tmp_path):
    evidence = ma.Evidence(score={"mine": [0.5, 1.0, 2.0]}, member=[1, 0, 1], design="one-run")
    evidence.save(tmp_path / "a.parquet")
    assert score_shards.read(tmp_path / "a.parquet").digest == evidence.digest
    evidence.replace(design="multi-run").save(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="design: expected one design in all shards, received multi-run and one-run"):
        score_shards.read(tmp_path / "*.parquet")


def bad(columns, **more):
    return pl.DataFrame(columns, **more)


GOOD = {"score": [1.0, 2.0], "member": [True, False]}
TYPE, NUMBERS = (
    "expected the type {}, as in a.parquet, received Int64 in b",
    "score in b.parquet: expected finite numbers",
)
REFUSED = {
    "type": (bad({"score": [1, 2], "member": [True, False]}), f"score: {TYPE.format('Float64')}"),
    "member type": (bad({"score": [1.0], "member": [1]}), f"member: {TYPE.format('Boolean')}"),
    "column": (bad({"scores": [1.0], "member": [True]}), "score: expected a column of b.parquet"),
    "missing": (bad({"score": [1.0, None], "member": [True, False]}), NUMBERS),
    "NaN": (bad({"score": [float("nan")], "member": [True]}), NUMBERS),
    "infinite": (bad({"score": [float("-inf")], "member": [True]}), f"{NUMBERS} .* 1 NaN, infinite or larger"),
    "no membership": (
        bad({"score": [1.0], "member": [None]}, schema_overrides={"member": pl.Boolean}),
        "member in b.parquet: expected a value in every row",
    ),
    "unit": (bad({**GOOD, "unit": [1, 2]}), None),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_shard_that_cannot_be_used_is_named_in_one_line(tmp_path, name):
    frame, message = REFUSED[name]
    pl.DataFrame(GOOD).write_parquet(tmp_path / "a.parquet")
    frame.write_parquet(tmp_path / "b.parquet")
    if message is None:  # the first file says what the columns are; others may have more
        assert score_shards.read(tmp_path / "*.parquet").n == 4
        return
    with pytest.raises(InputError, match=message) as caught:
        score_shards.read(tmp_path / "*.parquet")
    assert "\n" not in str(caught.value)


def test_other_files_and_damaged_ones_are_refused(tmp_path):
    with pytest.raises(InputError, match="shards: expected a pattern that names files"):
        score_shards.read(tmp_path / "*.parquet")
    with pytest.raises(InputError, match="shards: expected at least one file"):
        score_shards.read([])
    with pytest.raises(InputError, match=r"shards: expected a name ending in \.parquet"):
        (tmp_path / "a.csv").write_text("score,member\n1,1\n")
        score_shards.read(tmp_path / "a.csv")
    pl.DataFrame(GOOD).write_parquet(tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    for half in (content[: len(content) // 2], content[:-30] + bytes(30)):
        (tmp_path / "b.parquet").write_bytes(half)
        with pytest.raises(InputError, match=r"received b\.parquet, which cannot be read"):
            score_shards.read(tmp_path / "*.parquet")
    (tmp_path / "b.parquet").unlink()
    pl.DataFrame({"score": [], "member": []}, schema={"score": pl.Float64, "member": pl.Boolean}).write_parquet(
        tmp_path / "empty.parquet"
    )
    with pytest.raises(InputError, match="no rows"):
        score_shards.read(tmp_path / "empty.parquet")
    pl.DataFrame({"score": [1.0], "member": [True]}).write_parquet(tmp_path / "alone.parquet")
    with pytest.raises(InputError, match="received no non-members"):
        score_shards.read(tmp_path / "alone.parquet")
    pl.DataFrame({"score": [1.0], "members": [-1], "nonmembers": [2]}).write_parquet(tmp_path / "counts.parquet")
    with pytest.raises(InputError, match=r"members in counts\.parquet: expected whole numbers from 0 up"):
        score_shards.read(tmp_path / "counts.parquet")


def test_words_for_members_are_those_of_one_pair_in_all_shards(tmp_path):
    pl.DataFrame({"score": [1.0, 2.0], "member": ["train", "test"]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"score": [1.0], "member": ["member"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="member: expected true/false"):
        score_shards.read(tmp_path / "*.parquet")


def test_saved_evidence_with_units_is_refused_unless_its_columns_are_named(tmp_path):
    evidence = ma.Evidence(score=[0.5, 1.0, 2.0], member=[1, 0, 1], unit=[1, 1, 2])
    evidence.save(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="shards: expected columns of one score and of membership, received unit in a"):
        score_shards.read(tmp_path / "a.parquet")
    assert score_shards.read(tmp_path / "a.parquet", score="score", member="member").n == 3


def test_progress_counts_every_row_twice_and_never_falls(tmp_path):
    rng = np.random.default_rng(0)
    pattern = written(tmp_path, rng.normal(size=1000), rng.random(1000) < 0.5, np.arange(1000) % 4, 4)
    seen = []
    score_shards.read(pattern, batch=100, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2000, 2000) and seen == sorted(seen) and len(seen) > 10


SLOW = """
import sys, time
from miaudit.collect import score_shards
def progress(done, total):
    if done > total // 2:
        print("half", flush=True)
        time.sleep(60)
score_shards.read(sys.argv[1], batch=500, progress=progress)
"""


@pytest.mark.long
def test_a_process_that_is_killed_half_way_leaves_nothing_behind(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "scores").mkdir()
    pattern = written(tmp_path / "scores", rng.normal(size=20_000), rng.random(20_000) < 0.5, np.arange(20_000) % 4, 4)
    space = tmp_path / "space"
    space.mkdir()
    words = [sys.executable, "-c", SLOW, pattern]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(space)}) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert list(space.iterdir()) == []


MEMORY = """
import sys
from miaudit.auditing.pipeline import audit
from miaudit.collect import score_shards
import polars

def peak():  # of this program: ru_maxrss begins with that of the process that started it
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before = peak()
evidence = score_shards.read(sys.argv[1], design="one-run", batch=int(sys.argv[2]))
audit(evidence, rng=0)
print(peak() - before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a program is read from /proc")
def test_memory_follows_the_batch_and_not_the_records(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(8):
        member = rng.random(250_000) < 0.5
        frame = pl.DataFrame({"score": rng.normal(size=250_000), "member": member})
        frame.write_parquet(tmp_path / f"{i}.parquet", row_group_size=50_000)

    def peak(pattern):
        words = [sys.executable, "-c", MEMORY, str(pattern), "100000"]
        return int(subprocess.run(words, capture_output=True, check=True).stdout)

    quarter, whole = (peak(tmp_path / name) for name in ("[01].parquet", "*.parquet"))
    assert 0 < whole < 1.5 * quarter
