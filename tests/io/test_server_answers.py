"""What servers answer about a prompt, read as a model's own numbers, or refused with what to ask."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.io import token_records
from miaudit.io.token_records import TokenRecords

WORDS = ["The", " step", " of", " boiling", " water"]
LOG_P = [None, -8.8, -1.7, -13.9, -2.0]
LIKELIEST = [
    None,
    {" is": -0.7, " ": -2.3},
    {" of": -1.7, " by": -1.9},
    {" the": -0.3, " DNA": -4.1},
    {" water": -2.0, " the": -2.5},
]
TEXT = "".join(WORDS)


def completion(words: list[str] = WORDS, log_p: list[float | None] = LOG_P, **changed: Any) -> dict[str, Any]:
    """The field logprobs of a completion with echo."""
    return {
        "text_offset": [0] * len(words),
        "tokens": words,
        "token_logprobs": log_p,
        "top_logprobs": LIKELIEST,
    } | changed


def prompt() -> list[Any]:
    """The field prompt_logprobs of vLLM for the same prompt: its own tokens stand first, the likeliest after them."""
    made: list[Any] = [None]
    for number, (word, log_p, rank) in enumerate(zip(WORDS[1:], LOG_P[1:], (55, 1, 90, 1), strict=True), start=11):
        own = {str(number): {"logprob": log_p, "rank": rank, "decoded_token": word}}
        others = {"3": {"logprob": -0.5, "rank": 1, "decoded_token": "\u2581x"}} if rank > 1 else {}
        made.append(own | others | {"4": {"logprob": -9.0, "rank": 2, "decoded_token": "y"}})
    return made


def read(folder: Path, *answers: dict[str, Any]) -> TokenRecords:
    lines = [{"id": i, "member": i % 2 == 0, **answer} for i, answer in enumerate(answers)]
    path = folder / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return token_records.read_jsonl(path)


def test_vllm_says_the_prompts_own_tokens(tmp_path: Path) -> None:
    found = read(tmp_path, {"prompt_logprobs": prompt(), "text": TEXT})
    assert found.log_p.tolist() == LOG_P[1:]
    assert found.tokens is not None and found.tokens.tolist() == [11, 12, 13, 14]
    assert found.top1 is not None and found.top1.tolist() == [False, True, False, True]
    assert found.mean is None and found.std is None and found.notes == ()


def test_numbers_of_the_prompt_decide_in_any_order(tmp_path: Path) -> None:
    turned = [None if one is None else dict(reversed(one.items())) for one in prompt()]
    found = read(tmp_path, {"prompt_logprobs": turned, "prompt_token_ids": [10, 11, 12, 13, 14], "text": TEXT})
    assert found.log_p.tolist() == LOG_P[1:]
    with pytest.raises(InputError, match=r"line 1, prompt_logprobs: .*own first, received token 11 of rank 55 after"):
        read(tmp_path, {"prompt_logprobs": turned, "text": TEXT})


def test_completions_with_echo(tmp_path: Path) -> None:
    found = read(tmp_path, {"logprobs": completion(), "text": TEXT})
    assert found.log_p.tolist() == LOG_P[1:] and found.tokens is None
    assert found.top1 is not None and found.top1.tolist() == [False, True, False, True]
    own = [None, *({word: value} for word, value in zip(WORDS[1:], LOG_P[1:], strict=True))]
    for alone in (None, own):  # logprobs: 0 says nothing of ranks
        assert read(tmp_path, {"logprobs": completion(top_logprobs=alone), "text": TEXT}).top1 is None
    spelled = [f"token_id:{number}" for number in (5, 6, 7, 8, 9)]
    numbers = read(tmp_path, {"logprobs": completion(spelled)}).tokens
    assert numbers is not None and numbers.tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize("field", [{"prompt_logprobs": prompt(), "logprobs": None}, {"logprobs": completion()}])
def test_the_whole_answer_may_stand_on_the_line(tmp_path: Path, field: dict[str, Any]) -> None:
    choice = {"index": 0, "finish_reason": "length", "text": TEXT, **field}
    whole = {"object": "text_completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 5}}
    found = read(tmp_path, {**whole, "choices": [choice], "text": TEXT})
    assert found.log_p.tolist() == LOG_P[1:] and found.text == (TEXT,)
    assert "'usage' (line 1)" in found.notes[0]


def test_only_the_tokens_of_the_text_are_counted(tmp_path: Path) -> None:
    """A template stands before the text, and one token was generated after it; white space may be lost."""
    words = ["<s>", "[INST]", " \n", *WORDS, "[/INST]", "Yes"]
    log_p = [None, -9.0, -8.0, -7.0, *LOG_P[1:], -6.0, -0.1]
    found = read(tmp_path, {"logprobs": completion(words, log_p, top_logprobs=None), "text": f" {TEXT}\n"})
    assert found.log_p.tolist() == [-7.0, *LOG_P[1:]]
    assert found.notes == (
        "Of 1 answers of a server only the tokens of the text are counted, and not those before it (special tokens, a "
        "chat template) or after it (generated).",
    )
    without = read(tmp_path, {"logprobs": completion(words, log_p, top_logprobs=None)})
    assert len(without.log_p) == 9 and "special tokens and a chat template among them" in without.notes[0]
    twice = read(
        tmp_path, {"logprobs": completion([*WORDS, *WORDS], LOG_P + [-1.0] * 5, top_logprobs=None), "text": TEXT}
    )
    assert len(twice.log_p) == 9 and "do not spell" in twice.notes[0]


def test_a_reference_may_be_asked_in_the_same_way(tmp_path: Path) -> None:
    found = read(tmp_path, {"prompt_logprobs": prompt(), "reference_logprobs": completion(), "text": TEXT})
    assert found.reference_log_p is not None and found.reference_log_p.tolist() == LOG_P[1:]


def changed(position: int, **values: Any) -> list[Any]:
    made = copy.deepcopy(prompt())
    made[position][next(iter(made[position]))] |= values
    return made


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "the likeliest alone": (
        {"prompt_logprobs": prompt(), "prompt_token_ids": [10, 11, 12, 99, 14]},
        "own token 99, received 3 others at position 3: the likeliest alone; ask vLLM for prompt_logprobs: 0",
    ),
    "a token that is not among the likeliest": (
        {"logprobs": completion(log_p=[None, -1.0, None, -1.0, -1.0]), "text": TEXT},
        "null at position 2; ask vLLM for prompt_logprobs: 0",
    ),
    "minus infinity of vLLM": ({"prompt_logprobs": changed(2, logprob=-9999.0)}, "-9999 at position 2, which stands"),
    "minus infinity of a completion": (
        {"logprobs": completion(log_p=[None, -9999.0, -1.0, -1.0, -1.0])},
        "-9999 at position 1, which stands for minus infinity",
    ),
    "positive": ({"prompt_logprobs": changed(1, logprob=0.7)}, "at most 0, received 0.7"),
    "a word for a number": ({"prompt_logprobs": changed(1, logprob="low")}, "numbers, received str"),
    "a gap": ({"prompt_logprobs": [*prompt()[:2], None]}, "null at position 2"),
    "an empty place": ({"prompt_logprobs": [*prompt()[:2], {}]}, "dict at position 2"),
    "no numbers of tokens": ({"prompt_logprobs": [None, {"the": {"logprob": -1.0}}]}, "'the' at position 1"),
    "only what was generated": ({"logprobs": completion(["Yes"], [-0.1]), "text": TEXT}, "echo: true, max_tokens: 0"),
    "a chat": ({"logprobs": {"content": [{"token": "Yes", "logprob": -0.1}]}}, "received content; ask /v1/completions"),
    "an answer without": ({"choices": [{"text": TEXT, "logprobs": None}]}, "in the answer, received none; ask"),
    "asked for nothing": ({"prompt_logprobs": None}, "received none; ask"),
    "two choices": ({"choices": [{}, {}]}, "one choice, received 2"),
    "both forms": ({"prompt_logprobs": prompt(), "logprobs": [-1.0]}, "logprobs, or a server's answer, received both"),
    "another length": ({"logprobs": completion(log_p=[None, -1.0])}, "as many tokens as token_logprobs"),
    "other numbers of the prompt": ({"prompt_logprobs": prompt(), "prompt_token_ids": [1]}, "5 numbers, as in"),
    "one token": ({"prompt_logprobs": [None]}, "an empty list; drop records without tokens"),
    "an empty answer": ({"prompt_logprobs": []}, "an empty list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_server_left_out_is_refused(tmp_path: Path, case: str) -> None:
    answer, message = WRONG[case]
    with pytest.raises(InputError) as refused:
        read(tmp_path, answer)
    assert message in str(refused.value) and str(refused.value).startswith("t.jsonl, line 1, ")
    assert "\n" not in str(refused.value)


def test_answers_of_two_tokenizers_are_not_one_file(tmp_path: Path) -> None:
    other = changed(3, decoded_token=" wasser")
    with pytest.raises(InputError, match=r"line 2, tokens: .*token 13 as 'wasser', and as 'boiling' in line 1"):
        read(tmp_path, {"prompt_logprobs": prompt()}, {"prompt_logprobs": other})
    partial = changed(3, decoded_token="\ufffd")  # bytes of a character are spelled by what stands around them
    assert len(read(tmp_path, {"prompt_logprobs": prompt()}, {"prompt_logprobs": partial}).ids) == 2


def test_the_lines_of_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")
    lines = [
        json.loads(line)
        for line in page.splitlines()
        if line.startswith('{"id": "a-') and ("rank" in line or "top_logprobs" in line)
    ]
    assert len(lines) == 2
    for line in lines:
        found = read(tmp_path, line)
        assert found.log_p.tolist() == [-3.1] and found.top1 is not None and found.notes == ()


@pytest.mark.long
def test_answers_of_a_model_are_the_models_own_numbers(tmp_path: Path) -> None:
    """A small model answers as either server would; what is read are its log-probabilities, ranks and numbers."""
    pytest.importorskip("transformers")
    import torch

    from miaudit.models import language, text

    texts = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(6) for word in ("cat", "dog")]
    small = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=2), vocabulary=270)
    held = small.fit(texts, np.zeros(12), np.arange(12), seed=0)
    text.save(held, tmp_path / "m")
    model = text.load(tmp_path / "m")
    own = text.token_log_probabilities(model, texts)
    by_vllm, by_echo = [], []
    for one in texts:
        ids = model.tokenizer(one, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            log_p = model.model(ids).logits[0].double().log_softmax(-1).numpy()
        words = [model.tokenizer.decode([int(token)]) for token in ids[0]]
        places: list[Any] = [None]
        top: list[Any] = [None]
        for before, token in zip(log_p, ids[0].tolist()[1:], strict=False):
            named = [token, *np.argsort(-before)[:3].tolist()]
            rank = {one: int((before >= before[one]).sum()) for one in named}
            spelled = {one: model.tokenizer.decode([one]) for one in named}
            places.append(
                {str(n): {"logprob": float(before[n]), "rank": rank[n], "decoded_token": spelled[n]} for n in named}
            )
            top.append({f"{spelled[n]}|{n}": float(before[n]) for n in named})
        values = [None, *(places[i][str(int(ids[0][i]))]["logprob"] for i in range(1, len(words)))]
        by_vllm.append({"prompt_logprobs": places, "text": one})
        by_echo.append({"logprobs": completion(words, values, top_logprobs=top), "text": one})
    for answers in (by_vllm, by_echo):
        found = read(tmp_path, *answers)
        np.testing.assert_allclose(found.log_p, own.log_p, atol=1e-6)
        np.testing.assert_array_equal(found.offsets, own.offsets)
        np.testing.assert_array_equal(found.top1, own.top1)
        if found.tokens is not None:
            np.testing.assert_array_equal(found.tokens, own.tokens)
