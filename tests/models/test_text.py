"""Token log-probabilities against the network written out and the library's own loss, and folders that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import special

pytest.importorskip("torch", reason="the extra `torch`")
pytest.importorskip("transformers", reason="the extra `text`")

import torch
import transformers

from miaudit.errors import InputError
from miaudit.models import text
from miaudit.models.text import LanguageModel, SmallGPT2
from worlds.twins import log_p_and_moments

WORDS = ["snow", "rain", "hail", "wind", "fog", "sun"]
LONG = " ".join(np.random.default_rng(7).choice(WORDS, 60))
TINY = SmallGPT2(layers=2, width=16, heads=2, context=24, epochs=3, batch=8, learning_rate=0.01)


def texts(n: int = 40, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(n)]


@pytest.fixture(scope="module")
def small() -> LanguageModel:
    return text.train(text.byte_pair_tokenizer(texts(), vocabulary=280), texts(), TINY, rng=np.random.default_rng(0))


@pytest.fixture
def folder(small: LanguageModel, tmp_path: Path) -> Path:
    text.save(small, tmp_path / "model")
    return tmp_path / "model"


# -- second truths ----------------------------------------------------------------------------------------------------


def gpt2(model: LanguageModel, ids: list[int]) -> np.ndarray:
    """GPT-2 as its paper writes it, in float64, one text at a time: log-probabilities (tokens, vocabulary)."""
    w = {name: value.detach().double().numpy() for name, value in model.model.transformer.state_dict().items()}
    heads, eps = model.model.config.n_head, model.model.config.layer_norm_epsilon

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    for block in range(model.model.config.n_layer):
        at = f"h.{block}"
        parts = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3 * heads, axis=1)
        mixed = []
        for q, k, v in zip(parts[:heads], parts[heads : 2 * heads], parts[2 * heads :], strict=True):
            scores = q @ k.T / np.sqrt(q.shape[1])
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            mixed.append(special.softmax(scores, axis=1) @ v)
        x = x + linear(np.concatenate(mixed, axis=1), f"{at}.attn.c_proj")
        h = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        x = x + linear(h, f"{at}.mlp.c_proj")
    return special.log_softmax(norm(x, "ln_f") @ w["wte.weight"].T, axis=1)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_log_probabilities_equal_the_network_written_out(small: LanguageModel, batch: int) -> None:
    asked = texts(30, seed=1)
    out = text.token_log_probabilities(small, asked, batch=batch)
    for i, one in enumerate(asked):
        ids = small.tokenizer(one)["input_ids"][: TINY.context]
        law = gpt2(small, ids)[:-1]
        own = slice(out.offsets[i], out.offsets[i + 1])
        mean = (np.exp(law) * law).sum(axis=1)
        std = np.sqrt((np.exp(law) * law**2).sum(axis=1) - mean**2)
        np.testing.assert_allclose(out.log_p[own], law[np.arange(len(ids) - 1), ids[1:]], atol=2e-5)
        np.testing.assert_allclose(out.mean[own], mean, atol=2e-5)
        np.testing.assert_allclose(out.std[own], std, atol=2e-5)


def test_mean_log_probability_is_the_librarys_loss(small: LanguageModel) -> None:
    for one in texts(5, seed=2):
        ids = torch.tensor([small.tokenizer(one)["input_ids"][: TINY.context]])
        with torch.inference_mode():
            loss = small.model(input_ids=ids, labels=ids).loss.item()
        assert abs(text.token_log_probabilities(small, [one]).log_p.mean() + loss) < 1e-5


def test_blocks_of_the_vocabulary_do_not_matter(small: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text.token_log_probabilities(small, texts(9))
    monkeypatch.setattr(text, "_BLOCK", 700)
    parts = text.token_log_probabilities(small, texts(9))
    np.testing.assert_array_equal(whole.log_p, parts.log_p)
    np.testing.assert_array_equal(whole.std, parts.std)


@pytest.mark.long
def test_long_texts_go_through_the_model_in_smaller_batches(
    small: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits of a pass stay within a number, whatever batch is asked for; the scores are the same."""
    whole = text.token_log_probabilities(small, texts(), batch=40)
    sizes = []
    monkeypatch.setattr(text, "_PASS", 3 * 280 * 8)
    score = text._score_batch
    monkeypatch.setattr(
        text, "_score_batch", lambda m, ids, *a: (sizes.append(len(ids) * max(map(len, ids))), score(m, ids, *a))[1]
    )
    parted = text.token_log_probabilities(small, texts(), batch=40)
    assert max(sizes) <= 24
    assert len(sizes) > 10
    np.testing.assert_allclose(parted.log_p, whole.log_p, atol=1e-5)
    np.testing.assert_array_equal(parted.offsets, whole.offsets)


