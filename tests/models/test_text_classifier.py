"""Classifiers of texts in folders against the model asked text by text, and against peft's merged model."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("transformers", reason="the extra `text`")
pytest.importorskip("peft", reason="the extra `text`")

import peft
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from miaudit.collect.campaign import Campaign
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.models.text_classifier import SavedClassifier

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" + " more" * (i % 5) for i in range(10) for word in ("cat", "dog")]
NAMES = {0: "good", 1: "so-so", 2: "bad"}
SIZE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}


def word_pieces(pad: bool = True) -> Any:
    """A WordPiece tokenizer learned from all texts; its padding has the number 0, as BERT's configuration says."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.train_from_iterator(TEXTS, trainers.WordPieceTrainer(special_tokens=special, show_progress=False))
    ends = [(one, pieces.token_to_id(one)) for one in ("[CLS]", "[SEP]")]
    pieces.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        **({"pad_token": "[PAD]"} if pad else {}),
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **names)


def model_of(kind: str, tokenizer: Any, **changes: Any) -> Any:
    torch.manual_seed(0)
    more = {"vocab_size": len(tokenizer), "num_labels": 3, "id2label": NAMES, "initializer_range": 0.5, **changes}
    if kind == "bert":
        return transformers.BertForSequenceClassification(transformers.BertConfig(**SIZE, **more)).eval()
    if kind == "roberta":  # its positions begin behind the padding's number
        return transformers.RobertaForSequenceClassification(
            transformers.RobertaConfig(**SIZE, pad_token_id=0, **more)
        ).eval()
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=40, pad_token_id=None, **more)
    return transformers.GPT2ForSequenceClassification(config).eval()


def saved(place: Path, kind: str = "bert", pad: bool = True, **changes: Any) -> Path:
    tokenizer = word_pieces(pad)
    model_of(kind, tokenizer, **changes).save_pretrained(place / kind)
    tokenizer.save_pretrained(place / kind)
    return place / kind


def one_by_one(model: Any, tokenizer: Any, texts: list[str], most: int = 40) -> np.ndarray:
    """What the model says of each text alone, with its ids written out."""
    rows = []
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        ids = ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]
        with torch.inference_mode():
            rows.append(model(input_ids=torch.tensor([ids])).logits[0].numpy())
    return np.stack(rows)


# -- second truth -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("kind", "pad"), [("bert", True), ("bert", False), ("roberta", True), ("gpt2", False)])
@pytest.mark.parametrize("batch", [1, 7])
def test_outputs_are_those_of_each_text_alone(kind: str, pad: bool, batch: int, tmp_path: Path) -> None:
    asked = [*TEXTS, "cat went " * 50]
    target = SavedClassifier(saved(tmp_path, kind, pad), batch=batch, device="cpu")
    found, notes = target.explained(asked)
    tokenizer, most = word_pieces(pad), {"bert": 40, "roberta": 39, "gpt2": 40}[kind]
    np.testing.assert_allclose(found, one_by_one(model_of(kind, tokenizer), tokenizer, asked, most), atol=2e-5)
    assert notes == (f"1 of 21 texts are longer than {most} tokens: their beginning was read.",)
    assert target.kind == "logits" and target.classes == ("good", "so-so", "bad") and found.dtype == np.float32
    assert np.ptp(found, axis=0).min() > 0.1


@pytest.mark.long
@pytest.mark.parametrize("change", [{"longest": 6}, {"precision": "bfloat16"}, {"precision": "saved"}])
def test_how_it_is_asked(change: dict[str, Any], tmp_path: Path) -> None:
    folder = saved(tmp_path)
    usual, other = SavedClassifier(folder, device="cpu"), SavedClassifier(folder, device="cpu", **change)
    apart = np.abs(usual.outputs(None, TEXTS) - other.outputs(None, TEXTS)).max()
    assert (apart == 0) == (change == {"precision": "saved"})
    assert apart < (5 if "longest" in change else 0.3)
    assert usual.identity() != other.identity()


def adapted(place: Path, base: Path, **changes: Any) -> Any:
    """A LoRA adapter with a head of its own, saved; returns the model in memory."""
    whole = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=3, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft
        model = peft.get_peft_model(whole, peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]))
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn(parameter.shape)
    model.save_pretrained(place / "adapter")
    return model.eval()


