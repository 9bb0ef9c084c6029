"""What an inference server answers about the tokens of a prompt, as the keys of a file of token log-probabilities.

Two forms are read as they come: ``prompt_logprobs`` of vLLM, for each token an object by the numbers of tokens, and
``logprobs`` of completions with ``echo`` (OpenAI and those that follow it): tokens, token_logprobs, top_logprobs.
Nothing is guessed: a token whose probability the server left out is refused, since what is missing is what is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

__all__ = ["SENTINEL", "ServerAnswers"]

SENTINEL = -9999.0  # what servers write for minus infinity, which JSON does not have
_ASK = "ask vLLM for prompt_logprobs: 0, which is of the prompt's own tokens whatever their rank"
_ECHO = "ask /v1/completions with echo: true, max_tokens: 0 and logprobs: 2, or vLLM with prompt_logprobs: 0"
_PROMPT, _OWN_IDS, _CHOICES = "prompt_logprobs", "prompt_token_ids", "choices"
_BY_NUMBER = "token_id:"  # how vLLM spells tokens where it is asked for their numbers


class Refuse(Protocol):
    """Says what is wrong with a line: what, what is allowed, what was received, the next step."""

    def __call__(self, what: str, allowed: str, received: str, next_step: str) -> NoReturn: ...


@dataclass(frozen=True, eq=False)
class _Answer:
    """The tokens of one text: their spelling ("" where unknown), log-probability (None of a first), rank, number."""

    pieces: Sequence[str]
    log_p: Sequence[float | None]
    top1: Sequence[bool] | None
    tokens: Sequence[int] | None


@dataclass(eq=False)
class ServerAnswers:
    """The answers in one file: each as keys of the file, and what is to be said of all together.

    Examples
    --------
    >>> def refuse(*words: str):
    ...     raise ValueError(", ".join(words))
    >>> one = {"prompt_logprobs": [None, {"11": {"logprob": -0.5, "rank": 1, "decoded_token": " cat"}}]}
    >>> ServerAnswers().plain({"id": 1, "member": True, **one}, 1, refuse)
    {'id': 1, 'member': True, 'logprobs': [-0.5], 'top1': [True], 'tokens': [11]}
    """

    around: int = 0
    unspelled: int = 0
    spelled: dict[int, tuple[str, int]] = field(default_factory=dict)

    def plain(self, content: Mapping[str, Any], number: int, refuse: Refuse) -> dict[str, Any]:
        """Return the keys of a line with a server's answer, if it has one, in the words of the file.

        With a text on the line its tokens alone are counted: what stands before it (a chat template) is context, and
        what stands after it was generated.

        Parameters
        ----------
        content : the line
        number : of the line
        refuse : raises the error
        """
        fields = {name: value for name, value in content.items() if name not in (_PROMPT, _OWN_IDS, _CHOICES)}
        answer = _answer_of(content, refuse)
        if answer is not None:
            if isinstance(content.get("logprobs"), list) or {"tokens", "top1"} & set(content):
                refuse("keys", "logprobs, or a server's answer", "both", "leave one of them out")
            fields.pop("logprobs", None)
            self._one_tokenizer(answer, number, refuse)
            fields |= self._counted(answer, content.get("text"), refuse)
        other = fields.get("reference_logprobs")
        if _is_answer(other):
            reference = _read(other, None, "reference_logprobs", refuse)
            fields["reference_logprobs"] = self._counted(reference, content.get("text"), refuse)["logprobs"]
        return fields

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in sentences."""
        notes = []
        if self.around:
            notes.append(
                f"Of {self.around:,} answers of a server only the tokens of the text are counted, and not those before "
                "it (special tokens, a chat template) or after it (generated)."
            )
        if self.unspelled:
            notes.append(
                f"The tokens of {self.unspelled:,} answers of a server do not spell a text of the line: all that have "
                "a log-probability are counted, special tokens and a chat template among them."
            )
        return tuple(notes)

    def _counted(self, answer: _Answer, text: Any, refuse: Refuse) -> dict[str, Any]:
        first = 1 if answer.log_p[0] is None else 0
        span = (
            _span(answer.pieces, text, missing=first == 1 and not answer.pieces[0]) if isinstance(text, str) else None
        )
        if span is None:
            if first == 0:
                received = "a number for it, and tokens that do not spell the text of the line"
                refuse("logprobs", "null for the first token of a prompt", received, _ECHO)
            self.unspelled += 1
        elif span != (0, len(answer.pieces)):
            self.around += 1
        begin, end = span or (0, len(answer.pieces))
        own = slice(max(begin, first), end)
        for position, value in enumerate(answer.log_p[own], own.start):
            if value is None:
                refuse("logprobs", "a log-probability of every token", f"null at position {position}", _ASK)
            if value == SENTINEL:
                received = f"{SENTINEL:g} at position {position}, which stands for minus infinity or for no answer"
                refuse("logprobs", "finite logarithms of probabilities", received, _ASK)
        counted: dict[str, Any] = {"logprobs": list(answer.log_p[own])}
        if answer.top1 is not None:
            counted["top1"] = list(answer.top1[own])
        if answer.tokens is not None:
            counted["tokens"] = list(answer.tokens[own])
        return counted

    def _one_tokenizer(self, answer: _Answer, number: int, refuse: Refuse) -> None:
        """Refuse a token number that is spelled in two ways; pieces of characters depend on what stands around them."""
        if answer.tokens is None:
            return
        for token, piece in zip(answer.tokens, answer.pieces, strict=True):
            if piece.isascii() and (own := piece.strip()):
                other, where = self.spelled.setdefault(token, (own, number))
                if other != own:
                    received = f"token {token} as {own[:20]!r}, and as {other[:20]!r} in line {where}"
                    refuse("tokens", "answers of one tokenizer", received, "write a file for each model")