def test_float32_is_float32_whatever_the_process_asked_for(small: LanguageModel, asked_for_tf32: None) -> None:
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    seen = []
    hook = small.model.register_forward_hook(lambda *_: seen.append((matmul.fp32_precision, conv.fp32_precision)))
    text.token_log_probabilities(small, texts(3))
    hook.remove()
    assert set(seen) == {("ieee", "ieee")}
    assert (matmul.fp32_precision, conv.fp32_precision) == ("tf32", "tf32")


def test_the_order_of_texts_is_kept_and_progress_told(small: LanguageModel) -> None:
    asked, told = texts(20, seed=3), []
    out = text.token_log_probabilities(small, asked, batch=6, progress=lambda *pair: told.append(pair))
    back = text.token_log_probabilities(small, asked[::-1], batch=6, moments=False)
    assert told == [(6, 20), (12, 20), (18, 20), (20, 20)]
    assert back.mean is None
    forth = [out.log_p[a:b] for a, b in pairwise(out.offsets)]
    other = [back.log_p[a:b] for a, b in pairwise(back.offsets)]
    for one, two in zip(forth, other[::-1], strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)


# -- what is left out is said -----------------------------------------------------------------------------------------


def test_special_tokens_are_context_and_said(small: LanguageModel) -> None:
    out = text.token_log_probabilities(small, ["snow rain", f"snow{text.START} rain"])
    assert out.notes == ("Special tokens are context only and have no score: <|start|> (3).",)
    first, second = np.diff(out.offsets)
    assert first == len(small.tokenizer("snow rain")["input_ids"]) - 1
    assert second == len(small.tokenizer("snow")["input_ids"]) - 1 + len(small.tokenizer(" rain")["input_ids"]) - 1


def test_a_first_token_without_context_is_left_out_and_said(small: LanguageModel) -> None:
    bare = LanguageModel(small.name, small.model, _without_start(small))
    ids = bare.tokenizer("snow rain hail")["input_ids"]
    out = text.token_log_probabilities(bare, ["snow rain hail"])
    assert len(out.log_p) == len(ids) - 1
    assert "first token of 1 texts" in out.notes[0]
    np.testing.assert_allclose(out.log_p[0], gpt2(small, ids)[0, ids[1]], atol=2e-5)


def _without_start(small: LanguageModel):
    from tokenizers import Tokenizer, processors

    inner = Tokenizer.from_str(small.tokenizer.backend_tokenizer.to_str())
    inner.post_processor = processors.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner)


def test_texts_are_cut_where_longest_asks_for_it(small: LanguageModel) -> None:
    out = text.token_log_probabilities(small, ["snow rain", LONG])
    shorter = text.token_log_probabilities(small, ["snow rain", LONG], longest=10)
    assert shorter.truncated.tolist() == [False, True] and not out.truncated.any()
    assert shorter.windows.tolist() == [1, 1]
    assert shorter.notes[1].startswith("1 of 2 texts are longer than 10 tokens: their beginning was scored")
    np.testing.assert_allclose(shorter.log_p[shorter.offsets[1] :], out.log_p[out.offsets[1] :][:9], atol=2e-5)


# -- texts longer than the context -------------------------------------------------------------------------------------


def window_of(token: int, length: int, context: int) -> tuple[int, int]:
    """Where the window that scores a token begins and ends, token by token: the first that reaches it."""
    end = context
    while token >= end:
        end += context // 2
    end = min(end, length)
    return max(0, end - context), end