@pytest.mark.long
@pytest.mark.parametrize("base", ["same head", "two labels"])
def test_an_adapter_says_what_the_merged_model_says(base: str, tmp_path: Path) -> None:
    """Also where the base was saved with another head: the adapter brings its own, and so does the number of labels."""
    two = {"num_labels": 2, "id2label": {0: "a", 1: "b"}}
    folder = saved(tmp_path, **(two if base == "two labels" else {}))
    model = adapted(tmp_path, folder, **({"ignore_mismatched_sizes": True} if base == "two labels" else {}))
    target = SavedClassifier(tmp_path / "adapter", device="cpu")
    expected = one_by_one(model.merge_and_unload(), word_pieces(), TEXTS)
    np.testing.assert_allclose(target.outputs(None, TEXTS), expected, atol=2e-5)
    assert target.classes == (tuple(NAMES.values()) if base == "same head" else ("LABEL_0", "LABEL_1", "LABEL_2"))
    assert target.notes[0] == "adapter is an adapter; its base is bert."


def test_a_base_that_lacks_what_nobody_brings_is_refused(tmp_path: Path) -> None:
    """A masked language model has no pooler: transformers would make one from random numbers."""
    tokenizer = word_pieces()
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(tokenizer), **SIZE))
    model.save_pretrained(tmp_path / "masked")
    tokenizer.save_pretrained(tmp_path / "masked")
    adapted(tmp_path, tmp_path / "masked")
    with pytest.raises(InputError, match=r"weights: .* 2 missing, unknown or of another shape \(bert.pooler"):
        SavedClassifier(tmp_path / "adapter")


# -- labels -----------------------------------------------------------------------------------------------------------


def test_labels_of_text_are_numbered_as_the_model_does(tmp_path: Path) -> None:
    target = SavedClassifier(saved(tmp_path), device="cpu")
    names = np.array(["good", "bad"] * 10)
    made = Campaign(target, Records(TEXTS, names, np.arange(20) < 10, {}, "texts"))
    assert made.records.y.tolist() == [0, 2] * 10  # in alphabetical order bad would be the first
    assert made.records.classes == ("good", "so-so", "bad")
    assert made.records.written_labels.tolist() == names.tolist()
    numbers = Records(TEXTS, np.array([0, 2] * 10), np.arange(20) < 10, {}, "texts")
    assert Campaign(target, numbers).records.y.tolist() == [0, 2] * 10
    with pytest.raises(InputError, match=r"data.y: expected classes of the model \(good, so-so, bad\), received great"):
        Campaign(target, Records(TEXTS, np.array(["great", "bad"] * 10), np.arange(20) < 10, {}, "texts"))


def test_several_labels_and_numbers(tmp_path: Path) -> None:
    several = SavedClassifier(saved(tmp_path), device="cpu").labelled(np.zeros((20, 3)))
    assert several.kind == "multi-label" and several.outputs(None, TEXTS).shape == (20, 3)
    with pytest.raises(InputError, match="2 columns, one for each label"):
        several.labelled(np.zeros((20, 2))).outputs(None, TEXTS)
    score = SavedClassifier(saved(tmp_path, "roberta", num_labels=1, id2label={0: "stars"}), device="cpu")
    assert score.kind == "predictions" and score.outputs(None, TEXTS).shape == (20, 1)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    target = SavedClassifier(folder, device="cpu")
    for x in (np.zeros((3, 2)), ["cat", 3]):
        with pytest.raises(InputError, match=r"data.text: expected a text of each record"):
            target.outputs(None, x)
    with pytest.raises(InputError, match="longest: expected at most 40"):
        SavedClassifier(folder, longest=41)
    with pytest.raises(InputError, match="batch"):
        SavedClassifier(folder, batch=0)
    words = transformers.BertLMHeadModel(transformers.BertConfig(vocab_size=50, is_decoder=True, **SIZE))
    words.save_pretrained(tmp_path / "words")
    word_pieces().save_pretrained(tmp_path / "words")
    with pytest.raises(InputError, match="weights: expected those of"):
        SavedClassifier(tmp_path / "words")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "auto_map": {"AutoModel": "evil.Model"}}))
    with pytest.raises(InputError, match="code of a folder is never run"):
        SavedClassifier(folder)
