"""How a model goes on: batches say what one at a time says, draws have its probabilities."""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("transformers")


import torch

from miaudit.models import text
from miaudit.models.continuation import continuations

pytestmark = pytest.mark.long

N = 40
MEMBER = np.arange(N) < 20


def _texts() -> list[str]:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 3)) for _ in range(60)]
    return [" ".join(rng.choice(words, 10)) for _ in range(N)]


TEXTS = _texts()


@functools.cache
def by_heart() -> text.LanguageModel:
    """A model that knows the members by heart, made once."""
    tokenizer = text.byte_pair_tokenizer(TEXTS, vocabulary=320)
    config = text.SmallGPT2(layers=1, width=32, heads=2, epochs=60, learning_rate=0.01, context=64)
    return text.train(tokenizer, TEXTS[:20], config, rng=np.random.default_rng(0))


@pytest.fixture
def model() -> text.LanguageModel:
    return by_heart()


@pytest.mark.thorough
@pytest.mark.long
def test_the_likeliest_answers_of_a_padded_batch_are_those_of_one_at_a_time(model: text.LanguageModel) -> None:
    rows = [np.array(model.tokenizer(one)["input_ids"])[: 3 + i % 9] for i, one in enumerate(TEXTS)]
    rng = np.random.default_rng(0)
    together = continuations(model, rows, 12, rng=rng)
    alone = np.concatenate([continuations(model, [row], 12, rng=rng) for row in rows])
    np.testing.assert_array_equal(together, alone)
    plain = [_by_hand(model, row, 12) for row in rows[:10]]  # without a cache, and without transformers' generate
    np.testing.assert_array_equal(together[:10], plain)


def _by_hand(model: text.LanguageModel, row: np.ndarray, tokens: int) -> list[int]:
    ids, end = list(row), model.tokenizer.bos_token_id
    for _ in range(tokens):
        with torch.inference_mode():
            ids.append(int(model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    said = ids[len(row) :]
    upto = said.index(end) if end in said else tokens
    return said[:upto] + [-1] * (tokens - upto)


def test_draws_have_the_probabilities_that_the_model_gives(model: text.LanguageModel) -> None:
    row = np.array(model.tokenizer(TEXTS[30])["input_ids"])[:6]
    drawn = continuations(model, [row], 1, samples=4000, temperature=2.0, rng=np.random.default_rng(1))[0, :, 0]
    with torch.inference_mode():
        logits = model.model(input_ids=torch.from_numpy(row)[None]).logits[0, -1].double() / 2.0
    expected = logits.softmax(-1).numpy()
    drawn = np.where(drawn < 0, model.tokenizer.bos_token_id, drawn)
    share = np.bincount(drawn, minlength=len(expected)) / 4000
    assert np.abs(share - expected).max() < 5 * np.sqrt(expected.max() / 4000)
    few = continuations(model, [row], 1, samples=500, top_k=3, temperature=2.0, rng=np.random.default_rng(1))
    assert set(few.ravel()) - {-1} <= set(np.argsort(-expected)[:3])


def test_settings_of_the_folder_are_left_aside(model: text.LanguageModel) -> None:
    row = [np.array(model.tokenizer(TEXTS[0])["input_ids"])[:6]]
    plain = continuations(model, row, 8, rng=np.random.default_rng(0))
    before = model.model.generation_config
    own = type(before)(**{**before.to_dict(), "repetition_penalty": 5.0, "num_beams": 3})
    model.model.generation_config = own
    try:
        np.testing.assert_array_equal(continuations(model, row, 8, rng=np.random.default_rng(0)), plain)
        assert model.model.generation_config is own
    finally:
        model.model.generation_config = before
