"""``miaudit decoys`` and audits of its probes: from texts to a verdict, and one line for each bad input."""

from __future__ import annotations

import json
import random
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from miaudit.command import program


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(program.app, [str(one) for one in arguments])


def refused(*arguments: Any) -> str:
    """The one line of a command that could not run."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    line = str(result.exception)
    assert line and "\n" not in line
    return line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = random.Random(0)
    lines = [
        {"id": f"n{i}", "text": f"Ticket {uuid.UUID(int=rng.getrandbits(128), version=4)} of 20240131, day {i}."}
        for i in range(120)
    ]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(folder: Path, score: Callable[[bool, random.Random], float], name: str = "scored.jsonl") -> Path:
    """Score all probes by whether they are the true ones."""
    key = json.loads((folder / "probes.key.json").read_text(encoding="utf-8"))
    true = {unit["unit"]: unit["true"] for unit in key["units"]}
    rng, path = random.Random(1), folder / name
    lines = [json.loads(line) for line in (folder / "probes.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["log_probability"] = -100 + score(line["candidate"] == true[line["unit"]], rng)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_probes_and_what_is_said_of_them(folder: Path) -> None:
    done = run("decoys", "documents.jsonl", "--find", "uuid4,digits:8", "--ids", "id", "--count", 5)
    assert done.exit_code == 0, done.output
    assert "  uuid4  120" in done.output and "a date" in done.output
    assert "120 records of 120 units, each with 5 decoys" in done.output
    key = json.loads((folder / "probes.key.json").read_text(encoding="utf-8"))
    assert f"Commitment: {key['commitment']}" in done.output and key["seed"] not in done.output
    assert stat.S_IMODE((folder / "probes.key.json").stat().st_mode) == 0o600
    lines = (folder / "probes.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 720 and json.loads(lines[0]).keys() == {"record", "unit", "candidate", "text"}
    held = [json.loads(line)["text"].split()[1] for line in lines]
    strings = {string for unit in key["units"] for candidate in unit["candidates"] for string in candidate}
    assert set(held) == strings and not any(string in done.output for string in strings)
    assert "who guesses the seed" not in done.output


def test_a_seed_makes_the_same_probes_again_and_nothing_is_overwritten(folder: Path) -> None:
    options = ("--find", "uuid4", "--ids", "id", "--count", 3)
    done = run("decoys", "documents.jsonl", *options, "--seed", 7)
    assert done.exit_code == 0 and "who guesses the seed knows the true strings" in done.output
    first = (folder / "probes.jsonl").read_bytes()
    assert "--overwrite" in refused("decoys", "documents.jsonl", *options, "--seed", 8)
    assert (folder / "probes.jsonl").read_bytes() == first
    again = run("decoys", "documents.jsonl", *options, "--seed", 7, "--overwrite")
    assert again.exit_code == 0 and (folder / "probes.jsonl").read_bytes() == first
    seed = json.loads((folder / "probes.key.json").read_text(encoding="utf-8"))["seed"]
    assert run("decoys", "documents.jsonl", *options, "--seed", seed, "--out", "b.jsonl").exit_code == 0
    assert (folder / "b.jsonl").read_bytes() == first
    other = run("decoys", "documents.jsonl", *options, "--out", "c.jsonl")
    assert other.exit_code == 0 and (folder / "c.jsonl").read_bytes() != first


@pytest.mark.thorough
def test_audits_of_a_model_that_memorises_and_of_one_that_does_not(folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id").exit_code == 0
    scored(folder, lambda true, rng: rng.gauss(3 * true, 1))
    leaks = run("audit", "scored.jsonl", "--design", "matched", "--json")
    assert leaks.exit_code == 3, leaks.output
    findings = json.loads(leaks.stdout)
    auc = next(one for one in findings["metrics"] if one["name"] == "auc")
    assert findings["design"] == "matched" and auc["low"] > 0.95
    assert findings["matched"]["units"] == 120 and findings["matched"]["decoys"] == 20
    scored(folder, lambda true, rng: rng.gauss(0, 1), "null.jsonl")
    clean = run("audit", "null.jsonl", "--design", "matched", "--json", "--key", "probes.key.json")
    auc = next(one for one in json.loads(clean.stdout)["metrics"] if one["name"] == "auc")
    assert clean.exit_code in (0, 4) and auc["low"] < 0.5 < auc["high"]


@pytest.mark.thorough
def test_the_terminal_a_configuration_losses_and_a_reference(folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id", "--count", 6).exit_code == 0
    scored(folder, lambda true, rng: rng.gauss(3 * true, 1))
    scored(folder, lambda true, rng: rng.gauss(0, 1), "reference.jsonl")
    reference = ("--reference", "reference.jsonl")
    shown = run("audit", "scored.jsonl", "--design", "matched", *reference, "--out", "out")
    assert shown.exit_code == 3 and "120 true strings and 720 decoys" in shown.output
    assert "The reference model" in shown.output and (folder / "out" / "report.html").is_file()
    evaluation = {"table_path": "scored.jsonl", "design": "matched", "key_path": "probes.key.json",
                  "reference_path": "reference.jsonl", "output_dir": "again"}  # fmt: skip
    (folder / "audit.yaml").write_text(yaml.safe_dump({"evaluation": evaluation}), encoding="utf-8")
    assert run("run", "audit.yaml").exit_code == 3
    own = [json.loads((folder / name / "findings.json").read_text())["metrics"] for name in ("out", "again")]
    assert own[0] == own[1]
    saw_them = scored(folder, lambda true, rng: rng.gauss(3 * true, 1), "saw.jsonl")
    wrong = run("audit", "scored.jsonl", "--design", "matched", "--reference", saw_them, "--json")
    assert wrong.exit_code == 4, wrong.output
    lines = [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()]
    losses = [{**line, "loss": -line.pop("log_probability")} for line in lines]
    (folder / "losses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in losses))
    turned = run("audit", "losses.jsonl", "--design", "matched", "--score", "loss", "--signal", "loss", "--json")
    assert turned.exit_code == 3, turned.output


def test_the_wrong_law_is_refused(folder: Path) -> None:
    """The control: decoys with a version digit of their own are identified by their form, so there is no answer."""
    from dataclasses import replace

    from miaudit.io import probes

    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id", "--count", 5).exit_code == 0
    key = probes.Key.read(folder / "probes.key.json")
    rows = [probes.Probe(**json.loads(line)) for line in (folder / "probes.jsonl").read_text().splitlines()]
    units = []
    for unit in key.units:
        strings = tuple(
            one if k == unit.true else (f"{one[0][:14]}7{one[0][15:]}",) for k, one in enumerate(unit.candidates)
        )
        units.append(replace(unit, candidates=strings))
    held = {(unit.unit, k): string for unit in units for k, (string,) in enumerate(unit.candidates)}
    rows = [row._replace(text=f"Ticket {held[row.unit, row.candidate]}") for row in rows]
    probes.write("probes.jsonl", rows, replace(key, probes=probes.digest_of(rows), units=tuple(units)), overwrite=True)
    scored(folder, lambda true, rng: rng.gauss(3 * true, 1))
    result = run("audit", "scored.jsonl", "--design", "matched")
    assert result.exit_code == 4 and "The format of the strings identifies the true ones" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("absent.jsonl",), "does not exist"),
        (("documents.csv",), "documents"),
        (("documents.jsonl", "--find", "uuid5"), "find: expected kinds of strings"),
        (("documents.jsonl", "--find", "base64"), "--find, or audit by canaries instead"),
        (("documents.jsonl", "--text", "body"), "line 1, keys: expected 'body', received id, text"),
        (("documents.jsonl", "--unit", "who"), "'who'"),
        (("documents.jsonl", "--ids", "text", "--seed", "x"), "seed: expected a whole number"),
        (("documents.jsonl", "--out", "probes.csv"), "a name ending in .jsonl"),
    ],
)
def test_decoys_that_cannot_be_made(options: tuple[str, ...], words: str, folder: Path) -> None:
    assert words in refused("decoys", *options)
    assert [path.name for path in folder.iterdir()] == ["documents.jsonl"]


def test_the_documents_are_never_replaced(folder: Path) -> None:
    before = (folder / "documents.jsonl").read_bytes()
    for name in ("documents.jsonl", "./absent/../documents.jsonl"):
        line = refused("decoys", "documents.jsonl", "--find", "uuid4", "--out", name, "--overwrite")
        assert "another file than the documents" in line and "choose another --out" in line
    assert (folder / "documents.jsonl").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["documents.jsonl"]


@pytest.mark.parametrize("content", ["", "\n\n", "\x00\x01", '{"text": "a"}\n', "[" * 100_000, '"a"\n'])
def test_a_file_that_is_not_of_probes_is_named(content: str, folder: Path) -> None:
    (folder / "s.jsonl").write_text(content)
    for command in (("audit", "s.jsonl", "--design", "matched"), ("usage", "s.jsonl", "--key", "probes.key.json")):
        line = refused(*command)
        assert "s.jsonl" in line and "id, member and logprobs" not in line and "leave it out" not in line


@pytest.mark.parametrize("score", ["NaN", "-Infinity", "1e308", "1" + "0" * 400, '"high"', "true", "null", "{}"])
def test_scores_that_are_no_numbers_are_named_by_their_line(score: str, folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--count", 2).exit_code == 0
    lines = (folder / "probes.jsonl").read_text(encoding="utf-8").splitlines()
    for row in (0, 4):
        texts = [f'{line[:-1]}, "score": {score if k == row else -1}}}' for k, line in enumerate(lines)]
        (folder / "s.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
        for command in (("audit", "--design", "matched"), ("usage",), ("usage", "--deleted", "s.jsonl")):
            line = refused(command[0], "s.jsonl", *command[1:])
            assert f"s.jsonl, line {row + 1}" in line or (score == "null" and row == 0)


def test_a_draft_of_probes_is_the_audit_of_its_options(folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--count", 3).exit_code == 0
    assert "let a model score them" in refused("init", "probes.jsonl")
    scored(folder, lambda true, rng: rng.gauss(2 * true, 1))
    made = run("init", "scored.jsonl")
    assert made.exit_code == 0 and "design: matched" in made.output and "how membership came about" not in made.output
    audit = run("run", "scored.yaml", "--json")
    typed = run("audit", "scored.jsonl", "--design", "matched", "--json")
    assert audit.exit_code == typed.exit_code == 3
    of_file, of_line = (json.loads(one.stdout) for one in (audit, typed))
    assert of_file["metrics"] == of_line["metrics"] and of_file["verdict"]["text"] == of_line["verdict"]["text"]


def test_a_hint_keeps_its_decimals(folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--count", 2).exit_code == 0
    scored(folder, lambda _, rng: rng.gauss(0, 1))
    line = refused("audit", "scored.jsonl", "--design", "matched", "--limit", "auc=nan")
    assert line.startswith("limits: ") and "tpr_at_fpr_0.01: 0.05" in line


def test_counts_out_of_range_are_usage(folder: Path) -> None:
    for count in (0, 1001, "many"):
        assert run("decoys", "documents.jsonl", "--count", count).exit_code == 2
    assert [path.name for path in folder.iterdir()] == ["documents.jsonl"]


def test_audits_that_cannot_run(folder: Path) -> None:
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id", "--count", 2).exit_code == 0
    assert "score: expected a score on each line" in refused("audit", "probes.jsonl", "--design", "matched")
    scored(folder, lambda _, rng: rng.gauss(0, 1))
    assert "add --design matched" in refused("audit", "scored.jsonl")
    assert "design: expected matched" in refused("audit", "scored.jsonl", "--design", "one-run")
    assert "did you mean log_probability" in refused(
        "audit", "scored.jsonl", "--design", "matched", "--score", "log_prob"
    )
    assert "absent.key.json" in refused("audit", "scored.jsonl", "--design", "matched", "--key", "absent.key.json")
    for option in (("--member", "m"), ("--covariates", "c"), ("--unit", "u")):
        result = run("audit", "scored.jsonl", "--design", "matched", *option)
        assert result.exit_code == 2 and "for probes with decoys" in result.output.replace("\n", " ").replace("│ ", "")
    (folder / "t.csv").write_text("score,member\n1,1\n0,0\n")
    result = run("audit", "t.csv", "--design", "one-run", "--key", "probes.key.json")
    assert result.exit_code == 2 and "without probes" in result.output
    assert not (folder / "results").exists()


@pytest.mark.long
def test_a_model_in_a_folder_scores_probes(folder: Path) -> None:
    """The command needs no key and no memberships, and says what comes next; other ways are refused in one line."""
    pytest.importorskip("transformers")
    import numpy as np

    from miaudit.models import language, text

    texts = [json.loads(line)["text"] for line in Path("documents.jsonl").read_text(encoding="utf-8").splitlines()][:8]
    small = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=1), vocabulary=270)
    text.save(small.fit(texts, np.zeros(8), np.arange(8), seed=0), folder / "model")
    assert run("decoys", "documents.jsonl", "--find", "uuid4", "--ids", "id", "--count", 1).exit_code == 0
    (folder / "probes.key.json").rename(folder / "hidden")
    (folder / "score.yaml").write_text("target: {kind: language-model, folder: model}\ndata: {path: probes.jsonl}\n")
    dry = run("collect", "score.yaml", "--dry-run")
    assert dry.exit_code == 0 and "0 fits; the model scores the texts" in dry.output
    done = run("collect", "score.yaml", "--out", "scored.jsonl")
    assert done.exit_code == 0 and "240 texts, scored by model" in done.output
    lines = [json.loads(line) for line in Path("scored.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 240 and all(line["log_probability"] < 0 for line in lines)
    assert "add --overwrite" in refused("collect", "score.yaml", "--out", "scored.jsonl")
    assert "a name ending in .jsonl" in refused("collect", "score.yaml", "--out", "scored.npz")
    assert "miaudit collect score.yaml" in refused("run", "score.yaml")
    (folder / "member.yaml").write_text(
        "target: {kind: language-model, folder: model}\ndata: {path: probes.jsonl, member: m}\n"
    )
    assert "data.member: expected none, for probes" in refused("collect", "member.yaml", "--out", "other.jsonl")
    (folder / "hidden").rename(folder / "probes.key.json")
    assert run("audit", "scored.jsonl", "--design", "matched", "--no-bounds", "--json").exit_code in (0, 3, 4)


def test_help_shows_an_example() -> None:
    shown = run("decoys", "--help").output
    assert "miaudit decoys documents.jsonl --find" in shown and "Exit codes" in shown
