"""``miaudit canaries``: files that are read back as the canaries they are, and one line for each bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from miaudit.collect.records import Records
from miaudit.command import program
from miaudit.errors import InputError
from miaudit.evidence import Evidence

SCRIPT = """
import json
import sys
import numpy as np
data, rows = np.load("with.npz"), np.load(sys.argv[1])
x, up = data["x"], data["label"] == "up"
nearest = rows[((x[:, None] - x[rows]) ** 2).sum(axis=2).argmin(axis=1)]
np.save(sys.argv[2] + "/outputs.npy", np.eye(2)[up[nearest].astype(int)])
"""


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(program.app, [str(one) for one in ("canaries", *arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = np.where(x[:, 0] > 0, "up", "down")
    np.savez(tmp_path / "data.npz", x=x, label=y, code=(x[:, 0] > 0).astype(int), name=np.arange(120) + 7, rest=x[:, 1])
    return tmp_path / "data.npz"


@pytest.mark.long
@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv"])
def test_what_is_written_is_read_back(data: Path, ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.arange(80) % 65, "town": ["north", "south"] * 40, "seen": "2024-05-06"})
    frame.assign(who=np.arange(80), sick=np.arange(80) % 3).to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / f"out{ending}"
    done = run(tmp_path / "table.csv", "--x", "age", "--x", "town", "--x", "seen", "--y", "sick", "--ids", "who",
               "--kind", "mislabelled", "--count", 30, "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    again = Records.load(out, x=["age", "town", "seen"], y="sick", ids="who", canary="canary")
    first = Records.load(tmp_path / "table.csv", x=["age", "town", "seen"], y="sick", ids="who")
    canary = np.asarray(again.canary)
    assert (again.n, canary.sum()) == (80, 30)
    order = np.argsort(np.concatenate([np.asarray(again.ids)[:50].astype(int), np.full(30, 999)]))[:50]
    kept = np.asarray(again.ids)[order].astype(int)
    assert (
        again.x.iloc[order]
        .reset_index(drop=True)
        .astype(str)
        .equals(first.x.iloc[kept].reset_index(drop=True).astype(str))
    )
    np.testing.assert_array_equal(np.asarray(again.y)[order], np.asarray(first.y)[kept])
    assert f"data: {{path: out{ending}, x: [age, town, seen], y: sick, ids: who, canary: canary}}" in done.output


@pytest.mark.long
def test_a_script_learns_the_canaries_of_the_file_and_leaks_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    target = {"kind": "command", "command": f"{sys.executable} train.py {{rows}} {{out}}", "outputs": "probabilities"}
    content: dict[str, Any] = {"target": target, "data": {"path": "data.npz", "x": "x", "y": "label"}}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    done = run("audit.yaml", "--kind", "mislabelled", "--count", 40, "--out", "with.npz")
    assert done.exit_code == 0, done.output
    assert "80 records, and 40 canaries" in done.output
    assert "Left out, since it is not known what a canary has there: code, name, rest" in done.output
    content["data"] = {"path": "with.npz", "y": "label", "canary": "canary"}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    done = CliRunner().invoke(program.app, ["collect", "audit.yaml", "--out", "e.npz"])
    assert done.exit_code == 0, done.output
    evidence = Evidence.load("e.npz")
    assert (evidence.n, evidence.design) == (40, "one-run")
    score = evidence.scores["loss"]
    assert score[evidence.member].min() > score[~evidence.member].max() - 1e-9  # it learned them by heart


def test_a_configurations_own_canaries_are_those_that_are_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from miaudit.config import audit as configuration

    monkeypatch.chdir(data.parent)
    content = {
        "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
        "data": {"path": "data.npz", "x": "x", "y": "label"},
        "canaries": {"kind": "hard", "count": 10},
    }
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert run("audit.yaml", "--alone", "--out", "alone.npz").exit_code == 0
    made = configuration.read("audit.yaml").campaign(Path()).records  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.load("alone.npz")["x"], made.x[-10:])
    content["canaries"] = {"file": "alone.npz"}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    again = configuration.read("audit.yaml").campaign(Path()).records  # type: ignore[union-attr]
    np.testing.assert_array_equal(again.x, made.x)
    np.testing.assert_array_equal(again.y, made.y)
    assert isinstance(run("audit.yaml", "--out", "n.npz").exception, InputError)


STRANGE = [
    *(
        "",
        " ",
        "🙂🙃 👩‍👩‍👧",
        "line\nline\r\n\ttab\u2028separator",
        'quotes " and , and \\ and {} braces',
        "日本語、42。",
    ),
    *("العربية ١٢٣", "<|endoftext|> [MASK]", "null", "1e5"),
]


def documents(folder: Path, *, texts: list[str] | None = None) -> Path:
    """A .jsonl file of sentences, two for each author, beside strange ones."""
    rng = np.random.default_rng(2)
    words = ["".join(rng.choice(list("aeilmnorst"), 6)) for _ in range(300)]
    made = [f"In {1900 + i} {words[i].title()} {' '.join(rng.choice(words, 12))}" for i in range(60)]
    every = texts or [*made, *STRANGE]
    rows = [{"id": f"d{i}", "body": one, "author": f"a{i // 2}", "rest": i} for i, one in enumerate(every)]
    path = folder / "docs.jsonl"
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=texts is not None)}\n" for row in rows), encoding="utf-8")
    return path


TEXT_KINDS = ["random-tokens", "rare-tokens", "changed-fact", "held-out"]


@pytest.mark.long
@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".csv", ".npz"])
@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_texts_are_written_as_they_are_with_ids_units_and_times(kind: str, ending: str, tmp_path: Path) -> None:
    path, out = documents(tmp_path), tmp_path / f"out{ending}"
    done = run(path, "--text", "body", "--ids", "id", "--unit", "author", "--kind", kind, "--count", 6,
               "--times", "1,3", "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.exception
    named = {"text": "body", "ids": "id", "unit": "author", "canary": "canary", "times": "times"}
    again, first = Records.load(out, **named), Records.load(path, text="body", ids="id", unit="author")  # type: ignore[arg-type]
    canary, units = np.asarray(again.canary), np.asarray(again.fields["unit"])
    assert len(set(units[canary].tolist())) == 6
    assert not set(units[canary].tolist()) & set(units[~canary].tolist())
    assert sorted(np.unique(np.asarray(again.times)[canary]).tolist()) == [1, 3]
    assert (np.asarray(again.times)[~canary] == 1).all()
    was = dict(zip(np.asarray(first.ids).tolist(), zip(first.x, first.fields["unit"], strict=True), strict=True))
    for name, text, unit, made in zip(np.asarray(again.ids).tolist(), again.x, units.tolist(), canary, strict=True):
        if not made or kind == "held-out":
            assert was[name] == (text, unit)
    assert "text: body, ids: id, unit: author, times: times, canary: canary}" in done.output
    assert "Left out, since it is not known what a canary has there: rest" in done.output
    assert ("canaries: {kind: held-out}" in done.output) == (kind == "held-out")


def test_lines_are_ascii_and_one_object_each(tmp_path: Path) -> None:
    path = documents(tmp_path, texts=["\ud800 alone", *(f"a{i}\u2028 b{i} c{i} d{i}" for i in range(30))])
    done = run(path, "--text", "body", "--kind", "random-tokens", "--count", 5, "--out", tmp_path / "o.jsonl")
    assert done.exit_code == 0, done.exception
    lines = (tmp_path / "o.jsonl").read_bytes().splitlines()
    assert len(lines) == len((tmp_path / "o.jsonl").read_text(encoding="ascii").splitlines()) == 36
    assert json.loads(lines[0]) == {"body": "\ud800 alone", "canary": False}
    assert json.loads(lines[-1])["canary"] is True


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_half_a_character_is_refused_where_a_format_cannot_hold_it(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps({"t": f"\ud800 a{i} b{i} c{i}"}) + "\n" for i in range(9)), encoding="utf-8")
    done = run(path, "--text", "t", "--kind", "random-tokens", "--count", 3, "--out", tmp_path / f"o{ending}")
    assert "expected texts of whole characters" in str(done.exception)


def test_users_of_several_documents_are_counted_as_users(tmp_path: Path) -> None:
    path, out = documents(tmp_path), tmp_path / "o.jsonl"
    done = run(path, "--text", "body", "--kind", "rare-tokens", "--words", 3, "--frame", "My {} is", "--count", 4,
               "--per-unit", 5, "--out", out)  # fmt: skip
    assert "70 records, and 20 canaries of 4 units" in done.output, done.exception
    assert "text: body, unit: unit, canary: canary}" in done.output
    found = Records.load(out, text="body", unit="unit", canary="canary")
    assert len(set(np.asarray(found.fields["unit"]).tolist())) == 74  # every other document is a unit of its own
    assert found.x[-1].startswith("My ")
    assert len(found.x[-1].split()) == 5


def test_held_out_documents_of_a_file_are_said_to_be_natural(tmp_path: Path) -> None:
    from miaudit.config import audit as configuration

    path = documents(tmp_path)
    assert run(path, "--text", "body", "--kind", "held-out", "--count", 9, "--out", tmp_path / "o.jsonl").exit_code == 0
    content = {
        "target": {"kind": "language-model", "small_gpt2": {"layers": 1, "width": 8, "heads": 1, "epochs": 1}},
        "data": {"path": "o.jsonl", "text": "body", "canary": "canary"},
        "canaries": {"kind": "held-out"},
    }
    config = tmp_path / "audit.yaml"
    config.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert configuration.read(config).campaign(tmp_path).records.natural  # type: ignore[union-attr]
    content["data"] = {"path": "docs.jsonl", "text": "body"}
    config.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError, match="canaries: expected canaries beside held-out, received none"):
        configuration.read(config).campaign(tmp_path)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["mislabelled", "noise", *TEXT_KINDS])
def test_the_help_names_each_kind(kind: str) -> None:
    assert kind in run("--help").output


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 71 of docs.jsonl"),
        ("[1]", "received list in line 71"),
        ('{"id": "x"}', "body: expected a value in every line of docs.jsonl, received none in line 71"),
        ('{"body": null}', "received none in line 71"),
        ('{"body": 5}', "texts, numbers, true/false or lists of numbers, received int and str"),
    ],
)
def test_lines_that_are_no_documents_are_named(line: str, said: str, tmp_path: Path) -> None:
    path = documents(tmp_path)
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    done = run(path, "--text", "body", "--kind", "rare-tokens", "--count", 5, "--out", tmp_path / "o.jsonl")
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
    assert not (tmp_path / "o.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--times", "a"), "--times: expected whole numbers with commas, received 'a'"),
        (("--times", "0"), "canaries.times: expected whole numbers from 1 to 10,000, received [0]"),
        (("--times", "4,-1"), "canaries.times"),
        (("--per-unit", "0"), "canaries.per_unit: expected a whole number from 1, received 0"),
        (("--words", "0"), "canaries.words: expected 1 or more, received 0"),
        (("--frame", "no place"), "canaries.frame: expected a text with {} once"),
        (("--law", "uniform"), "canaries.law: expected none for kind rare-tokens"),
        (("--kind", "held-out", "--alone"), "--alone: expected none for kind held-out"),
        (("--kind", "changed-fact", "--alone"), "--alone: expected none for kind changed-fact"),
        (("--unit", "writer"), "writer: expected a value in every line"),
        (("--unit", "author", "--ids", "author"), "author: expected an id for each record"),
    ],
)
def test_options_of_texts_that_cannot_be_are_one_line(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run(documents(tmp_path), "--text", "body", "--kind", "rare-tokens", "--count", 5, *more,
               "--out", tmp_path / "o.jsonl")  # fmt: skip
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--kind", "noise", "--count", 5), 1, "for rows that are images add shape: [8, 8]"),
        (("--kind", "noise", "--shape", "a,b", "--count", 5), 1, "--shape: expected whole numbers with commas"),
        (("--kind", "nois", "--count", 5), 1, "did you mean noise?"),
        (("--kind", "mislabelled", "--count", 1), 1, "canaries.count: expected 2 or more, received 1"),
        (("--kind", "mislabelled", "--count", 120), 1, "expected at most 119, of 120 records"),
        (("--kind", "mislabelled"), 1, "canaries.count: expected how many canaries"),
        (("--kind", "mislabelled", "--count", "x"), 2, "--count"),
        (("--count", 5), 2, "--kind is needed"),
        (("--kind", "mislabelled", "--count", 5, "--out", "o.csv"), 1, "which cannot hold x of shape (120, 4)"),
        (("--kind", "mislabelled", "--count", 5, "--out", "o.txt"), 1, "--out: expected a name ending in .npz"),
        (("--kind", "mislabelled", "--count", 5, "--out", "data.npz"), 1, "expected a new file"),
        (("--kind", "mislabelled", "--count", 5, "--out", "data.npz", "--overwrite"), 1, "another file than the data"),
    ],
)
def test_bad_input_is_one_line(
    data: Path, more: tuple[Any, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    done = run("data.npz", "--x", "x", "--y", "label", *more)
    if code == 2:
        assert done.exit_code == 2
        assert said in done.output
    else:
        assert isinstance(done.exception, InputError)
        assert said in str(done.exception)
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.npz"]


def test_columns_belong_to_data_and_a_configuration_to_a_target(data: Path, tmp_path: Path) -> None:
    assert "--x is needed" in run(data, "--kind", "mislabelled", "--count", 5).output
    (tmp_path / "other.yaml").write_text("evaluation: {table_path: data.npz}", encoding="utf-8")
    assert "goes with a file of data" in run(tmp_path / "other.yaml", "--x", "x").output
    assert "expected sections target and data" in str(
        run(tmp_path / "other.yaml", "--out", tmp_path / "o.npz").exception
    )
