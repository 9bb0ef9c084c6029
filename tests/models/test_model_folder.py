"""Folders of transformers models: shards, precisions, limits of length and sizes of vocabularies."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("transformers", reason="the extra `text`")

import torch
import transformers

from miaudit.errors import InputError
from miaudit.models import model_folder, text
from miaudit.models.text import LanguageModel, SmallGPT2

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(10) for word in ("cat", "dog")]


@pytest.fixture(scope="module")
def small() -> LanguageModel:
    tiny = SmallGPT2(layers=2, width=16, heads=2, context=48, epochs=2, batch=8, learning_rate=0.01)
    return text.train(text.byte_pair_tokenizer(TEXTS, vocabulary=270), TEXTS, tiny, rng=np.random.default_rng(0))


@pytest.mark.long
def test_shards_are_read_as_they_lie(small: LanguageModel, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    small.model.save_pretrained(folder, max_shard_size="8KB")
    small.tokenizer.save_pretrained(folder)
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 2 and (folder / "model.safetensors.index.json").is_file()
    whole, parts = (text.token_log_probabilities(m, TEXTS) for m in (small, text.load(folder, device="cpu")))
    np.testing.assert_array_equal(whole.log_p, parts.log_p)
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    for name in ("../elsewhere.safetensors", "pytorch_model-00001-of-00002.bin"):
        first = next(iter(content["weight_map"]))
        index.write_text(json.dumps({**content, "weight_map": {**content["weight_map"], first: name}}))
        with pytest.raises(InputError, match="weights: expected shards in safetensors in shards, received"):
            text.load(folder)
    index.write_text(json.dumps(content))
    shards[1].unlink()
    with pytest.raises(InputError, match=r"model-00002-of-.*; copy all of its files"):
        text.load(folder)


@pytest.mark.long
@pytest.mark.parametrize(("precision", "apart"), [("bfloat16", 0.2), ("float16", 0.02)])
def test_a_half_precision_is_close_and_finite(
    small: LanguageModel, tmp_path: Path, precision: str, apart: float
) -> None:
    text.save(small, tmp_path / "m")
    whole = text.token_log_probabilities(small, TEXTS)
    loaded = text.load(tmp_path / "m", device="cpu", precision=precision)
    half = text.token_log_probabilities(loaded, TEXTS)
    assert loaded.model.dtype == getattr(torch, precision)
    assert 0 < np.abs(half.log_p - whole.log_p).max() < apart
    assert np.isfinite(half.std).all() and half.log_p.max() <= 0


@pytest.mark.parametrize(("kind", "most"), [("Bert", 40), ("Roberta", 36), ("GPT2", 40)])
def test_the_longest_text_is_what_the_model_takes(kind: str, most: int) -> None:
    """RoBERTa counts positions from behind the number of its padding: one more and it fails."""
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = getattr(transformers, f"{kind}Config")(vocab_size=20, max_position_embeddings=40, pad_token_id=3, **size)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    assert model_folder.longest(model, SimpleNamespace(model_max_length=10**30)) == most
    assert model_folder.longest(model, SimpleNamespace(model_max_length=12)) == 12
    assert model_folder.vocabulary(model) == 20
    for length in (most, most + 1):
        ids = torch.full((1, length), 5)
        if length == most:
            model(input_ids=ids)
        else:
            with pytest.raises((IndexError, RuntimeError)):
                model(input_ids=ids)
    assert model_folder.limit(model, SimpleNamespace(model_max_length=10**30), 7) == 7
    with pytest.raises(InputError, match=f"longest: expected at most {most}"):
        model_folder.limit(model, SimpleNamespace(model_max_length=10**30), most + 1)
