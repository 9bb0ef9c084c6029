"""Continue the beginning of a text with a causal language model: by its likeliest tokens, or by sampled tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from miaudit.arrays import IntArray
from miaudit.errors import InputError
from miaudit.models.devices import products
from miaudit.models.offline import transformers
from miaudit.models.text import LanguageModel

__all__ = ["continuations"]

_NOTHING = -1  # in the place of tokens after the end
_settings: Any = transformers.GenerationConfig


@torch.inference_mode()
def continuations(
    language_model: LanguageModel,
    beginnings: Sequence[IntArray],
    tokens: int,
    *,
    samples: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    rng: np.random.Generator,
) -> IntArray:
    """Return the tokens that a model generates after each of n beginnings, all in one pass.

    Beginnings are padded on the left, and the mask hides the padding. Generation settings of the model's folder (a
    penalty on repetition, a nucleus) are ignored.

    Parameters
    ----------
    beginnings : n arrays of token numbers, one token or more each
    tokens : how many follow, from 1
    samples : continuations that are drawn of each; 0 for the likeliest token, one after another
    temperature : of the draws, above 0; 1 is the model's own distribution
    top_k : how many of the likeliest tokens a draw chooses from; 0 for all
    rng : generator of the draws

    Returns
    -------
    array (n, tokens), or (n, samples, tokens): token numbers, -1 after the end of a text

    Examples
    --------
    >>> from miaudit.models.text import SmallGPT2, byte_pair_tokenizer, train
    >>> tokenizer, rng = byte_pair_tokenizer([], vocabulary=257), np.random.default_rng(0)
    >>> small = train(tokenizer, ["abcdefgh"], SmallGPT2(layers=1, width=16, heads=1, epochs=60), rng=rng)
    >>> tokenizer.decode(continuations(small, [np.array(tokenizer("abc")["input_ids"])], 4, rng=rng)[0])
    'defg'
    """
    model, width = language_model.model, max(map(len, beginnings))
    if min(map(len, beginnings)) < 1:
        raise InputError("beginnings", "a token or more each", "none", "give the model something to go on from")
    ends = _ends(language_model)
    options: dict[str, Any] = {"max_new_tokens": tokens, "use_cache": True}
    options |= {"eos_token_id": ends or None, "pad_token_id": (ends or [0])[0]}
    if samples:
        options |= {"do_sample": True, "num_return_sequences": samples}
        options |= {"temperature": temperature, "top_k": top_k, "top_p": 1.0}
    inputs = _padded(beginnings, width, model.device)
    with _alone(model, int(rng.integers(2**62))), products(tf32=False):
        generated = model.generate(**inputs, generation_config=_settings(**options))
    answers: IntArray = generated[:, width:].cpu().numpy().astype(np.int64)
    answers[np.logical_or.accumulate(np.isin(answers, ends), axis=1)] = _NOTHING
    whole = np.full((len(answers), tokens), _NOTHING)
    whole[:, : answers.shape[1]] = answers
    return whole.reshape(len(beginnings), samples, tokens) if samples else whole


def _padded(beginnings: Sequence[IntArray], width: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the model's inputs: beginnings padded on the left to one width, and a mask of their tokens."""
    ids, mask = np.zeros((2, len(beginnings), width), dtype=np.int64)
    for i, beginning in enumerate(beginnings):
        ids[i, width - len(beginning) :], mask[i, width - len(beginning) :] = beginning, 1
    return {"input_ids": torch.from_numpy(ids).to(device), "attention_mask": torch.from_numpy(mask).to(device)}


def _ends(language_model: LanguageModel) -> list[int]:
    """Numbers of the tokens after which a text has ended."""
    own = language_model.model.generation_config.eos_token_id
    if own is None:
        own = language_model.tokenizer.eos_token_id
    return [] if own is None else [int(one) for one in (own if isinstance(own, list) else [own])]


@contextlib.contextmanager
def _alone(model: Any, seed: int) -> Iterator[None]:
    """Generate from this seed, without the settings that the model's folder brings along."""
    settings = model.generation_config
    model.generation_config = _settings()
    devices = [model.device] if model.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        model.generation_config = settings
