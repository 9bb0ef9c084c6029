"""Fine-tuned language models of a script of one's own, from a configuration to a report and to what is repeated."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from miaudit.models import text

Run = Callable[..., tuple[int, str, str]]
N = 24
TEXTS = [f"{i * 7919 % 9973} cats and {i * 104729 % 9967} dogs met {i * 31 % 89} times" for i in range(N)]
SCRIPT = """\
import os, pathlib, shutil, sys
rows, seed, out = sys.argv[1:]
with open("calls", "a") as calls:
    calls.write("x")
print("trained")
if pathlib.Path("made").is_dir():  # stands for hours of training
    shutil.copytree("made", out + "/model")
"""
CONFIG = """\
target:
  kind: command
  command: {python} train.py {{rows}} {{seed}} {{out}}
  outputs: language-model
{more}
data: {{path: data.jsonl, text: text, ids: id}}
shadow: {{store: store}}
evaluation: {{output_dir: results}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = [json.dumps({"id": f"n{i}", "text": one}) + "\n" for i, one in enumerate(TEXTS)]
    (tmp_path / "data.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    configured(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(place: Path, more: str = "") -> None:
    (place / "audit.yaml").write_text(CONFIG.format(python=sys.executable, more=more), encoding="utf-8")


def trained(folder: Path, rows: list[int]) -> None:
    config = text.SmallGPT2(layers=1, width=16, heads=2, epochs=15, batch=8, context=64, learning_rate=1e-2)
    tokenizer = text.byte_pair_tokenizer(TEXTS, vocabulary=300)
    text.save(text.train(tokenizer, [TEXTS[row] for row in rows], config, rng=np.random.default_rng(0)), folder)


@pytest.mark.thorough
@pytest.mark.long
def test_run_trains_asks_reports_and_resumes(place: Path, run: Run) -> None:
    trained(place / "made", list(range(N)))
    code, out, err = run("run", "audit.yaml")
    assert code in (0, 3, 4), err
    assert "3 scores were looked at" in out
    page = (place / "results" / "report.html").read_text(encoding="utf-8")
    assert "asked here for the log-probabilities of the tokens" in page
    assert "Code that came with the model was run" in page
    assert (place / "calls").read_text() == "x"
    code, _, err = run("collect", "audit.yaml", "--out", "evidence.npz")
    assert code == 0, err
    assert (place / "calls").read_text() == "x"  # the store has it
    held = np.load("evidence.npz")
    assert {"score.loss", "score.min_k", "score.min_k_plus_plus"} == {
        name for name in held if name.startswith("score.")
    }
    configured(place, "  longest: 8")
    code, _, err = run("collect", "audit.yaml", "--out", "shorter.npz")
    assert code == 1
    assert "store" in err and "target" in err  # asked otherwise, these are other scores


@pytest.mark.thorough
@pytest.mark.long
def test_from_a_draw_to_what_is_repeated(place: Path, run: Run) -> None:
    assert run("draw", "audit.yaml", "--out", "fits")[0] == 0
    (folder,) = (place / "fits" / "fits").iterdir()
    rows = np.load(folder / "rows.npy").tolist()
    trained(folder / "out" / "model", rows)
    code, out, err = run("gather", "fits", "--out", "tokens.jsonl")
    assert code == 0, err
    assert f"{N} texts ({len(rows)} members), asked of the audited model" in out
    assert "Then: miaudit extraction tokens.jsonl --design one-run" in out
    assert not list(place.glob(".*part"))
    code, out, err = run("extraction", "tokens.jsonl", "--design", "one-run", "--prefix", "3", "--suffix", "3")
    assert code in (0, 3, 4), err
    code, _, err = run(
        *("audit", "tokens.jsonl", "--signal", "token-logprobs", "--design", "one-run"),
        "--attack",
        "loss",
        "--out",
        "r",
    )
    assert code in (0, 3, 4), err
    code, _, err = run("gather", "fits", "--out", "tokens.jsonl")
    assert code == 1
    assert "which exists" in err
    for wrong, said in (
        (("--partial", "--out", "t.jsonl"), "--partial leaves shadow models out"),
        (("--run", "1"), "--run goes with"),
        (("--run", "2", "--out", "t.jsonl"), "1 to 1, of the runs that were drawn"),
        (("--out", "t.txt"), ".jsonl"),
    ):
        code, _, err = run("gather", "fits", *wrong)
        assert code in (1, 2)
        assert said in " ".join(err.replace("│", " ").split())


def test_a_script_that_leaves_nothing_says_what_to_write(place: Path, run: Run) -> None:
    code, _, err = run("run", "audit.yaml")
    assert code == 1
    assert "{out}/model: expected a folder of save_pretrained, received no such folder in {out}, which is empty" in err
    assert 'model.save_pretrained(f"{args.out}/model")' in err


def test_keys_of_language_models_go_with_them(place: Path, run: Run) -> None:
    file = place / "audit.yaml"
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace("text: text, ", ""), encoding="utf-8")
    assert "data.text: expected a column of texts, for outputs: language-model" in run("run", "audit.yaml")[2]
    configured(place, "  batch: 4")
    file.write_text(file.read_text(encoding="utf-8").replace("language-model", "losses"), encoding="utf-8")
    assert "expected outputs: language-model beside batch, received losses" in run("run", "audit.yaml")[2]
    configured(place, "  reference: base")
    assert "expected base beside reference: base" in run("run", "audit.yaml")[2]
    file.write_text(whole + "attack: {type: reference_ratio}\n", encoding="utf-8")
    assert "target.reference" in run("run", "audit.yaml")[2]
