"""A language model asked once: the file equals what the model says, and a killed run goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

import miaudit as ma
from miaudit.attacks import tokens
from miaudit.collect import asked_tokens
from miaudit.collect.asked_tokens import collect_tokens
from miaudit.collect.campaign import Campaign
from miaudit.collect.outputs import from_tokens
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.models import language, text

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" + " more" * (i % 4) for i in range(12) for word in ("cat", "dog")]
MEMBER = np.arange(24) < 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    for name, seed in (("m", 0), ("r", 1)):
        small = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=2), vocabulary=270)
        text.save(small.fit(TEXTS, np.zeros(24), np.flatnonzero(MEMBER), seed=seed), place / name)
    return place


def campaign(folders: Path, texts: list[str] = TEXTS, member: np.ndarray | None = MEMBER) -> Campaign:
    target = language.SavedLanguage(folders / "m", folders / "r")
    units = np.array([f"u{i // 4}" for i in range(len(texts))])
    return Campaign(target, Records(texts, None, member, {"unit": units}, "texts"), "zero-run")


@pytest.mark.long
def test_the_file_holds_what_the_models_say(folders: Path, tmp_path: Path) -> None:
    assert collect_tokens(campaign(folders), tmp_path / "t.jsonl") == ()
    found = tokens.read_jsonl(tmp_path / "t.jsonl")
    own = text.token_log_probabilities(text.load(folders / "m"), TEXTS)
    other = text.token_log_probabilities(text.load(folders / "r"), TEXTS)
    np.testing.assert_allclose(found.log_p, own.log_p, atol=1e-5)
    np.testing.assert_array_equal(found.offsets, own.offsets)
    np.testing.assert_allclose(found.reference_log_p, other.log_p, atol=1e-5)
    np.testing.assert_array_equal(found.top1, own.top1)
    np.testing.assert_array_equal(found.tokens, own.tokens)
    assert found.member.tolist() == MEMBER.tolist() and found.text == tuple(TEXTS)
    assert found.unit is not None and found.unit[5] == "u1" and found.ids[3] == "3"
    assert found.same_tokens is not None and found.same_tokens.all()
    scores = tokens.scores_of(found, ["min_k_plus_plus", "error_zone", "window_votes"])
    assert all(np.isfinite(values).all() for values in scores.values())
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
    with pytest.raises(InputError, match="add --overwrite"):
        collect_tokens(campaign(folders), tmp_path / "t.jsonl")


def test_of_canaries_beside_other_texts_the_canaries_alone_are_asked_about(folders: Path, tmp_path: Path) -> None:
    whole = campaign(folders)
    records = replace(whole.records, canary=np.arange(24) % 2 == 0, times=np.arange(24) + 1)
    collect_tokens(replace(whole, records=records, design="one-run"), tmp_path / "t.jsonl")
    found = tokens.read_jsonl(tmp_path / "t.jsonl")
    assert found.ids == tuple(str(i) for i in range(0, 24, 2))
    assert found.text == tuple(TEXTS[::2])
    assert found.times is not None
    assert found.times.tolist() == [i + 1 if i < 12 else 0 for i in range(0, 24, 2)]


@pytest.mark.long
def test_controls_among_the_members_are_said(folders: Path, tmp_path: Path) -> None:
    long = "a letter that goes to all of you who have an account with us, and which says a lot"
    texts = [*TEXTS[:12], long, long.upper(), *TEXTS[14:]]
    (said,) = collect_tokens(campaign(folders, texts, np.arange(24) < 13), tmp_path / "t.jsonl")
    assert said.startswith("1 of 11 controls have an equal or nearly equal text among the members")
    audited = from_tokens(tmp_path / "t.jsonl", design="one-run")
    assert any(note.startswith("1 of 11 controls") for note in audited.notes)
    assert not any("controls have" in note for note in from_tokens(tmp_path / "t.jsonl", design="zero-run").notes)


@pytest.mark.long
def test_a_killed_run_goes_on_and_a_changed_one_starts_again(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect_tokens(campaign(folders), tmp_path / "whole.jsonl")
    asked: list[int] = []
    real = language.SavedLanguage.tokens

    def counted(self: language.SavedLanguage, x: list[str]) -> object:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(len(x))
        return real(self, x)

    monkeypatch.setattr(asked_tokens, "_AT_ONCE", 5)
    monkeypatch.setattr(language.SavedLanguage, "tokens", counted)
    with pytest.raises(KeyboardInterrupt):
        collect_tokens(campaign(folders), tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists() and asked == [5, 5]
    part = tmp_path / ".t.jsonl.part"
    with part.open("ab") as handle:  # the kill came while a line was written
        handle.write(b'[7, false, 1, "{')
    asked.clear()
    monkeypatch.setattr(
        language.SavedLanguage,
        "tokens",
        lambda self, x: (asked.append(len(x)), real(self, x))[1],  # type: ignore[func-returns-value]
    )
    collect_tokens(campaign(folders), tmp_path / "t.jsonl")
    assert asked == [5, 5, 4] and not part.exists()
    ours, whole = (tokens.read_jsonl(tmp_path / name) for name in ("t.jsonl", "whole.jsonl"))
    np.testing.assert_allclose(ours.log_p, whole.log_p, atol=2e-5)
    part.write_text(json.dumps({"of": "another"}) + '\n[0, false, 1, "{}"]\n')
    asked.clear()
    collect_tokens(campaign(folders), tmp_path / "t.jsonl", overwrite=True)
    assert sum(asked) == 24


@pytest.mark.long
def test_columns_hold_what_lines_do_and_go_on_after_a_kill(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect_tokens(campaign(folders), tmp_path / "t.jsonl")
    monkeypatch.setattr(asked_tokens, "_AT_ONCE", 10)
    real, asked = language.SavedLanguage.tokens, list[int]()

    def killed(self: language.SavedLanguage, x: list[str]) -> object:
        asked.append(len(x))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(self, x)

    monkeypatch.setattr(language.SavedLanguage, "tokens", killed)
    with pytest.raises(KeyboardInterrupt):
        collect_tokens(campaign(folders), tmp_path / "t.parquet")
    collect_tokens(campaign(folders), tmp_path / "t.parquet")
    assert asked == [10, 10, 10, 4] and {path.name for path in tmp_path.iterdir()} == {"t.jsonl", "t.parquet"}
    by_line, by_row = (tokens.read(tmp_path / f"t.{ending}") for ending in ("jsonl", "parquet"))
    np.testing.assert_allclose(by_line.log_p, by_row.log_p, atol=2e-5)  # other texts were asked together
    assert by_line.text == by_row.text and by_line.ids == by_row.ids and by_row.top1 is not None
    with pytest.raises(InputError, match="add --overwrite"):
        collect_tokens(campaign(folders), tmp_path / "t.parquet")


@pytest.mark.long
def test_a_reference_with_another_tokenizer_is_told_by_the_tokens_numbers(folders: Path, tmp_path: Path) -> None:
    """Letters for letters: as many tokens of the same text, with other numbers."""
    loaded = text.load(folders / "r")
    swapped = json.loads(loaded.tokenizer.backend_tokenizer.to_str())
    words = swapped["model"]["vocab"]
    words["c"], words["d"] = words["d"], words["c"]
    text.save(loaded, tmp_path / "other")
    (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(swapped))
    target = language.SavedLanguage(folders / "m", tmp_path / "other")
    collect_tokens(replace(campaign(folders), target=target), tmp_path / "t.jsonl")
    found = tokens.read_jsonl(tmp_path / "t.jsonl")
    np.testing.assert_array_equal(found.offsets, found.reference_offsets)  # by lengths alone nobody would see it
    apart = ["c" in one or "d" in one for one in TEXTS]
    assert found.same_tokens is not None and found.same_tokens.tolist() == [not one for one in apart]
    assert "reference_ratio" in tokens.scores_of(found)
    for name in ("error_zone", "window_votes"):
        with pytest.raises(InputError, match=f"for {name}, received {sum(apart)} of 24 texts that the reference"):
            tokens.scores_of(found, ["loss", name])


def test_texts_longer_than_the_context_are_said_and_on_the_page(folders: Path, tmp_path: Path) -> None:
    """The control: of the same texts without the long one nothing is said."""
    longer = campaign(folders, [*TEXTS[:-1], "went " * 400])
    context = longer.target.context
    for ending in ("jsonl", "parquet"):
        (note,) = collect_tokens(longer, tmp_path / f"t.{ending}")
        assert note.startswith(f"1 of 24 texts are longer than the model's context of {context} tokens.")
        found = tokens.read(tmp_path / f"t.{ending}")
        assert np.diff(found.offsets)[-1] > 2 * context
        assert found.windows[:-1].max() == 1 and found.windows[-1] > 3
    audited = from_tokens(tmp_path / "t.jsonl", design="one-run")
    ma.audit(audited.evidence, notes=audited.notes, rng=0).to_html(tmp_path / "page.html")
    expected = (
        "1 of 24 texts are longer than the model's context. They were scored in overlapping windows, each token once."
    )
    assert expected in audited.notes
    assert expected.partition("context. ")[2] in (tmp_path / "page.html").read_text()
    collect_tokens(campaign(folders), tmp_path / "s.jsonl")
    assert not any("windows" in one for one in from_tokens(tmp_path / "s.jsonl", design="one-run").notes)
    cut = replace(longer, target=language.SavedLanguage(folders / "m", longest=9))
    notes = collect_tokens(cut, tmp_path / "c.jsonl")
    assert "of 24 texts are longer than 9 tokens: only their beginning was asked." in notes[0]


def test_what_cannot_be_asked_is_refused(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.member: expected a column that says which texts were trained on"):
        collect_tokens(campaign(folders, member=None), tmp_path / "t.jsonl")
    with pytest.raises(InputError, match="--out"):
        collect_tokens(campaign(folders), tmp_path / "t.json")
    small = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=1), vocabulary=257)
    with pytest.raises(InputError, match=r"tokens of a language model in a folder, received small GPT-2"):
        collect_tokens(Campaign(small, Records(TEXTS, None, MEMBER, {}, "texts")), tmp_path / "t.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_how_often_texts_were_trained_on_is_in_the_file(folders: Path, tmp_path: Path) -> None:
    times = np.where(MEMBER, 1 + np.arange(24) % 3, 0)
    asked = campaign(folders)
    collect_tokens(replace(asked, records=replace(asked.records, times=times)), tmp_path / "t.jsonl")
    found = tokens.read_jsonl(tmp_path / "t.jsonl").times
    assert found is not None and found.tolist() == times.tolist()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.where(MEMBER, 1.5, 0), "received 1.5 in row 1"),
        (np.where(MEMBER, 0, 1), "received 0 in row 1"),
        (np.where(MEMBER, -1, 0), "data.times: expected a whole number from 1 for each of 24 records"),
        (np.where(MEMBER, np.nan, 0), "data.times: expected a whole number from 1"),
    ],
)
def test_bad_numbers_of_times(times: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Records(TEXTS, None, MEMBER, {}, "texts", times=times)
