"""From a file to an audit: the draft's run is the audit that options give, and what no draft is made of."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

Run = Callable[..., tuple[int, str, str]]
N = 600
RNG = np.random.default_rng(0)
MEMBER = RNG.random(N) < 0.5
LOSS = RNG.exponential(size=N) + 0.8 * ~MEMBER
LABEL = RNG.integers(0, 3, N)
LOGITS = RNG.normal(size=(N, 3)) + 2 * np.eye(3)[LABEL] * MEMBER[:, None]
PERSON = RNG.integers(0, 200, N)
AGE = RNG.integers(18, 90, N)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"member": MEMBER, "loss": LOSS, "person": PERSON, "age": AGE}).write_csv("losses.csv")
    pl.DataFrame({"is_member": MEMBER.astype(int), "attack_score": -LOSS}).write_csv("student.csv")
    pl.DataFrame({"member": MEMBER, "logits": LOGITS.tolist(), "label": LABEL, "age": AGE}).write_parquet("a.parquet")
    pl.DataFrame({"split": np.where(MEMBER, "train", "test"), "loss": LOSS}).write_csv("split.csv")
    np.savez("both.npz", train_loss=LOSS[MEMBER], test_loss=LOSS[~MEMBER])
    for name, rows in (("train", MEMBER), ("test", ~MEMBER)):
        np.save(f"{name}_loss.npy", LOSS[rows])
        np.savez(f"{name}.npz", logits=LOGITS[rows], labels=LABEL[rows])
    return tmp_path


def numbers(printed: str) -> object:
    found = json.loads(printed)
    return [{key: value for key, value in metric.items() if key != "note"} for metric in found["metrics"]]


FOUR = [
    (["losses.csv"], "losses.csv --score loss --signal loss --member member --unit person"),
    (["student.csv"], "student.csv --score attack_score --member is_member"),
    (["a.parquet"], "a.parquet --score logits --signal logits --labels label --member member"),
    (["split.csv"], "split.csv --score loss --signal loss --member split"),
    (["train_loss.npy", "test_loss.npy"], "--members train_loss.npy --nonmembers test_loss.npy --signal loss"),
    (["test_loss.npy", "train_loss.npy"], "--members train_loss.npy --nonmembers test_loss.npy --signal loss"),
    (["both.npz"], "--members both.npz --nonmembers both.npz --signal loss"),
    (
        ["train.npz", "test.npz"],
        "--members train.npz --nonmembers test.npz --signal logits "
        "--member-labels train.npz --nonmember-labels test.npz",
    ),
]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("files", "options"), FOUR, ids=lambda value: str(value)[:30])
def test_a_draft_runs_as_it_stands_and_is_the_audit_of_its_options(
    files: list[str], options: str, place: Path, run: Run
) -> None:
    code, out, err = run("init", *files)
    draft = Path(files[0]).with_suffix(".yaml")
    assert (code, err) == (0, "") and f"Then: miaudit run {draft}" in out and str(draft) in out
    by_options = numbers(run("audit", *options.split(), "--json")[1])
    code, printed, _ = run("run", str(draft), "--json")
    assert code == 4 and numbers(printed) == by_options  # undeclared: no answer
    code, printed, err = run("audit", *(files if len(files) == 1 else options.split()[:4]), "--json")
    assert code == 4 and numbers(printed) == by_options and err.startswith("miaudit: assumed: ")
    assert any("Assumed from names and first rows" in note for note in json.loads(printed)["notes"])
    auc = next(metric["value"] for metric in numbers(printed) if metric["name"] == "auc")  # type: ignore[attr-defined]
    assert auc > 0.6  # a control: with the direction turned it would be as far below one half


@pytest.mark.thorough
@pytest.mark.long
def test_the_question_is_asked_in_words_with_an_option_for_each_answer(place: Path, run: Run) -> None:
    _, out, err = run("audit", "losses.csv")
    assert err.count("\n") == 1 and "--score loss --signal loss --unit person" in err
    assert "Were members drawn at random?" in out
    for design in ("one-run", "multi-run", "zero-run"):
        assert f"--design {design}" in out
    assert "Next:" not in out and "--design zero-run --covariates age\n" in out
    assert "Were members" not in run("audit", "losses.csv", "--design", "one-run", "--out", "o")[1]
    assert run("init", "losses.csv")[0] == 0
    _, out, _ = run("run", "losses.yaml")
    assert "evaluation.design: one-run" in out
    assert "Assumed" in Path("results/audit/report.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_options_that_are_given_are_not_assumed(place: Path, run: Run) -> None:
    _, out, err = run("audit", "student.csv", "--score", "attack_score", "--json")
    assert err == "miaudit: assumed: --member is_member; give it to change that\n" and out
    _, _, err = run("audit", "student.csv", "--score", "attack_score", "--member", "is_member", "--json")
    assert err == ""
    assert run("audit", "losses.csv", "--signal", "loss", "--json")[2].startswith(
        "miaudit: assumed: --member member --score"
    )


def test_scores_that_are_losses_are_remarked_upon_and_not_turned(place: Path, run: Run) -> None:
    pl.DataFrame({"member": MEMBER, "attack_score": LOSS}).write_csv("misnamed.csv")
    _, out, err = run("audit", "misnamed.csv", "--json")
    assert "--signal score" in err and "If these are losses, say --signal loss" in err
    assert next(metric["value"] for metric in numbers(out) if metric["name"] == "auc") < 0.4  # type: ignore[attr-defined]


@pytest.mark.long
def test_tokens_name_extraction_too(place: Path, run: Run) -> None:
    lines = [{"id": i, "member": bool(MEMBER[i]), "logprobs": [-1.0, -0.5 * i]} for i in range(40)]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, _ = run("init", "t.jsonl")
    assert code == 0 and "miaudit extraction t.jsonl" in out
    assert run("run", "t.yaml", "--json")[0] == 4


def test_a_private_table_is_drafted_for_synthesis(place: Path, run: Run) -> None:
    pl.DataFrame({"age": AGE, "town": RNG.choice(["a", "b"], N), "ssn": PERSON, "api_key": PERSON}).write_csv("p.csv")
    code, out, _ = run("init", "p.csv")
    assert (
        code == 0
        and "No column says who was a member" in out
        and "docs/releasing_a_model.md" in out
        and "miaudit synthesise p/synthesise.yaml" in out
    )
    written = out + Path("p/graph.yaml").read_text() + Path("p/synthesise.yaml").read_text()
    assert "2 columns with names that look like secrets were left out" in out
    assert "ssn" not in written and "api_key" not in written
    assert run("synthesise", "p.csv", "--out", "q")[0] == 4
    assert Path("q/graph.yaml").read_text() == Path("p/graph.yaml").read_text()
    assert run("init", "p.csv", "--out", "x.yaml")[0] == 1


@pytest.mark.long
@pytest.mark.parametrize("command", ["init", "audit"])
def test_names_of_secrets_are_never_printed(command: str, place: Path, run: Run) -> None:
    names = ("password", "sk-abcDEF123456789012", "anna@example.org", "iban")
    columns = {name: RNG.normal(size=N) for name in names}
    pl.DataFrame({"member": MEMBER, "loss": LOSS, **columns}).write_csv("s.csv")
    pl.DataFrame({"age": AGE.astype(float) / 7, "kept": LOSS, **columns}).write_csv("n.csv")
    header = ",".join([*names, "password", "member", "score"])
    Path("twice.csv").write_text(f"{header}\n1,2,3,4,5,1,0.5\n")
    for file in ("s.csv", "n.csv", "twice.csv"):
        _, out, err = run(command, file)
        written = "".join(path.read_text() for path in place.rglob("*.yaml")) + out + err
        assert not [name for name in names if name in written]
    for words in (("--score", "losss"), ("--member", "mem", "--score", "loss")):
        told = run("audit", "s.csv", *words)
        assert told[0] == 1 and not [name for name in names if name in told[2]]


def garbage(place: Path) -> None:
    np.save("one.npy", LOSS)
    np.savez("data.npz", x_train=LOGITS, y_train=LABEL, x_test=LOGITS)
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("member,loss\n")
    Path("noise.csv").write_bytes(bytes(range(256)) * 9)
    Path("noise.npz").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    Path("noise.npy").write_bytes(bytes(range(256)))
    Path("noise.parquet").write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")
    Path("noise.jsonl").write_bytes(bytes(range(256)))
    Path("words.jsonl").write_text('{"input": "a", "label": 1}\n')
    Path("deep.jsonl").write_text("[" * 100_000)
    Path("semicolons.csv").write_text("member;loss\n1;0.5\n0;0.25\n")
    Path("values.csv").write_text("0.125,1\n0.5,0\n")
    Path("twice.csv").write_text("member,loss,loss\n1,2,3\n0,1,2\n")
    Path("scores.txt").write_text("1\n2\n")
    np.savez("objects.npz", member=MEMBER, loss=np.array([{}] * N, dtype=object))
    Path("folder").mkdir()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("one.npy", "miaudit init one.npy OTHER.npy"),
        ("data.npz", "docs/your_model.md"),
        ("empty.csv", "empty"),
        ("header.csv", "at least one row"),
        ("noise.csv", "line 1 has a NUL character"),
        ("noise.npz", "cannot be read"),
        ("noise.parquet", "cannot be read"),
        ("noise.jsonl", "first line is none"),
        ("words.jsonl", "first line is none"),
        ("deep.jsonl", "first line is none"),
        ("semicolons.csv", "commas"),
        ("values.csv", "names of the columns in the first row"),
        ("twice.csv", "stands twice"),
        ("scores.txt", ".csv"),
        ("folder", "directory"),
        ("gone.csv", "does not exist"),
        ("one.npy noise.npy", "cannot be read"),
        ("losses.csv student.csv", "one table with a column member"),
    ],
)
def test_what_no_draft_is_made_of_is_one_line(files: str, said: str, place: Path, run: Run) -> None:
    garbage(place)
    before = sorted(place.rglob("*"))
    code, out, err = run("init", *files.split())
    assert (code, out) == (1, "") and err.count("\n") == 1 and said in err
    assert sorted(place.rglob("*")) == before


def test_nothing_is_unpickled(place: Path, run: Run) -> None:
    garbage(place)
    code, out, _ = run("init", "objects.npz")
    assert code == 0 and "score: no column could be told to be it" in out


@pytest.mark.long
def test_a_draft_is_kept_and_can_be_read_by_those_who_may_read_the_data(place: Path, run: Run) -> None:
    Path("losses.csv").chmod(0o600)
    assert run("init", "losses.csv")[0] == 0
    assert stat.S_IMODE(Path("losses.yaml").stat().st_mode) == 0o600
    Path("losses.yaml").write_text("mine")
    code, _, err = run("init", "losses.csv")
    assert code == 1 and "--overwrite" in err and Path("losses.yaml").read_text() == "mine"
    assert run("init", "losses.csv", "--overwrite")[0] == 0 and Path("losses.yaml").read_text() != "mine"
    assert run("init", "losses.csv", "--out", "a.txt")[0] == 1
    assert run("init", "losses.csv", "--out", "student.csv/a.yaml")[0] == 1
    assert run("init", "losses.csv", "student.csv", "a.parquet")[0] == 2
    assert run("init", "losses.csv", "--out", "there/draft.yaml")[0] == 0
    assert f"table_path: {json.dumps('../losses.csv')}" in Path("there/draft.yaml").read_text()
    assert run("run", "there/draft.yaml", "--json")[0] == 4


@pytest.mark.long
def test_many_columns_are_no_trouble(place: Path, run: Run) -> None:
    names = [f"c{i}" for i in range(2_000)]
    values = np.round(np.r_[LOSS, RNG.normal(size=2_000 * 30 - N)].reshape(30, 2_000), 3)
    pl.DataFrame({"member": MEMBER[:30], "loss": LOSS[:30], **dict(zip(names, values.T, strict=True))}).write_csv(
        "w.csv"
    )
    code, out, _ = run("init", "w.csv")
    assert code == 0 and "of other columns the first 200 were looked at" in out
    assert len(Path("w.yaml").read_text()) < 10_000


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(place: Path, run: Run) -> None:
    Path("losses.csv").chmod(0)
    code, _, err = run("init", "losses.csv")
    assert code == 1 and err.count("\n") == 1
