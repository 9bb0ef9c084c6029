"""Causal language models from local folders: the log-probabilities of the tokens of texts, and a small model to train.

Nothing is downloaded, no code of a model's folder is run, and weights are read from safetensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.models import model_folder
from miaudit.models.devices import products
from miaudit.models.model_folder import ModelFolder, Precision, quiet
from miaudit.models.offline import transformers
from miaudit.models.train_config import SmallGPT2

__all__ = ["LanguageModel", "SmallGPT2", "TokenOutputs", "load", "save", "token_log_probabilities", "train"]

START = "<|start|>"
_BYTES = 256
_BLOCK = 2**18  # logits in work at a time: a megabyte, which stays in the processor's cache
_PASS = 2**27  # logits of one pass through the model: half a gigabyte of float32


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal language model of transformers with its tokenizer.

    Attributes
    ----------
    name : for notes and reports
    model : transformers.PreTrainedModel that gives logits (batch, tokens, vocabulary)
    tokenizer : transformers.PreTrainedTokenizerBase
    folder, base : where it was read from, and of an adapter the folder of its base; or None
    """

    name: str
    model: Any
    tokenizer: Any
    folder: Path | None = None
    base: Path | None = None

    @property
    def longest(self) -> int | None:
        """Most tokens of a text, special ones included; None where neither model nor tokenizer has a limit."""
        return model_folder.longest(self.model, self.tokenizer)


@dataclass(frozen=True, eq=False)
class TokenOutputs:
    """What a model says of the tokens of n texts; the arrays that :mod:`miaudit.attacks.tokens` takes.

    Attributes
    ----------
    log_p : array (tokens,), log-probabilities in nats
    offsets : array (n + 1,): text i owns the tokens offsets[i] to offsets[i + 1]
    mean, std : arrays (tokens,), or None: of the log-probability of a token drawn from the model at that position
    top1 : array (tokens,) of bool: whether no other token was likelier
    tokens : array (tokens,): their numbers in the vocabulary
    windows : array (n,), in how many overlapping windows each text went through the model; 1 where it fits the context
    truncated : array (n,) of bool, texts of which only the beginning was scored, as ``longest`` asks for
    notes : what was left out, in sentences
    """

    log_p: FloatArray
    offsets: IntArray
    mean: FloatArray | None
    std: FloatArray | None
    top1: BoolArray
    tokens: IntArray
    windows: IntArray
    truncated: BoolArray
    notes: tuple[str, ...]


# -- folders ----------------------------------------------------------------------------------------------------------


def load(
    folder: str | Path, *, base: str | Path | None = None, precision: Precision = "float32", device: str = "auto"
) -> LanguageModel:
    """Read a causal language model and its tokenizer from a local folder, as ``save_pretrained`` writes it.

    Parameters
    ----------
    folder : path with config.json, weights in safetensors (one file or shards) and the tokenizer's files; or with an
        adapter of peft (adapter_config.json, adapter_model.safetensors); never the name of a model online
    base : of an adapter, the folder of the model that it belongs to; default: the one that the adapter names
        The tokenizer is the adapter's where it has one, else the base's.
    precision : "float32", "bfloat16", "float16", or "saved" for the precision of the weights' file
    device : "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1"

    Raises
    ------
    InputError
        If a file is missing or damaged, weights are pickled or of another architecture, an adapter is without its base
        or of another one, or the folder brings code.
    """
    saved = ModelFolder.read(folder, "CAUSAL_LM", base=base, precision=precision, device=device)
    return LanguageModel(saved.folder.name, saved.model, saved.tokenizer, saved.folder, saved.base)


def save(language_model: LanguageModel, folder: str | Path) -> None:
    """Write a model and its tokenizer to a folder that :func:`load` reads."""
    with quiet():
        language_model.model.save_pretrained(folder, safe_serialization=True)
        language_model.tokenizer.save_pretrained(folder)


# -- log-probabilities ------------------------------------------------------------------------------------------------


