"""Models of transformers in folders, from a configuration to the report: classifiers with shadows, adapters."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("transformers", reason="the extra `text`")
pytest.importorskip("peft", reason="the extra `text`")

import peft
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from miaudit import Evidence
from miaudit.attacks import tokens
from miaudit.models import text

Run = Callable[..., tuple[int, str, str]]
N = 160


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, **sections: object) -> str:
    Path(name).write_text(yaml.safe_dump(sections))
    return name


def lines(**columns: list[Any]) -> None:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def classifier(texts: list[str], y: np.ndarray, rows: np.ndarray, tokenizer: Any, seed: int) -> Any:
    """A small BERT that learns the labels of some texts by heart."""
    torch.manual_seed(seed)
    size = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    named = {"id2label": {0: "praise", 1: "complaint"}, "label2id": {"praise": 0, "complaint": 1}}
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **size, **named)
    model = transformers.BertForSequenceClassification(config).train()
    cut = tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt")
    step = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(35):
        step.zero_grad()
        model(**cut, labels=torch.from_numpy(y[rows])).loss.backward()
        step.step()
    return model.eval()


@pytest.mark.long
@pytest.mark.thorough
def test_a_classifier_with_given_shadows_goes_from_folder_to_report(place: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"w{i}" for i in range(60)], rng.integers(5, 12))) for _ in range(N)]
    y, half = rng.integers(0, 2, N), rng.random((3, N)) < 0.5  # labels of noise: what is known of them was learned
    included = np.concatenate([half, ~half[1:]])
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordPieceTrainer(special_tokens=["[PAD]", "[UNK]"], show_progress=False))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
    fits = [classifier(texts, y, np.flatnonzero(included[m]), tokenizer, m) for m in range(5)]
    fits[0].save_pretrained("classifier")
    tokenizer.save_pretrained("classifier")
    with torch.inference_mode():
        said = [model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.numpy() for model in fits]
    np.savez("shadows.npz", outputs=np.stack(said[1:]), included=included[1:], rows=np.arange(N))
    lines(text=texts, label=[["praise", "complaint"][one] for one in y], member=included[0].tolist())
    config: dict[str, Any] = {
        "target": {"kind": "text-classifier", "folder": "classifier", "batch": 8, "device": "cpu"},
        "data": {"path": "texts.jsonl", "text": "text", "y": "label", "member": "member"},
        "shadow": {"outputs_path": "shadows.npz"},
        "attack": {"type": ["lira_online", "loss"], "fpr_targets": [0.1]},
        "evaluation": {"design": "one-run", "output_dir": "results"},
    }
    code, _, err = run("run", write("audit.yaml", **config))
    assert code in (0, 3, 4), err
    findings = json.loads(Path("results/findings.json").read_text())
    assert {score["score"] for score in findings["scores"]} == {"lira_online", "loss"}
    auc = [metric["value"] for metric in findings["metrics"] if metric["name"] == "auc"]
    assert max(auc) > 0.7  # the labels are in the model's order; in the alphabet's the loss would say the opposite
    assert Path("results/report.html").stat().st_size > 100_000
    evidence = ("collect", "audit.yaml", "--out", "e.npz")
    assert run(*evidence)[0] == 0
    law = torch.from_numpy(said[0]).double().log_softmax(-1).numpy()[np.arange(N), y]
    np.testing.assert_allclose(Evidence.load("e.npz").scores["loss"], law, atol=1e-4)
    lines(text=texts, label=["shout"] * N, member=included[0].tolist())
    code, _, err = run("run", "audit.yaml", "--overwrite")
    assert code == 1 and "data.y: expected classes of the model (praise, complaint), received shout" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.long
def test_an_adapter_is_collected_beside_its_base(place: Path, run: Run) -> None:
    texts = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(12) for word in ("cat", "dog")]
    tiny = text.SmallGPT2(layers=1, width=16, heads=2, context=32, epochs=1)
    base = text.train(text.byte_pair_tokenizer(texts, vocabulary=270), texts[12:], tiny, rng=np.random.default_rng(0))
    text.save(base, place / "before")
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft
        model = peft.get_peft_model(base.model, lora)
    torch.nn.init.normal_(model.base_model.model.transformer.h[0].attn.c_attn.lora_B["default"].weight)
    model.peft_config["default"].base_model_name_or_path = "before"  # as where training ran in this folder
    model.save_pretrained(place / "runs" / "1" / "adapter", save_embedding_layers=False)
    lines(text=texts, member=[i < 12 for i in range(24)])
    target = {"kind": "language-model", "folder": "runs/1/adapter", "reference": "base", "device": "cpu"}
    data = {"path": "texts.jsonl", "text": "text", "member": "member"}
    code, _, err = run("collect", write("audit.yaml", target=target, data=data), "--out", "tokens.jsonl")
    assert code == 0, err
    found = tokens.read_jsonl("tokens.jsonl")
    alone = text.token_log_probabilities(text.load(place / "before", device="cpu"), texts)
    np.testing.assert_allclose(found.reference_log_p, alone.log_p, atol=1e-4)
    assert np.abs(found.log_p - alone.log_p).max() > 0.01
    (place / "before").rename(place / "moved")
    code, _, err = run("collect", "audit.yaml", "--out", "tokens.jsonl", "--overwrite")
    assert code == 1 and "received before, which is no local folder; name it, with the key base" in err
    again = write("audit.yaml", target={**target, "base": "moved"}, data=data)
    assert run("collect", again, "--out", "again.jsonl")[0] == 0
    assert Path("again.jsonl").read_text() == Path("tokens.jsonl").read_text()
    whole = write("whole.yaml", target={**target, "folder": "moved"}, data=data)
    code, _, err = run("collect", whole, "--out", "whole.jsonl")
    assert code == 1 and "expected a local folder, received base, which is none" in err