def _answer_of(content: Mapping[str, Any], refuse: Refuse) -> _Answer | None:
    """Return the answer of a line, which is the whole response, a choice of it, or its field alone."""
    held: Mapping[str, Any] = content
    if isinstance(content.get(_CHOICES), list):
        choices = content[_CHOICES]
        if len(choices) != 1 or not isinstance(choices[0], dict):
            refuse(_CHOICES, "one choice", str(len(choices)), "ask for one completion of one prompt (n: 1)")
        held = {**content, **{name: value for name, value in choices[0].items() if value is not None}}
    if held.get(_PROMPT) is not None:
        return _read(held[_PROMPT], held.get(_OWN_IDS), _PROMPT, refuse)
    if _is_answer(held.get("logprobs")):
        return _read(held["logprobs"], None, "logprobs", refuse)
    if held is not content or _PROMPT in content:
        refuse("logprobs", "log-probabilities of the prompt in the answer", "none", _ECHO)
    return None


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _read(value: Any, ids: Any, what: str, refuse: Refuse) -> _Answer:
    if isinstance(value, dict):
        return _of_completion(value, what, refuse)
    if not isinstance(value, list) or not value:
        refuse(what, "a list, or an object", "an empty list" if value == [] else type(value).__name__, _ECHO)
    return _of_prompt(value, ids, what, refuse)


def _of_prompt(values: list[Any], ids: Any, what: str, refuse: Refuse) -> _Answer:
    """Read vLLM's form: null, then for each token {number: {logprob, rank, decoded_token}}, the token itself first."""
    if ids is not None and (not isinstance(ids, list) or len(ids) != len(values)):
        received = str(len(ids)) if isinstance(ids, list) else type(ids).__name__
        refuse(_OWN_IDS, f"{len(values)} numbers, as in {what}", received, "leave the answer as it is")
    pieces, log_p, ranks, tokens = list[str](), list[float | None](), list[Any](), list[int]()
    for position, one in enumerate(values):
        if one is None and position == 0:
            pieces.append("")
            log_p.append(None)
            ranks.append(0)
            tokens.append(0)
            continue
        if not isinstance(one, dict) or not one:
            shown = "null" if one is None else type(one).__name__
            refuse(what, "an object for each token after the first", f"{shown} at position {position}", _ASK)
        key = _own_key(one, None if ids is None else ids[position], position, what, refuse)
        entry = one[key]
        token = entry if isinstance(entry, dict) else {"logprob": entry}
        if not key.isdecimal() or "logprob" not in token:
            refuse(what, "{number of the token: {logprob, ...}}", f"{key[:20]!r} at position {position}", _ASK)
        pieces.append(token["decoded_token"] if isinstance(token.get("decoded_token"), str) else "")
        log_p.append(token["logprob"])
        ranks.append(token.get("rank"))
        tokens.append(int(key))
    ranked = all(type(rank) is int for rank in ranks)
    return _Answer(pieces, log_p, [rank == 1 for rank in ranks] if ranked else None, tokens)


