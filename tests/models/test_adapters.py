"""Adapters in folders against peft's own merged models, and adapters that are refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("peft", reason="the extra `text`")

import peft
import torch

from miaudit.errors import InputError
from miaudit.models import language, text
from miaudit.models.text import LanguageModel, SmallGPT2

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(10) for word in ("cat", "dog")]
TINY = SmallGPT2(layers=2, width=16, heads=2, context=48, epochs=2, batch=8, learning_rate=0.01)
MODULES = ["c_attn", "c_proj"]
KINDS = {
    "lora": lambda: peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=MODULES),
    "no task": lambda: peft.LoraConfig(r=4, target_modules=MODULES),
    "embeddings": lambda: peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["wte", "c_attn"]),
    "dora": lambda: peft.LoraConfig(task_type="CAUSAL_LM", r=4, use_dora=True, target_modules=["c_attn"]),
    "ia3": lambda: peft.IA3Config(task_type="CAUSAL_LM", target_modules=["c_attn"], feedforward_modules=[]),
    "norms": lambda: peft.LNTuningConfig(task_type="CAUSAL_LM", target_modules=["ln_1", "ln_f"]),
    "whole modules": lambda: peft.LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], modules_to_save=["ln_f", "wte"]
    ),
    "one token": lambda: peft.LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], trainable_token_indices={"wte": [3, 40]}
    ),
}


@pytest.fixture(scope="module")
def base() -> LanguageModel:
    return text.train(text.byte_pair_tokenizer(TEXTS, vocabulary=280), TEXTS, TINY, rng=np.random.default_rng(0))


@pytest.fixture
def place(base: LanguageModel, tmp_path: Path) -> Path:
    text.save(base, tmp_path / "my-base")
    return tmp_path


def adapted(place: Path, config: object, name: str = "adapter", tokens: int = 0) -> object:
    """An adapter with weights that do something, saved beside its base; returns the model in memory."""
    whole = text.load(place / "my-base", device="cpu").model
    if tokens:
        whole.resize_token_embeddings(tokens, mean_resizing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft
        model = peft.get_peft_model(whole, config)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(place / name, save_embedding_layers=bool(tokens))
    return model.eval()


def log_p(model: LanguageModel, texts: list[str] = TEXTS) -> np.ndarray:
    return text.token_log_probabilities(model, texts).log_p


# -- second truth -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of peft, where it merges
def test_an_adapter_says_what_the_merged_model_says(kind: str, base: LanguageModel, place: Path) -> None:
    model = adapted(place, KINDS[kind]())
    ours = log_p(text.load(place / "adapter", device="cpu"))
    if kind == "embeddings":  # merging would change the head too, which is tied to them
        expected = log_p(LanguageModel("in memory", model, base.tokenizer))
    else:
        merged = LanguageModel("merged", model.merge_and_unload(), base.tokenizer)
        if kind not in ("whole modules", "one token"):  # whose tied weights save_pretrained would not part
            text.save(merged, place / "merged")
            merged = text.load(place / "merged", device="cpu")
        expected = log_p(merged)
    np.testing.assert_allclose(ours, expected, atol=2e-5)
    assert np.abs(ours - log_p(base)).max() > 0.001  # and not what the base says


@pytest.mark.long
@pytest.mark.parametrize(("precision", "apart"), [("saved", 1e-6), ("bfloat16", 0.2), ("float16", 0.02)])
def test_an_adapter_in_half_precision_is_close(precision: str, apart: float, place: Path) -> None:
    adapted(place, KINDS["lora"]())
    whole = log_p(text.load(place / "adapter", device="cpu"))
    half = log_p(text.load(place / "adapter", device="cpu", precision=precision))
    assert (np.abs(half - whole).max() > 0) == (precision != "saved")
    assert np.abs(half - whole).max() < apart


@pytest.mark.long
@pytest.mark.parametrize("kind", ["prompt", "prefix"])
def test_learned_tokens_before_the_text_have_no_score(kind: str, base: LanguageModel, place: Path) -> None:
    config = {
        "prompt": peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5),
        "prefix": peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5),
    }[kind]
    model = adapted(place, config)
    loaded = text.load(place / "adapter", device="cpu")
    assert loaded.longest == TINY.context - 5
    ours = text.token_log_probabilities(loaded, TEXTS)
    for i, one in enumerate(TEXTS[:4]):
        ids = torch.tensor([base.tokenizer(one)["input_ids"]])
        with torch.inference_mode():
            logits = model(input_ids=ids, use_cache=False).logits[0, -ids.shape[1] :]
        law = logits.double().log_softmax(-1)[:-1]
        expected = law[torch.arange(len(law)), ids[0, 1:]].numpy()
        np.testing.assert_allclose(ours.log_p[ours.offsets[i] : ours.offsets[i + 1]], expected, atol=2e-5)
    assert np.abs(ours.log_p - log_p(base)).max() > 0.01


@pytest.mark.long
def test_tokens_that_training_added_are_read_as_peft_saves_them(base: LanguageModel, place: Path) -> None:
    tokenizer = text.load(place / "my-base").tokenizer
    tokenizer.add_tokens(["zebra"])
    model = adapted(place, KINDS["lora"](), tokens=len(tokenizer))
    tokenizer.save_pretrained(place / "adapter")
    asked = [*TEXTS, "zebra number 3 zebra"]
    ours = log_p(text.load(place / "adapter", device="cpu"), asked)
    merged = LanguageModel("merged", model.merge_and_unload(), tokenizer)
    np.testing.assert_allclose(ours, log_p(merged, asked), atol=2e-5)
    adapted(place, KINDS["lora"]())  # the same tokenizer, and no weights for the token
    with pytest.raises(
        InputError, match=r"token 280 in adapter for a model of 280 tokens; save .* with save_embedding"
    ):
        text.load(place / "adapter")


# -- which base -------------------------------------------------------------------------------------------------------


def named(place: Path, base: object, name: str = "adapter") -> Path:
    path = place / name / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": base}))
    return place / name


@pytest.mark.long
def test_the_base_is_named_or_lies_where_the_adapter_says(base: LanguageModel, place: Path) -> None:
    adapted(place, KINDS["lora"]())
    expected = log_p(text.load(place / "adapter", device="cpu"))  # an absolute path
    for where in ("my-base", "../my-base", str(place / "my-base")):
        found = text.load(named(place, where), device="cpu")
        np.testing.assert_array_equal(log_p(found), expected)
        assert found.base is not None and found.base.resolve() == (place / "my-base").resolve()
    for elsewhere in ("openai-community/gpt2", "", None):
        with pytest.raises(InputError, match=r"base: expected the model that the adapter adapter belongs to, received"):
            text.load(named(place, elsewhere))
        np.testing.assert_array_equal(
            log_p(text.load(place / "adapter", base=place / "my-base", device="cpu")), expected
        )
    with pytest.raises(InputError, match="which is no local folder"):
        text.load(place / "adapter", base=place / "gone")
    with pytest.raises(InputError, match=r"base: expected none, without adapter_config.json"):
        text.load(place / "my-base", base=place / "my-base")
    shutil.copytree(place / "adapter", place / "second")
    with pytest.raises(InputError, match="which is an adapter itself; merge that one first"):
        text.load(place / "second", base=place / "adapter")


@pytest.mark.long
def test_a_reference_is_the_base_or_another_adapter_of_it(base: LanguageModel, place: Path) -> None:
    adapted(place, KINDS["lora"]())
    adapted(place, KINDS["norms"](), "other")
    how = {"base": place / "my-base", "device": "cpu"}
    plain = language.SavedLanguage(place / "adapter", "base", device="cpu")
    asked = [language.SavedLanguage(place / "adapter", other, **how) for other in (place / "my-base", place / "other")]
    for one, reference in ((plain, "my-base"), (asked[0], "my-base"), (asked[1], "other")):
        _, found = one.tokens(TEXTS)
        np.testing.assert_array_equal(found.log_p, log_p(text.load(place / reference, device="cpu")))
    assert {path.name for path in plain.folders} == {"adapter", "my-base"}
    assert plain.notes[0] == "adapter is an adapter; its base is my-base."
    assert plain.identity() != language.SavedLanguage(place / "my-base").identity()


# -- what is refused --------------------------------------------------------------------------------------------------

CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "auto_map": ({"auto_map": {"AutoModel": "evil.Model"}}, "auto_map; code of a folder is never run"),
    "deep": ({"loftq_config": {"deep": [{"trust_remote_code": True}]}}, "one with trust_remote_code"),
    "megatron": ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, "one with megatron_config"),
    "foreign class": ({"auto_mapping": {"base_model_class": "M", "parent_library": "evil"}}, "auto_mapping to evil"),
    "task": ({"task_type": "SEQ_CLS"}, r"a causal language model \(CAUSAL_LM\), received adapter for SEQ_CLS"),
    "kind": ({"peft_type": "NEVER"}, "received NEVER"),
    "adapters elsewhere": ({"peft_type": "XLORA"}, "received XLORA"),
    "newer": ({"a_new_switch": True}, "a_new_switch in adapter_config.json; pip install --upgrade peft"),
    "value": ({"r": 0}, "does not fit it"),
    "other modules": ({"target_modules": ["q_proj"]}, "does not fit it"),
    "fewer modules": ({"target_modules": ["c_proj"]}, "unknown or of another shape"),
    "rank": ({"r": 5}, "does not fit it"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_configurations_that_are_refused(case: str, place: Path) -> None:
    adapted(place, KINDS["lora"]())
    change, message = CHANGES[case]
    path = place / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    (place / "adapter" / "evil.py").write_text(f"open({str(place / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match=message) as refused:
        text.load(place / "adapter")
    assert "\n" not in str(refused.value) and not (place / "ran").exists()


def test_weights_that_are_refused(base: LanguageModel, place: Path) -> None:
    adapted(place, KINDS["lora"]())
    for name, size in (("deeper", {"layers": 3}), ("shallower", {"layers": 1}), ("wider", {"width": 24})):
        other = SmallGPT2(**{**vars(TINY), **size})
        text.save(LanguageModel(name, text._fresh(base.tokenizer, other, 0), base.tokenizer), place / name)
        with pytest.raises(
            InputError, match=r"adapter: expected one of this base, .* name the base that it was trained"
        ):
            text.load(place / "adapter", base=place / name)
    weights = place / "adapter" / "adapter_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:50])
    with pytest.raises(InputError, match="weights: expected a readable file"):
        text.load(place / "adapter")
    weights.unlink()
    with pytest.raises(InputError, match=r"weights: expected adapter_model.safetensors, received none"):
        text.load(place / "adapter")
    torch.save({}, place / "adapter" / "adapter_model.bin")
    with pytest.raises(InputError, match=r"adapter_model.bin, which may hold pickled code"):
        text.load(place / "adapter")
