"""``miaudit usage`` on the command line: findings, exit codes, and what is refused in one line."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

import numpy as np
import pytest

from command.test_bundle import Run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    mine = rng.normal(size=400) + 4 * (np.arange(400) < 200)
    np.save("mine.npy", mine)
    np.save("never.npy", rng.normal(size=800))
    for name, shift in (("before", 1.0), ("after", 0.0)):
        member = np.arange(6000) < 3000
        score = rng.normal(size=6000) + shift * member
        lines = [f"{s:.5f},{-s:.5f},{int(m)}" for s, m in zip(score, member, strict=True)]
        Path(f"{name}.csv").write_text("\n".join(["lp,nll,deleted", *lines]) + "\n")
    return tmp_path


def test_the_bound_is_stated_and_written(place: Path, run: Run) -> None:
    code, out, err = run("usage", "mine.npy", "--nonmembers", "never.npy", "--out", "used")
    assert (code, err) == (0, "") and out.startswith("At least ") and "of 400 records were used" in out
    assert {path.name for path in (place / "used").iterdir()} == {"findings.json", "report.html", "figures"}
    held = json.loads((place / "used" / "findings.json").read_text())
    assert held["kind"] == "usage" and 0.4 < held["usage"]["share"] <= 0.5
    code, _, err = run("usage", "mine.npy", "--nonmembers", "never.npy", "--out", "used")
    assert code == 1 and "--overwrite" in err


def test_a_limit_gives_its_exit_code(place: Path, run: Run) -> None:
    assert run("usage", "mine.npy", "--nonmembers", "never.npy", "--limit", "used=0.1")[0] == 3
    assert run("usage", "mine.npy", "--nonmembers", "never.npy", "--limit", "used=0.9")[0] == 4


def test_a_loss_is_turned(place: Path, run: Run) -> None:
    scored, lost = (
        json.loads(run("usage", "before.csv", "--score", name, "--signal", signal, "--member", "deleted", "--json")[1])
        for name, signal in (("lp", "score"), ("nll", "loss"))
    )
    assert scored["usage"] == lost["usage"] and scored["usage"]["used"] > 0


def test_a_deletion_is_tested_after_and_before(place: Path, run: Run) -> None:
    columns = ("--score", "lp", "--member", "deleted")
    code, out, _ = run("usage", "after.csv", "--deleted", "before.csv", *columns)
    assert code == 0 and out.startswith("Within the limits")
    assert run("usage", "before.csv", "--deleted", "before.csv", *columns)[0] == 3
    assert run("usage", "after.csv", "--deleted", "after.csv", *columns)[0] == 4


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("mine.npy", "--nonmembers", "never.npy", "--deleted", "before.csv"), "--nonmembers: expected none beside"),
        (
            ("after.csv", "--deleted", "before.csv", "--score", "lp", "--member", "deleted", "--limit", "used=0.1"),
            "--margin",
        ),
        (("mine.npy", "--nonmembers", "never.npy", "--limit", "auc=0.6"), "used, which this audit measures"),
        (("mine.npy", "--nonmembers", "gone.npy"), "gone.npy"),
        (("mine.npy", "--nonmembers", "never.npy", "--margin", "0.1"), "--margin: expected none without --deleted"),
        (("mine.npy", "--nonmembers", "never.npy", "--seed", "0"), "--seed: expected none without --deleted"),
        (("mine.npy", "--nonmembers", "never.npy", "--score", "lp"), "--score: expected none beside --nonmembers"),
        (("mine.npy", "--nonmembers", "never.npy", "--member", "m"), "--member: expected none beside --nonmembers"),
        (("mine.npy", "--nonmembers", "never.npy", "--key", "k.json"), "--key: expected none beside --nonmembers"),
        (("mine.npy", "--nonmembers", "never.npy", "--confidence", "0.4"), "confidence: expected a number in (0.5, 1)"),
        (("mine.npy", "--nonmembers", "never.npy", "--limit", "used=ten"), "write used=0.05"),
        (("mine.npy", "--nonmembers", "never.npy", "--limit", "used=2"), "write 0.02 for 2%"),
        (("gone.jsonl",), "expected an existing file, received gone.jsonl"),
        (("after.csv", "--member", "deleted", "--deleted", "before.csv"), "score: expected the name of a score column"),
    ],
)
def test_what_is_wrong_is_one_line(place: Path, run: Run, command: tuple[str, ...], message: str) -> None:
    code, out, err = run("usage", *command)
    assert code in (1, 2) and not out and message in err
    assert len(err.strip().splitlines()) == 1


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Probes of 120 tickets with 20 decoys each, and their key."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(0)
    texts = (f"Ticket {uuid.UUID(int=rng.getrandbits(128), version=4)}, day {i}." for i in range(120))
    lines = (json.dumps({"id": f"n{i}", "text": text}) for i, text in enumerate(texts))
    Path("documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id")[0] == 0
    return tmp_path


def scored(name: str, gain: float) -> None:
    """Score the probes: true strings by so much higher."""
    true = {unit["unit"]: unit["true"] for unit in json.loads(Path("probes.key.json").read_text())["units"]}
    rng, lines = random.Random(1), []
    for line in Path("probes.jsonl").read_text().splitlines():
        probe = json.loads(line)
        probe["log_probability"] = -100 + rng.gauss(0, 1) + gain * (probe["candidate"] == true[probe["unit"]])
        lines.append(json.dumps(probe))
    Path(name).write_text("\n".join(lines) + "\n")


def test_probes_of_decoys_say_how_many_were_used(probes: Path, run: Run) -> None:
    scored("used.jsonl", 9.0)
    scored("unused.jsonl", 0.0)
    code, out, _ = run("usage", "used.jsonl", "--key", "probes.key.json")
    assert code == 0 and out.startswith("At least 1") and "compared with 20 decoys each" in out
    assert run("usage", "unused.jsonl", "--limit", "used=0.05")[0] == 4
    assert "No use of these 120 records is shown" in run("usage", "unused.jsonl")[1]


def test_probes_before_and_after_a_deletion(probes: Path, run: Run) -> None:
    scored("before.jsonl", 3.0)
    scored("after.jsonl", 0.0)
    code, out, _ = run("usage", "after.jsonl", "--deleted", "before.jsonl", "--key", "probes.key.json")
    assert code == 4 and "inconclusive" in out  # 120 records are too few for a margin of .03
    assert run("usage", "after.jsonl", "--deleted", "before.jsonl", "--margin", "0.2")[0] == 0
    assert run("usage", "before.jsonl", "--deleted", "before.jsonl")[0] == 3


def test_probes_of_another_deletion_are_refused(probes: Path, run: Run) -> None:
    scored("before.jsonl", 3.0)
    lines = Path("documents.jsonl").read_text().splitlines()
    Path("documents.jsonl").write_text("\n".join(lines[::-1]) + "\n")
    Path("before.key.json").write_bytes(Path("probes.key.json").read_bytes())
    options = ("--find", "uuid4", "--ids", "id", "--overwrite")
    assert run("decoys", "documents.jsonl", *options)[0] == 0
    scored("after.jsonl", 0.0)
    Path("after.key.json").write_bytes(Path("probes.key.json").read_bytes())
    code, _, err = run("usage", "after.jsonl", "--deleted", "before.jsonl", "--margin", "0.2")
    assert code == 1 and "before: expected scores of the same probes, received others in before.jsonl" in err


def test_another_score_before_the_deletion_is_refused(probes: Path, run: Run) -> None:
    scored("before.jsonl", 3.0)
    scored("after.jsonl", 0.0)
    other = Path("after.jsonl").read_text().replace('"log_probability"', '"score"')
    Path("after.jsonl").write_text(other)
    code, _, err = run("usage", "after.jsonl", "--deleted", "before.jsonl", "--key", "probes.key.json")
    assert code == 1 and "--score: expected one score in both files, received score after, log_probability bef" in err


def test_options_that_probes_do_not_read_are_refused(probes: Path, run: Run) -> None:
    scored("s.jsonl", 1.0)
    code, _, err = run("usage", "s.jsonl", "--key", "probes.key.json", "--member", "unit")
    assert code == 1 and "--member: expected none beside probes" in err


def test_a_key_without_probes_is_one_line(place: Path, run: Run) -> None:
    code, _, err = run("usage", "after.csv", "--score", "lp", "--member", "deleted", "--key", "probes.key.json")
    assert code == 1 and "--key: expected a file of probes beside it" in err