def token_log_probabilities(
    language_model: LanguageModel,
    texts: Sequence[str],
    *,
    batch: int = 16,
    longest: int | None = None,
    moments: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> TokenOutputs:
    """Compute the log-probability of every token of texts given the tokens before it, in batches of like length.

    Texts are cut into tokens as the tokenizer does by default. Special tokens (and unknown words) are context only; a
    first token without one before it has no prediction. Neither is scored, and the notes say how many.

    A text longer than the model's context goes through the model in windows as long as the context, each half a
    context after the one before; the last one ends with the text. Every token is scored once, after the first window
    with half a context or more before it. Source: the sliding window of MIMIR (Duan et al., 2024, arXiv:2402.07841).

    Parameters
    ----------
    texts : sequence of n str
    batch : most windows in one pass, from 1; of long texts and large vocabularies fewer, so that 2^27 logits are enough
    longest : tokens of a text that are read, from 2, special ones included; default: all
    moments : whether to compute mean and std, which min-k%++ needs
    progress : function of the windows done so far and their number, optional; most texts are one window

    Raises
    ------
    InputError
        For a text without a token to score, a tokenizer of another model, or a model that answers NaN.

    Examples
    --------
    >>> texts = ["the cat sat", "a dog ran"]
    >>> small = train(byte_pair_tokenizer(texts), texts, SmallGPT2(epochs=1), rng=np.random.default_rng(0))
    >>> out = token_log_probabilities(small, texts)
    >>> bool((out.log_p <= 0).all()), len(out.offsets)
    (True, 3)
    """
    model_folder.check_whole("batch", batch, 1)
    cut = _Cut.of(language_model, texts, longest)
    windows = [window for pair in zip(cut.ids, cut.masks, strict=True) for window in _windows(*pair, cut.context)]
    order = sorted(
        range(len(windows)), key=lambda row: -len(windows[row].ids)
    )  # the largest first: memory fails at once
    parts: list[FloatArray] = [np.empty((4, 0))] * len(windows)
    vocabulary = model_folder.vocabulary(language_model.model)
    done = 0
    while done < len(order):
        # The logits of all tokens of a pass are in memory together.
        fit = max(1, _PASS // (vocabulary * len(windows[order[done]].ids)))
        rows = order[done : done + min(batch, fit)]
        with products(tf32=False):  # a process may have asked for it, and convolutions take it by themselves
            scored = _score_batch(
                language_model.model, [windows[r].ids for r in rows], [windows[r].scored for r in rows], moments
            )
        for row, values in zip(rows, scored, strict=True):
            parts[row] = values
        done += len(rows)
        if progress is not None:
            progress(done, len(order))
    flat = np.concatenate(parts, axis=1)
    if not np.isfinite(flat).all():
        hint = "load it with precision float32, or check weights"
        raise InputError("model", "finite logits", "NaN or infinity", hint)
    return TokenOutputs(
        log_p=flat[0],
        offsets=np.concatenate([[0], np.cumsum([mask.sum() for mask in cut.masks])]).astype(np.int64),
        mean=flat[1] if moments else None,
        std=flat[2] if moments else None,
        top1=flat[3] > 0,
        tokens=np.concatenate([row[mask] for row, mask in zip(cut.ids, cut.masks, strict=True)]),
        windows=cut.windows,
        truncated=cut.truncated,
        notes=cut.notes,
    )


def cut_tokens(language_model: LanguageModel, texts: Sequence[str]) -> tuple[list[IntArray], list[BoolArray]]:
    """Return the tokens of each text, special ones included, as far as one context goes, and which are scored.

    Raises
    ------
    InputError
        As :func:`token_log_probabilities` does.
    """
    cut = _Cut.of(language_model, texts, language_model.longest)
    return cut.ids, cut.masks


class _Window(NamedTuple):
    """Tokens that go through the model together, and which of them are scored there."""

    ids: IntArray
    scored: BoolArray


def _ends(length: int, context: int | None) -> list[int]:
    """Where the windows of a text end; each begins a context before its end, or with the text."""
    if context is None or length <= context:
        return [length]
    return [*range(context, length, context // 2), length]


def _windows(ids: IntArray, mask: BoolArray, context: int | None) -> Iterator[_Window]:
    """Windows over a text; in each the tokens are scored that come after the end of the window before."""
    before = 0
    for end in _ends(len(ids), context):
        start = 0 if context is None else max(0, end - context)
        yield _Window(ids[start:end], mask[start:end] & (np.arange(start, end) >= before))
        before = end


class _Cut(NamedTuple):
    """Texts cut into tokens: ids of each text, which positions are scored, the context, and what was left out."""

    ids: list[IntArray]
    masks: list[BoolArray]
    context: int | None
    windows: IntArray
    truncated: BoolArray
    notes: tuple[str, ...]

    @classmethod
    def of(cls, language_model: LanguageModel, texts: Sequence[str], longest: int | None) -> _Cut:
        tokenizer, context = language_model.tokenizer, language_model.longest
        if longest is not None:
            model_folder.check_whole("longest", longest, 2)
        if context is not None and context < 2:
            raise InputError("model", "a context of 2 tokens or more", str(context), "check the folder's config.json")
        ids = _tokenized(tokenizer, texts)
        truncated = np.array([longest is not None and len(row) > longest for row in ids])
        ids = [row[:longest] for row in ids]
        special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
        masks = [~np.isin(row, special) for row in ids]
        first = sum(int(mask[:1].sum()) for mask in masks)
        for mask in masks:
            mask[:1] = False
        empty = [row for row, mask in enumerate(masks) if not mask.any()]
        if empty:
            allowed = "a token with another before it in every text"
            raise InputError("texts", allowed, f"none in text {empty[0]}", "drop texts that are empty or too short")
        size, seen = model_folder.vocabulary(language_model.model), max(int(row.max()) for row in ids)
        if seen >= size:
            received = f"token {seen} for a model of {size} tokens"
            raise InputError("tokenizer", "the one the model was trained with", received, "check the folder")
        windows = np.array([len(_ends(len(row), context)) for row in ids])
        notes = (
            *_left_out(tokenizer, ids, special, first),
            *in_windows(windows, context),
            *_of_beginnings(truncated, longest),
        )
        return cls(ids, masks, context, windows, truncated, notes)


def _left_out(tokenizer: Any, ids: Sequence[IntArray], special: IntArray, first: int) -> tuple[str, ...]:
    tokens, counts = np.unique(np.concatenate(ids), return_counts=True)
    special_counts = [(int(token), count) for token, count in zip(tokens, counts, strict=True) if token in special]
    named = [f"{tokenizer.convert_ids_to_tokens(token)} ({count})" for token, count in special_counts]
    notes = []
    if named:
        notes.append(f"Special tokens are context only and have no score: {', '.join(named)}.")
    if first:
        notes.append(f"The first token of {first} texts has nothing before it to be predicted from, and has no score.")
    return tuple(notes)


def in_windows(windows: IntArray, context: int | None) -> tuple[str, ...]:
    """How many texts are longer than a model's context, in a sentence; none if no text is."""
    longer = int((windows > 1).sum())
    if not longer or context is None:
        return ()
    return (
        f"{longer:,} of {len(windows):,} texts are longer than the model's context of {context:,} tokens. They were "
        f"scored in overlapping windows: after the first window each token has at least {context - context // 2:,} "
        "tokens before it.",
    )


def _of_beginnings(truncated: BoolArray, longest: int | None) -> tuple[str, ...]:
    if not truncated.any():
        return ()
    return (
        f"{int(truncated.sum()):,} of {len(truncated):,} texts are longer than {longest:,} tokens: their beginning was "
        "scored, as longest asks for (a zlib ratio divides it by the whole text).",
    )


def _tokenized(tokenizer: Any, texts: Sequence[str]) -> list[IntArray]:
    if isinstance(texts, str) or not len(texts):
        raise InputError("texts", "a sequence of one text or more", repr(texts)[:40], "pass a list of str")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError("texts", "str", f"{type(text).__name__} at {row}", 'use "" for a record that says nothing')
    cut = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    return [np.asarray(row, dtype=np.int64) for row in cut]


def _padded(ids: Sequence[IntArray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens (texts, longest) padded on the right, where causal attention never looks, and their mask."""
    tokens = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
    mask = np.zeros_like(tokens)
    for i, row in enumerate(ids):
        tokens[i, : len(row)], mask[i, : len(row)] = row, 1
    return torch.from_numpy(tokens), torch.from_numpy(mask)


@torch.inference_mode()
def _score_batch(model: Any, ids: Sequence[IntArray], kept: Sequence[BoolArray], moments: bool) -> list[FloatArray]:
    """Return of the scored tokens of each text log p, mean and std (0 if not wanted) and top1 as 1, (4, tokens)."""
    tokens, mask = _padded(ids)
    wanted = np.zeros(tokens.shape, dtype=np.bool_)
    for i, row in enumerate(kept):
        wanted[i, : len(row) - 1] = row[1:]  # the logits before a token are its prediction
    logits = model(input_ids=tokens.to(model.device), attention_mask=mask.to(model.device), use_cache=False).logits
    logits = logits[:, -tokens.shape[1] :].flatten(0, 1)  # an adapter may put learned tokens before the text
    target = tokens.roll(-1, dims=1).flatten().to(logits.device)
    size = max(1, (_BLOCK if logits.device.type == "cpu" else 64 * _BLOCK) // logits.shape[1])
    blocks = [
        _moments(*pair, moments) for pair in zip(torch.split(logits, size), torch.split(target, size), strict=True)
    ]
    flat: FloatArray = torch.cat(blocks, dim=1).cpu().numpy()[:, wanted.ravel()]
    return np.split(flat, np.cumsum(wanted.sum(axis=1))[:-1], axis=1)


def _moments(logits: torch.Tensor, target: torch.Tensor, moments: bool) -> torch.Tensor:
    """Return log p, mean, std and top1 of targets (4, tokens), within 1e-6 of what float64 gives.

    Terms are in float32, against the likeliest token: it is near all that have weight, so that the square of the mean
    takes no digits of the variance.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    top = logits.amax(dim=-1)
    own = logits.gather(1, target[:, None])[:, 0].double()
    below = logits.to(exact) - top.to(exact)[:, None]
    p = below.exp()
    total = _sum(p)
    norm = total.log()
    log_p, top1 = own - top.double() - norm, (own >= top).double()
    if not moments:
        return torch.stack([log_p, torch.zeros_like(norm), torch.zeros_like(norm), top1])
    mean = _sum(p.mul_(below)) / total
    square = _sum(p.mul_(below)) / total
    return torch.stack([log_p, mean - norm, (square - mean**2).clamp(min=0).sqrt(), top1])


def _sum(terms: torch.Tensor) -> torch.Tensor:
    """Sum of terms (tokens, vocabulary) in float64, of sums of 256 in their own precision: a fifth faster."""
    whole = terms.shape[1] // 256 * 256
    parts = terms[:, :whole].view(len(terms), whole // 256, 256).sum(dim=2)
    return torch.cat([parts, terms[:, whole:]], dim=1).sum(dim=1, dtype=torch.float64)


# -- a small model of one's own ---------------------------------------------------------------------------------------


def byte_pair_tokenizer(texts: Iterable[str], *, vocabulary: int = 1000) -> Any:
    """Learn a byte-level BPE vocabulary; every text begins with one special token, so that all others are predicted.

    Use texts whose choice does not depend on membership (all records, or others), or the vocabulary gives members away.

    Parameters
    ----------
    texts : iterable of str
    vocabulary : most tokens, from 257: all bytes and the special one; 257 learns nothing from the texts

    Returns
    -------
    transformers.PreTrainedTokenizerFast
    """
    model_folder.check_whole("vocabulary", vocabulary, _BYTES + 1)
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pairs.train_from_iterator(texts, trainer)
    pairs.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, pairs.token_to_id(START))]
    )
    wrapped: Any = transformers.PreTrainedTokenizerFast
    return wrapped(tokenizer_object=pairs, bos_token=START)


def train(
    tokenizer: Any,
    texts: Sequence[str],
    config: SmallGPT2 | None = None,
    *,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> LanguageModel:
    """Train a small GPT-2 from random weights on texts, on the processor.

    Parameters
    ----------
    tokenizer : as of :func:`byte_pair_tokenizer`
    texts : the members
    config : SmallGPT2, optional
    rng : generator of the weights and of the order of the texts
    progress : function of the epochs done so far and their number, optional

    Raises
    ------
    InputError
        If the loss is no longer finite; the epoch is named.
    """
    config = config or SmallGPT2()
    size = config.context  # a longer text is learned in parts, so that all that will be scored of it was seen
    whole = _tokenized(tokenizer, texts)
    ids = [row[start : start + size] for row in whole for start in range(0, max(1, len(row) - 1), size)]
    model = _fresh(tokenizer, config, int(rng.integers(2**62)))
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    steps = config.epochs * -(-len(ids) // config.batch)
    step = 0
    for epoch in range(config.epochs):
        order = rng.permutation(len(ids))
        for start in range(0, len(ids), config.batch):
            optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - step / steps)
            loss: Any = _loss(model, [ids[row] for row in order[start : start + config.batch]])
            if not torch.isfinite(loss):
                received = f"{loss.item()} in epoch {epoch + 1} of {config.epochs}"
                raise InputError("learning_rate", "one with finite losses", received, "divide it by 3")
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            step += 1
        if progress is not None:
            progress(epoch + 1, config.epochs)
    return LanguageModel("small GPT-2", model.eval(), tokenizer)


def _fresh(tokenizer: Any, config: SmallGPT2, seed: int) -> Any:
    start = tokenizer.bos_token_id
    architecture = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=config.context,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=start,
        eos_token_id=start,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.GPT2LMHeadModel(architecture).train()


def _loss(model: Any, ids: Sequence[IntArray]) -> torch.Tensor:
    """Mean cross-entropy of all tokens of a batch, padding left out."""
    tokens, mask = _padded(ids)
    logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    target = tokens.masked_fill(mask == 0, -100)
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten(), ignore_index=-100)
