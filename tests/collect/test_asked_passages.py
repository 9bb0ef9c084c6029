"""A model asked to go on from beginnings: batches say what one at a time says, and a killed run goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")


from miaudit.auditing.extraction import ExtractionPlan
from miaudit.collect import asked_passages
from miaudit.collect.asked_passages import Asking, PassageAnswers, ask_passages
from miaudit.collect.extraction import audit_extraction
from miaudit.errors import InputError
from miaudit.findings.extraction import ExtractionFindings
from miaudit.io.token_records import TokenRecords
from miaudit.models import text
from miaudit.report import kinds
from models.test_continuation import MEMBER, TEXTS, N, by_heart

pytestmark = pytest.mark.long

WINDOW = {"prefix": 8, "suffix": 8}


@pytest.fixture(scope="module")
def model() -> text.LanguageModel:
    return by_heart()


@pytest.fixture(scope="module")
def folder(model: text.LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("m") / "model"
    text.save(model, place)
    return place


@pytest.fixture(scope="module")
def held(model: text.LanguageModel) -> TokenRecords:
    said = text.token_log_probabilities(model, TEXTS, moments=False)
    ids = tuple(f"t{i}" for i in range(N))
    return TokenRecords(ids, MEMBER, said.log_p, said.offsets, top1=said.top1, tokens=said.tokens, text=tuple(TEXTS))


@pytest.mark.thorough
@pytest.mark.long
def test_what_a_model_knows_by_heart_comes_out_of_it(held: TokenRecords, folder: Path) -> None:
    told: list[tuple[int, int]] = []
    answers = ask_passages(
        held, folder, **WINDOW, asking=Asking(samples=3), progress=lambda done, of: told.append((done, of))
    )
    assert told[-1][0] == told[-1][1] == -(-len(answers.record) // 16) and answers.drawn.shape == (
        len(answers.record),
        3,
    )
    found = audit_extraction(held, ExtractionPlan(**WINDOW, near=0.25), answers=answers, design="one-run", names=True)
    shares = {way.name: way.members.value or 0.0 for way in found.ways}
    assert shares["asked-greedy"] > 0.7 and shares["asked-greedy"] <= shares["asked-greedy-near"]
    assert shares["asked-drawn"] <= shares["asked-drawn-near"]
    assert {way.controls.value for way in found.ways} == {0.0} and found.verdict.status == "flagged"
    assert found.asked is not None and found.asked.passages == len(answers.record)
    assert ExtractionFindings.from_dict(found.to_dict()).to_json() == found.to_json()
    page = kinds.page(found)
    assert "nearly in 3 answers" in page and "given those tokens and no others" in page
    assert "asked-greedy" in found.named[0].ways


@pytest.mark.thorough
@pytest.mark.long
def test_a_killed_run_goes_on_where_it_stopped(
    held: TokenRecords, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(samples=2, batch=4, seed=3)
    whole = ask_passages(held, folder, **WINDOW, asking=asking)
    real, calls = asked_passages._distances, []

    def until(*given: object) -> np.ndarray:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(asked_passages, "_distances", until)
    with pytest.raises(KeyboardInterrupt):
        ask_passages(held, folder, **WINDOW, asking=asking, store=tmp_path / "s")
    calls.clear()
    monkeypatch.setattr(asked_passages, "_distances", lambda *given: (calls.append(1), real(*given))[1])
    again = ask_passages(held, folder, **WINDOW, asking=asking, store=tmp_path / "s")
    assert len(calls) == -(-len(whole.record) // 4) - 2  # two passes were kept
    np.testing.assert_array_equal(again.greedy, whole.greedy)
    np.testing.assert_array_equal(again.drawn, whole.drawn)
    with pytest.raises(InputError, match="store: expected a folder of the same options"):
        ask_passages(held, folder, **WINDOW, asking=replace(asking, seed=4), store=tmp_path / "s")


def test_only_the_tokens_before_a_passage_are_given(held: TokenRecords, model: text.LanguageModel) -> None:
    cut = asked_passages._cut(model, held, 4, 5, 2)
    for i, (beginning, true) in enumerate(zip(cut.beginnings, cut.true, strict=True)):
        row = np.array(model.tokenizer(TEXTS[cut.record[i]])["input_ids"])
        second = i > 0 and cut.record[i] == cut.record[i - 1]
        start = 1 + 4 + 5 * second
        np.testing.assert_array_equal(beginning, np.r_[row[0], row[start - 4 : start]])
        np.testing.assert_array_equal(true, row[start : start + 5])
    assert np.bincount(cut.record).max() == 2


def test_unknown_tokens_inside_a_passage_are_said(held: TokenRecords, model: text.LanguageModel) -> None:
    start = model.tokenizer.bos_token
    broken = (TEXTS[0][:10] + start + TEXTS[0][10:], *TEXTS[1:])
    said = text.token_log_probabilities(model, broken, moments=False)
    records = replace(held, text=broken, log_p=said.log_p, offsets=said.offsets, tokens=said.tokens, top1=None)
    cut = asked_passages._cut(model, records, 2, 12, 1)
    assert cut.notes == ("1 passages hold a special or unknown token and were not asked.",)
    assert 0 not in cut.record


@pytest.mark.parametrize(
    ("change", "window", "message"),
    [
        ({"tokens": None}, WINDOW, "keys: expected text and tokens on every line, to ask a model, received no tokens"),
        ({"text": None}, WINDOW, "no text"),
        ({}, {"prefix": 8, "suffix": 100}, None),
    ],
)
def test_what_cannot_be_asked(
    held: TokenRecords, folder: Path, change: dict[str, object], window: dict[str, int], message: str | None
) -> None:
    if message is None:  # texts are too short: nothing to ask
        assert len(ask_passages(held, folder, **window).record) == 0
        return
    with pytest.raises(InputError, match=message):
        ask_passages(replace(held, **change), folder, **window)  # type: ignore[arg-type]


def test_another_tokenizer_is_refused(held: TokenRecords, folder: Path) -> None:
    assert held.tokens is not None
    other = replace(held, tokens=np.r_[held.tokens[:5], held.tokens[5] + 1, held.tokens[6:]])
    with pytest.raises(InputError, match="tokens: expected those of the model's own tokenizer, received token") as got:
        ask_passages(other, folder, **WINDOW)
    assert "at 5 of text 't0'" in str(got.value) and "\n" not in str(got.value)


def test_a_window_beyond_the_model_is_said(model: text.LanguageModel, folder: Path) -> None:
    long = " ".join(TEXTS[:8])
    said = text.token_log_probabilities(model, [long, TEXTS[30]], moments=False)
    both = (long, TEXTS[30])
    records = TokenRecords(("a", "b"), np.array([True, False]), said.log_p, said.offsets, tokens=said.tokens, text=both)
    answers = ask_passages(records, folder, prefix=30, suffix=33, asking=Asking(samples=0))
    assert isinstance(answers, PassageAnswers) and answers.drawn.shape == (1, 0)
    beyond = ask_passages(records, folder, prefix=31, suffix=33)
    assert beyond.notes == (
        "Nothing was asked: no text has a passage of 33 tokens after 31 within the 64 that the model reads.",
    )
    found = audit_extraction(records, ExtractionPlan(prefix=31, suffix=33), answers=beyond)
    assert found.verdict.status == "not-testable" and len(found.ways) == 1


def test_without_a_start_token_the_first_of_a_text_is_context(model: text.LanguageModel) -> None:
    from tokenizers import processors

    own = type(model.tokenizer)(tokenizer_object=model.tokenizer.backend_tokenizer, bos_token=text.START)
    own.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    bare = text.LanguageModel("bare", model.model, own)
    said = text.token_log_probabilities(bare, TEXTS, moments=False)
    records = TokenRecords(
        tuple(map(str, range(N))), MEMBER, said.log_p, said.offsets, tokens=said.tokens, text=tuple(TEXTS)
    )
    cut = asked_passages._cut(bare, records, 3, 4, 2)
    row = np.array(own(TEXTS[0])["input_ids"])
    np.testing.assert_array_equal(cut.beginnings[0], row[:4])  # the first token has no prediction, and is no prefix
    np.testing.assert_array_equal(cut.beginnings[1], row[5:8])
    with pytest.raises(InputError, match="prefix: expected a token or more, for a model to go on from, received 0"):
        asked_passages._cut(bare, records, 0, 4, 2)