@pytest.mark.long
def test_each_window_is_scored_as_its_slice_alone(small: LanguageModel) -> None:
    """Second truths: the network written out, and the library's own on a model whose context the text fits."""
    ids = small.tokenizer(LONG)["input_ids"]
    wide = text._fresh(small.tokenizer, replace(TINY, context=400), 0).eval()
    weights = small.model.state_dict()
    positions = wide.transformer.wpe.weight.detach().clone()
    positions[:24] = weights["transformer.wpe.weight"]
    wide.load_state_dict(weights | {"transformer.wpe.weight": positions})
    out = text.token_log_probabilities(small, [LONG, "snow rain"], batch=5)
    written, direct = [], []
    for token in range(1, len(ids)):
        start, end = window_of(token, len(ids), 24)
        assert token < 24 or token - start >= 12
        law = gpt2(small, ids[start:end])
        written.append(law[token - start - 1, ids[token]])
        with torch.inference_mode():
            logits = wide(input_ids=torch.tensor([ids[start:end]])).logits[0]
        direct.append(torch.log_softmax(logits, dim=1)[token - start - 1, ids[token]].item())
    own = out.log_p[: out.offsets[1]]
    np.testing.assert_allclose(own, written, atol=2e-5)
    np.testing.assert_allclose(own, direct, atol=2e-5)
    assert out.windows.tolist() == [1 + -(-(len(ids) - 24) // 12), 1] and out.windows[0] > 4
    # The control: with all that stands before a token, most tokens of later windows have another log-probability.
    large = text.token_log_probabilities(LanguageModel("wide", wide, small.tokenizer), [LONG])
    assert len(large.log_p) == len(own)
    np.testing.assert_array_equal(large.tokens, out.tokens[: out.offsets[1]])
    np.testing.assert_allclose(large.log_p[:23], own[:23], atol=2e-5)
    assert (np.abs(large.log_p[23:] - own[23:]) > 2e-4).mean() > 0.8
    assert large.windows.tolist() == [1] and not any("windows" in note for note in large.notes)


def test_how_many_texts_are_longer_is_said_and_batches_do_not_matter(small: LanguageModel) -> None:
    asked = [LONG, "snow rain", LONG[40:], "fog"]
    outs = [text.token_log_probabilities(small, asked, batch=batch) for batch in (1, 7)]
    np.testing.assert_allclose(outs[0].log_p, outs[1].log_p, atol=2e-5)
    np.testing.assert_array_equal(outs[0].offsets, outs[1].offsets)
    assert outs[0].notes[1] == (
        "2 of 4 texts are longer than the model's context of 24 tokens. They were scored in overlapping windows: after "
        "the first window each token has at least 12 tokens before it."
    )
    assert outs[0].tokens.tolist() == [token for one in asked for token in small.tokenizer(one)["input_ids"][1:]]


def test_windows_score_each_token_once_after_half_a_context() -> None:
    rng = np.random.default_rng(0)
    for length, context in [(24, 24), (25, 24), (36, 24), (37, 24), (9, 2), (9, 3), *rng.integers(2, 90, (200, 2))]:
        ids, mask = np.arange(length), rng.random(length) < 0.9
        mask[0] = False
        windows = list(text._windows(ids, mask, int(context)))
        scored = np.concatenate([window.ids[window.scored] for window in windows])
        np.testing.assert_array_equal(scored, ids[mask])
        assert all(len(window.ids) == min(length, context) for window in windows)
        for window in windows[1:]:
            assert np.flatnonzero(window.scored).min(initial=length) >= context / 2
    assert len(list(text._windows(np.arange(500), np.ones(500, dtype=bool), None))) == 1


def test_of_long_texts_all_parts_are_learned(small: LanguageModel) -> None:
    """The control: a model that is trained on their beginning alone does not know how they end."""
    rng = np.random.default_rng(5)
    long = " ".join(rng.choice(WORDS, 40))
    start = small.tokenizer.decode(small.tokenizer(long, add_special_tokens=False)["input_ids"][:20])
    how = replace(TINY, epochs=60)
    ends = []
    for learned in (long, start):
        model = text.train(small.tokenizer, [learned] * 4, how, rng=np.random.default_rng(0))
        ends.append(text.token_log_probabilities(model, [long]).log_p[24:].mean())
    assert ends[0] > ends[1] + 0.4


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (["snow", ""], {}, "none in text 1"),
        ([], {}, "one text or more"),
        ("snow", {}, "a list of str"),
        (["snow", 7], {}, "int at 1"),
        (["snow"], {"batch": 0}, "batch"),
        (["snow"], {"longest": 1}, "from 2"),
    ],
)
def test_bad_texts(small: LanguageModel, asked: list[str], options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        text.token_log_probabilities(small, asked, **options)


def test_a_tokenizer_of_another_model(small: LanguageModel) -> None:
    foreign = text.byte_pair_tokenizer(["zebra quilt jumps over fences"] * 9, vocabulary=400)
    with pytest.raises(InputError, match="for a model of 279 tokens"):
        text.token_log_probabilities(LanguageModel("other", small.model, foreign), ["zebra quilt jumps over fences"])


def test_a_model_that_answers_nan(small: LanguageModel) -> None:
    broken = text._fresh(small.tokenizer, TINY, 0)
    with torch.no_grad():
        broken.transformer.ln_f.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="finite logits"):
        text.token_log_probabilities(LanguageModel("broken", broken, small.tokenizer), ["snow rain"])