def _own_key(one: Mapping[str, Any], token: Any, position: int, what: str, refuse: Refuse) -> str:
    """Return which of the tokens at a position is the prompt's: by its number, else the first, as vLLM has it."""
    if token is not None:
        if str(token) not in one:
            received = f"{len(one)} others at position {position}: the likeliest alone"
            refuse(what, f"the prompt's own token {token}", received, _ASK)
        return str(token)
    first = next(iter(one))
    ranks = {key: entry["rank"] for key, entry in one.items() if isinstance(entry, dict) and "rank" in entry}
    if len(ranks) == len(one) > 1 and all(type(rank) is int for rank in ranks.values()):
        last = max(ranks, key=lambda key: ranks[key])
        if ranks[last] > len(one) and last != first:  # not among the likeliest: it is there since the prompt has it
            received = f"token {last} of rank {ranks[last]} after others at position {position}"
            refuse(
                what, "tokens in the server's order, the prompt's own first", received, f"keep {_OWN_IDS}, or {_ASK}"
            )
    return first


def _of_completion(value: Mapping[str, Any], what: str, refuse: Refuse) -> _Answer:
    """Read the form of completions with echo: tokens and token_logprobs, and maybe the likeliest at each position."""
    words, log_p, top = value.get("tokens"), value.get("token_logprobs"), value.get("top_logprobs")
    if not isinstance(words, list) or not isinstance(log_p, list) or not words:
        keys = ", ".join(map(str, value))[:60] or "an empty object"
        refuse(what, "tokens and token_logprobs of the prompt", keys, _ECHO)
    if len(words) != len(log_p) or not all(isinstance(word, str) for word in words):
        refuse(what, "as many tokens as token_logprobs", f"{len(words)} and {len(log_p)}", "leave the answer as it is")
    top1 = None
    if isinstance(top, list) and len(top) == len(log_p):
        likeliest = [
            [p for p in one.values() if isinstance(p, int | float)] if isinstance(one, dict) else [] for one in top
        ]
        if 2 * sum(len(one) > 1 for one in likeliest) > len(top) - 1:  # a token alone does not say its rank
            top1 = [
                bool(one) and isinstance(own, int | float) and own >= max(one)
                for own, one in zip(log_p, likeliest, strict=True)
            ]
    numbers = [word.removeprefix(_BY_NUMBER) for word in words]
    if all(number.isdecimal() and word.startswith(_BY_NUMBER) for number, word in zip(numbers, words, strict=True)):
        return _Answer([""] * len(words), log_p, top1, [int(number) for number in numbers])
    return _Answer(words, log_p, top1, None)


def _span(pieces: Sequence[str], text: str, *, missing: bool) -> tuple[int, int] | None:
    """Return which of the pieces spell a text, but for white space; None if they do not, or in two places.

    ``missing`` says that the first piece is unknown, and may be of the text.
    """
    bare = ["".join(piece.split()) for piece in pieces]
    whole, wanted = "".join(bare), "".join(text.split())
    if not whole or not wanted:
        return None
    if whole == wanted or (missing and wanted.endswith(whole)):
        return 0, len(pieces)
    start = whole.find(wanted)
    if start < 0 or whole.find(wanted, start + 1) >= 0:
        return None
    inside, at = [], 0
    for position, piece in enumerate(bare):
        if piece and start <= at and at + len(piece) <= start + len(wanted):
            inside.append(position)
        at += len(piece)
    return (inside[0], inside[-1] + 1) if inside else None
