"""Adapters that fits leave are read on their base, and say what the merged model says."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("peft")

from miaudit.errors import InputError
from miaudit.models import text
from miaudit.models.fine_tuned import FineTuned
from miaudit.models.language import SavedLanguage

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(6) for word in ("cat", "dog")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and what a script leaves: an adapter without a tokenizer, and the same merged into its base."""
    import peft
    import torch

    folder = tmp_path_factory.mktemp("fits")
    config = text.SmallGPT2(layers=1, width=8, heads=1, epochs=1)
    made = text.train(text.byte_pair_tokenizer(TEXTS, vocabulary=257), TEXTS, config, rng=np.random.default_rng(0))
    text.save(made, folder / "base")
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for a name that it will lose
        model = peft.get_peft_model(text.load(folder / "base").model, lora)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    model.save_pretrained(folder / "adapter" / "model")
    merged = model.merge_and_unload()
    merged.save_pretrained(folder / "merged" / "model")
    made.tokenizer.save_pretrained(folder / "merged" / "model")
    return folder


@pytest.mark.long
def test_an_adapter_says_what_the_merged_model_says(place: Path) -> None:
    adapter = FineTuned(TEXTS, base=place / "base", reference=place / "base").said(place / "adapter")
    merged = FineTuned(TEXTS, reference=place / "base").said(place / "merged")
    np.testing.assert_allclose(adapter.scores, merged.scores, rtol=1e-4)
    assert adapter.cut == merged.cut
    alone = SavedLanguage(place / "base").outputs(None, TEXTS)
    assert np.abs(alone[:, 0] - adapter.scores[:, 0]).max() > 0.01  # without the adapter it says something else
    np.testing.assert_allclose(adapter.scores[:, -1], adapter.scores[:, 0] / -alone[:, 0], rtol=1e-4)


@pytest.mark.long
def test_which_base_is_said_where_it_belongs(place: Path) -> None:
    with pytest.raises(InputError, match="base: expected none, without adapter_config"):
        FineTuned(TEXTS, base=place / "base").said(place / "merged")
    config = place / "adapter" / "model" / "adapter_config.json"
    config.write_text(config.read_text(encoding="utf-8").replace(str(place / "base"), "base"), encoding="utf-8")
    found = FineTuned(TEXTS, beside=place).said(place / "adapter")  # it names it as the script called it
    assert found.scores.shape == (12, 3)
    (place / "elsewhere").mkdir()
    with pytest.raises(InputError, match="which is no local folder"):
        FineTuned(TEXTS, beside=place / "elsewhere").said(place / "adapter")
