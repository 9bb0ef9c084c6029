"""Sealed coins on the command line: from the commitment to a stranger who has the bundle alone."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]
N = 160


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drawn(run: Run, *terms: str, answered: bool = True) -> tuple[str, str]:
    """Commit and answer; return both digests."""
    code, out, _ = run("coins", "commit", "--coins", str(N), "--by", "Trainer", *terms)
    assert code == 0
    commitment = out.split("SHA-256: ")[1].split()[0]
    if not answered:
        return commitment, ""
    code, out, _ = run("coins", "answer", "coins.commitment.json", "--by", "Auditor")
    assert code == 0
    assert f"SHA-256 {commitment}" in out
    return commitment, out.split("\nSHA-256: ")[1].split()[0]


def scores(place: Path, file: str = "coins.csv") -> str:
    member = np.loadtxt(place / file, skiprows=1, dtype=int)
    values = np.random.default_rng(0).normal(size=N) + 2.0 * member
    rows = (f"{score!r},{m}" for score, m in zip(values.tolist(), member, strict=True))
    (place / "scores.csv").write_text("\n".join(["s,member", *rows]) + "\n")
    return "scores.csv"


def members(path: Path) -> list[str]:
    """The last column, as 0 and 1."""
    return [{"true": "1", "false": "0"}.get(v := line.split(",")[-1], v) for line in path.read_text().split()[1:]]


AUDIT = ("--score", "s", "--member", "member", "--design", "one-run", "--no-bounds", "--json")


@pytest.mark.long
def test_from_the_commitment_to_a_stranger(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    commitment, answer = drawn(run)
    assert stat.S_IMODE((place / "coins.secret.json").stat().st_mode) == 0o600
    code, out, err = run("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json")
    assert (code, "Members: " in out, "is a secret" in err) == (0, True, True)
    assert stat.S_IMODE((place / "coins.csv").stat().st_mode) == 0o600
    table = scores(place)
    code, digest, _ = run("coins", "scores", table, "--score", "s")
    assert code == 0
    reveal = ("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json", "--scores", digest.strip())
    assert run(*reveal)[0] == 0
    code, _, err = run(*reveal)
    assert (code, "is there already, and kept" in err) == (1, True)
    code, out, _ = run("audit", table, *AUDIT, "--coins", "coins.reveal.json", "--bundle", "b.zip")
    assert json.loads(out)["sealed_coins"]["scores"] == ["s"]
    assert run("coins", "draw", "coins.reveal.json", "--out", "again.csv")[::2] == (0, "")
    assert (place / "again.csv").read_text() == (place / "coins.csv").read_text()
    (place / "own.csv").write_text("\n".join(line.split(",")[0] for line in (place / table).read_text().split()) + "\n")
    assert run("coins", "scores", "own.csv", "--score", "s")[1] == digest  # made without the column of members
    assert run("coins", "draw", "coins.reveal.json", "--beside", "own.csv", "--out", "both.csv")[0] == 0
    assert members(place / "both.csv") == members(place / table)

    stranger = place / "stranger"
    stranger.mkdir()
    (place / "b.zip").rename(stranger / "b.zip")
    monkeypatch.chdir(stranger)
    for given in ((), ("--commitment", commitment), ("--commitment", answer)):
        code, out, err = run("verify", "b.zip", *given)
        assert (code, err) == (0, "")
        assert commitment in out
        assert "Not shown: That it was Auditor" in out
    assert run("verify", "b.zip", "--commitment", str(place / "coins.answer.json"))[0] == 0
    code, out, _ = run("verify", "b.zip", "--commitment", "0" * 64)
    assert (code, "published was 000000000000" in out) == (3, True)


SECOND = {
    "other scores": ("--answer", "coins.answer.json", "--scores", "b" * 64),
    "more scores": ("--answer", "coins.answer.json", "--scores", "a" * 64, "--scores", "b" * 64),
    "no scores": ("--answer", "coins.answer.json"),
    "no answer": ("--scores", "a" * 64),
    "another answer": ("--answer", "second.json", "--scores", "a" * 64),
}


@pytest.mark.long
@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
def test_a_second_reveal_is_refused_and_the_same_is_signed_again(
    second: tuple[str, ...], place: Path, run: Run
) -> None:
    run("coins", "commit", "--coins", str(N))
    for out in ("coins.answer.json", "second.json"):
        assert run("coins", "answer", "coins.commitment.json", "--tries", "3", "--out", out)[0] == 0
    first = ("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json", "--scores", "a" * 64)
    assert run(*first)[0] == 0
    code, out, err = run("coins", "reveal", "coins.secret.json", *second, "--out", "again.json")
    assert (code, out, err.count("\n"), "a secret signs once" in err) == (1, "", 1, True)
    assert not (place / "again.json").exists()
    assert run(*first, "--out", "same.json")[0] == 0
    assert (place / "same.json").read_bytes() == (place / "coins.reveal.json").read_bytes()
    assert run("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json")[0] == 0  # signs nothing


def test_nothing_is_recorded_where_the_reveal_has_no_place(place: Path, run: Run) -> None:
    drawn(run)
    (place / "r.json").write_text("{}")
    reveal = ("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json", "--scores")
    code, _, err = run(*reveal, "a" * 64, "--out", "r.json")
    assert (code, "is there already, and kept" in err) == (1, True)
    assert run(*reveal, "b" * 64)[0] == 0


@pytest.mark.long
def test_the_answer_fixes_limits_confidence_and_number_of_scores(place: Path, run: Run) -> None:
    run("coins", "commit", "--coins", str(N))
    answer = ("coins", "answer", "coins.commitment.json", "--limit", "auc=0.6", "--tries", "2", "--confidence", "0.9")
    assert run(*answer)[0] == 0
    plan = json.loads((place / "coins.answer.json").read_text())["plan"]
    assert plan == {"limits": {"auc": 0.6}, "confidence": 0.9, "tries": 2}
    run("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json")
    table = scores(place)
    signed = [part for text in ("a", "b", "c") for part in ("--scores", text * 64)]
    reveal = ("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json")
    code, _, err = run(*reveal, *signed)
    assert (code, "at most 2, as the answer says, received 3" in err) == (1, True)
    assert run(*reveal, *signed[:4])[0] == 0
    code, _, err = run("audit", table, *AUDIT, "--coins", "coins.reveal.json")
    assert (code, "limits: expected auc=0.6, as the answer to the coins says" in err) == (1, True)
    code, out, _ = run(
        "audit", table, *AUDIT, "--coins", "coins.reveal.json", "--limit", "auc=0.6", "--confidence", "0.9"
    )
    found = json.loads(out)
    assert (code, found["sealed_coins"]["tries"], found["sealed_coins"]["missing"]) == (3, 2, 2)
    assert "corrected for 2 scores" in " ".join(found["corrections"])
    for line, said in (
        (("--limit", "auk=0.6"), "limits"),
        (("--limit", "auc"), "limits"),
        (("--tries", "0"), "tries: expected"),
        (("--confidence", "95"), "confidence: expected"),
    ):
        code, _, err = run("coins", "answer", "coins.commitment.json", *line, "--out", "other.json")
        assert (code, said in err, err.count("\n")) == (1, True, 1)


@pytest.mark.thorough
@pytest.mark.long
def test_a_campaign_draws_its_memberships_from_sealed_coins(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    np.savez(place / "d.npz", x=x, y=(x[:, 0] + rng.normal(size=N) > 0).astype(int))
    drawn(run, "--runs", "2", "--list", "d.npz")
    config = {
        "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
        "data": {"path": "d.npz", "x": "x", "y": "y"},
        "runs": 2,
        "coins": {"secret": "coins.secret.json", "answer": "coins.answer.json"},
        "privacy": {"bounds": False},
    }
    (place / "c.yaml").write_text(yaml.safe_dump(config))
    code, out, _ = run("run", "c.yaml", "--json", "--bundle", "b.zip")
    found = json.loads(out)
    assert code in (0, 3, 4)
    assert (found["sealed_coins"]["runs"], found["sealed_coins"]["coins"]) == (2, N)
    code, out, err = run("verify", "b.zip")
    assert (code, "160 coins of membership in each of 2 runs" in out) == (0, True), err
    assert run("collect", "c.yaml", "--out", "e.npz")[0] == 0
    run("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json")
    coins = np.loadtxt(place / "coins.csv", delimiter=",", skiprows=1, dtype=bool)
    assert np.array_equal(np.load(place / "e.npz")["member"], coins.T.ravel())
    code, _, err = run("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json", "--scores", "a" * 64)
    assert (code, "a secret signs once" in err) == (1, True)  # the bundle holds the reveal
    assert run("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json")[0] == 0  # the same one
    for given in (("--seal",), ("--share", "hashes")):
        code, _, err = run("run", "c.yaml", "--json", "--overwrite", "--bundle", "other.zip", *given)
        assert (code, "none, beside memberships that are not shared" in err) == (1, True)
    (place / "c.yaml").write_text(yaml.safe_dump({**config, "runs": 1}))
    code, _, err = run("run", "c.yaml", "--json", "--overwrite")
    assert (code, "runs: expected 2, as the coins' commitment says, received 1" in err) == (1, True)


def test_one_party_alone_is_warned(place: Path, run: Run) -> None:
    drawn(run, answered=False)
    for step in ("draw", "reveal"):
        code, _, err = run("coins", step, "coins.secret.json")
        assert (code, "such coins are one party's choice" in err) == (0, True)


@pytest.mark.long
def test_coins_that_do_not_fit_are_one_line(place: Path, run: Run) -> None:
    drawn(run)
    run("coins", "draw", "coins.secret.json", "--answer", "coins.answer.json")
    table = scores(place)
    run("coins", "reveal", "coins.secret.json", "--answer", "coins.answer.json")
    held = json.loads((place / "coins.reveal.json").read_text())
    (place / "forged.json").write_text(json.dumps({**held, "seed": "00" * 32}))
    code, out, err = run("audit", table, *AUDIT, "--coins", "forged.json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "expected coins that fit their commitment, received The coins that were revealed do not fit" in err
    (place / table).write_text((place / table).read_text().replace(",0\n", ",1\n", 1))
    code, _, err = run("audit", table, *AUDIT, "--coins", "coins.reveal.json")
    assert (code, "1 of the 160 memberships of run 1 are not the coins" in err) == (1, True)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("commit", "--coins", "1"), 1, "coins: expected a whole number from 2"),
        (("commit",), 2, "Missing option"),
        (("commit", "--coins", "10", "--list", "none.csv"), 1, "--list: expected an existing file"),
        (("commit", "--coins", "10", "--runs", "0"), 1, "runs: expected a whole number from 1"),
        (("answer", "none.json"), 1, "commitment: expected an existing file"),
        (("answer", "coins.secret.json"), 1, "expected the commitment that miaudit coins wrote"),
        (("answer", "coins.commitment.json", "--random", "abc"), 1, "random: expected 32 bytes as 64 digits"),
        (("answer", "coins.commitment.json", "--before", "-1"), 1, "before: expected a whole number"),
        (("draw", "coins.commitment.json"), 1, "expected the secret that miaudit coins wrote"),
        (("draw", "coins.secret.json", "--answer", "coins.commitment.json"), 1, "expected the answer that"),
        (("draw", "coins.secret.json", "--out", "m.txt"), 1, "--out: expected a name ending in .csv or .npy"),
        (("reveal", "coins.secret.json", "--scores", "me"), 1, "scores: expected a SHA-256"),
        (("draw", "coins.secret.json", "--beside", "t.csv"), 1, "--beside: expected the reveal, received the secret"),
        (("draw", "coins.secret.json", "--unit", "u"), 2, "go with"),
        (("scores", "none.npy"), 1, "scores: expected an existing file"),
    ],
)
def test_bad_input_is_one_line(line: tuple[str, ...], code: int, said: str, place: Path, run: Run) -> None:
    if line[0] != "commit":
        drawn(run, answered=False)
    found, out, err = run("coins", *line)
    assert (found, out) == (code, "")
    assert said in err
    if code == 1:
        assert err.count("\n") == 1


def test_an_earlier_secret_is_kept(place: Path, run: Run) -> None:
    drawn(run)
    before = (place / "coins.secret.json").read_bytes()
    code, _, err = run("coins", "commit", "--coins", "5")
    assert (code, "which exists" in err) == (1, True)
    assert (place / "coins.secret.json").read_bytes() == before
    code, _, err = run("coins", "answer", "coins.commitment.json")
    assert (code, "is there already, and kept" in err) == (1, True)


def test_coins_that_were_stopped_between_their_two_files_go_on(place: Path, run: Run) -> None:
    drawn(run, answered=False)
    secret, public = place / "coins.secret.json", place / "coins.commitment.json"
    before = secret.read_bytes(), public.read_bytes()
    public.unlink()
    code, _, err = run("coins", "commit", "--coins", "99", "--by", "Trainer")
    assert (code, "which exists, with another coins; name another folder" in err) == (1, True)
    assert not public.exists()
    drawn(run, answered=False)
    assert (secret.read_bytes(), public.read_bytes()) == before