def laws(vocabulary: int) -> dict[str, np.ndarray]:
    """Logits (60, vocabulary): wide, narrow, far from 0, one likely token above a flat rest, one certain, all equal."""
    rng = np.random.default_rng(vocabulary)
    noise = rng.normal(size=(60, vocabulary))
    likely, certain = 0.01 * noise, noise.copy()
    likely[:, 0] += np.log(vocabulary)
    certain[:, 0] += 60
    found = {"wide": 6 * noise, "narrow": 0.1 * noise, "far": 300 + noise, "likely": likely, "certain": certain}
    return {name: one.astype(np.float32) for name, one in {**found, "equal": 0 * noise}.items()}


@pytest.mark.long
@pytest.mark.parametrize("vocabulary", [3, 256, 5001])
def test_moments_are_those_of_float64(vocabulary: int) -> None:
    target = np.random.default_rng(1).integers(vocabulary, size=60)
    apart = []
    for name, logits in laws(vocabulary).items():
        twin = log_p_and_moments(logits, target)
        ours = text._moments(torch.from_numpy(logits), torch.from_numpy(target), True).numpy()
        np.testing.assert_allclose(ours, twin, atol=1e-6, err_msg=name)
        none = text._moments(torch.from_numpy(logits), torch.from_numpy(target), False).numpy()
        np.testing.assert_array_equal(none[[0, 3]], ours[[0, 3]])
        plain = special.log_softmax(logits, axis=1)[np.arange(60), target]
        apart.append(np.abs(plain - twin[0]).max())
    assert max(apart) > 1e-6  # as float32 throughout would be


def test_logits_of_half_precision_are_scored_as_they_are() -> None:
    logits = torch.from_numpy(laws(300)["wide"]).bfloat16()
    target = torch.arange(60)
    twin = log_p_and_moments(logits.float().numpy(), target.numpy())
    np.testing.assert_allclose(text._moments(logits, target, True).numpy(), twin, atol=1e-6)


@pytest.mark.parametrize("moments", [True, False])
def test_the_likeliest_tokens_are_those_of_the_network_written_out(small: LanguageModel, moments: bool) -> None:
    asked = texts(12, seed=3)
    out = text.token_log_probabilities(small, asked, moments=moments)
    top1, numbers = [], []
    for one in asked:
        ids = small.tokenizer(one)["input_ids"]
        numbers += ids[1:]  # the first is the special one, which is context
        top1 += (gpt2(small, ids)[:-1].argmax(1) == ids[1:]).tolist()
    assert out.top1.tolist() == top1 and out.tokens.tolist() == numbers
    assert 0.05 < np.mean(top1) < 0.95


# -- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_folder_gives_the_model_back(small: LanguageModel, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = text.load(folder, device="cpu")
    assert loaded.name == "model"
    assert loaded.longest == TINY.context
    for options in ({}, {"precision": "saved"}):
        out = text.token_log_probabilities(text.load(folder, device="cpu", **options), texts(8))
        np.testing.assert_array_equal(out.log_p, text.token_log_probabilities(small, texts(8)).log_p)
    assert capfd.readouterr() == ("", "")


def spoil(folder: Path, kind: str) -> Path:
    config = folder / "config.json"
    content = json.loads(config.read_text())
    if kind == "pickled":
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    elif kind == "no weights":
        (folder / "model.safetensors").unlink()
    elif kind == "cut":
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    elif kind == "no config":
        config.unlink()
    elif kind == "no json":
        config.write_text("{")
    elif kind == "a list":
        config.write_text("[]")
    elif kind == "no folder":
        return folder / "openai-community/gpt2"
    elif kind == "code":
        (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
        config.write_text(json.dumps({**content, "auto_map": {"AutoModelForCausalLM": "evil.Model"}}))
    else:
        change = {"deeper": {"n_layer": 3}, "shallower": {"n_layer": 1}, "wider": {"n_embd": 32}}
        config.write_text(json.dumps({**content, **change.get(kind, {"model_type": "never-heard-of"})}))
    return folder


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pickled", "may hold pickled code"),
        ("no weights", "safetensors file, received none"),
        ("cut", "cannot load"),
        ("no config", "without it"),
        ("no json", "config.json"),
        ("a list", "received list"),
        ("no folder", "never downloaded"),
        ("code", "code of a folder is never run"),
        ("deeper", "missing, unknown or of another shape"),
        ("shallower", "missing, unknown or of another shape"),
        ("wider", "cannot load"),
        ("another", "cannot load"),
    ],
)
def test_bad_folders(folder: Path, kind: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=message) as refused:
        text.load(spoil(folder, kind))
    assert "\n" not in str(refused.value)
    assert not (folder / "ran").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("options", [{"precision": "float8"}, {"device": "tpu"}])
def test_bad_options(folder: Path, options: dict[str, str]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        text.load(folder, **options)


# -- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.long
def test_training_lowers_the_loss_and_is_repeatable(small: LanguageModel) -> None:
    state = torch.random.get_rng_state()
    again = text.train(small.tokenizer, texts(), TINY, rng=np.random.default_rng(0))
    other = text.train(small.tokenizer, texts(), TINY, rng=np.random.default_rng(1))
    assert torch.equal(state, torch.random.get_rng_state())
    mine, same, different = (text.token_log_probabilities(m, texts()).log_p for m in (small, again, other))
    np.testing.assert_array_equal(mine, same)
    assert np.abs(mine - different).max() > 1e-3
    fresh = LanguageModel("fresh", text._fresh(small.tokenizer, TINY, 0).eval(), small.tokenizer)
    assert mine.mean() > text.token_log_probabilities(fresh, texts()).log_p.mean() + 1


@pytest.mark.long
def test_padding_does_not_teach(small: LanguageModel) -> None:
    """The loss of a batch is the mean over its tokens, as if each text stood alone."""
    ids = text._tokenized(small.tokenizer, ["snow", "rain hail wind fog sun"])
    model = small.model
    each = [(text._loss(model, [row]).item(), len(row) - 1) for row in ids]
    whole = sum(loss * n for loss, n in each) / sum(n for _, n in each)
    assert abs(text._loss(model, ids).item() - whole) < 1e-5


def test_a_diverging_run_names_its_epoch(small: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_loss", lambda model, ids: torch.tensor(float("nan")))
    with pytest.raises(InputError, match="nan in epoch 1 of 3"):
        text.train(small.tokenizer, texts(), TINY, rng=np.random.default_rng(0))


@pytest.mark.parametrize("change", [{"width": 15}, {"epochs": 0}, {"context": 1}, {"learning_rate": float("nan")}])
def test_bad_configurations(change: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        replace(TINY, **change)


def test_the_vocabulary() -> None:
    bytes_only = text.byte_pair_tokenizer(["snow"], vocabulary=257)
    assert bytes_only.decode(bytes_only("ñandú 雪", add_special_tokens=False)["input_ids"]) == "ñandú 雪"
    assert len(bytes_only) == 257
    with pytest.raises(InputError, match="from 257"):
        text.byte_pair_tokenizer(["snow"], vocabulary=256)
