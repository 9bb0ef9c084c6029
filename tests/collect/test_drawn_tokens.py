"""Fine-tuned language models in the folders of a draw: asked here they give the evidence that local fits give, and the
tokens of the audited one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch

from miaudit.attacks import lira, tokens
from miaudit.collect import drawn
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.drawn_tokens import gather_tokens
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError, MiauditError
from miaudit.io.sealed_coins import Answer, Secret
from miaudit.models import text
from miaudit.models.command import CommandTarget
from miaudit.models.devices import fixed_order
from miaudit.models.fine_tuned import FineTuned
from miaudit.models.language import SavedLanguage

N = 32
TEXTS = np.array([f"{i * 7919 % 9973} cats and {i * 104729 % 9967} dogs met" for i in range(N)])
CONFIG = text.SmallGPT2(layers=1, width=16, heads=2, epochs=12, batch=8, context=32, learning_rate=1e-2)
TOKENIZER = text.byte_pair_tokenizer(TEXTS.tolist(), vocabulary=300)
Made = Callable[..., Campaign]


def fit(out: Path, rows: np.ndarray, seed: int, tokenizer=TOKENIZER) -> None:
    """What a script of a user does, in this process and, as a command would, in one thread."""
    with fixed_order(torch.device("cpu")):
        model = text.train(tokenizer, TEXTS[rows].tolist(), CONFIG, rng=np.random.default_rng(seed))
    text.save(model, out / "model")


class Here(CommandTarget):
    """A command that fits in this process, and is read as every other."""

    def fit(self, x, y, rows, *, seed):
        out = self.folder / f"out-{seed}"
        if not out.is_dir():
            out.mkdir()
            fit(out, self.row_numbers(x, rows), seed % 2**31)
        return self.read(out, y)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    (tmp_path / "train.py").touch()
    (tmp_path / "a.yaml").touch()
    (tmp_path / "data.jsonl").touch()

    def of(kind=CommandTarget, *, asked=None, models=0, fields=None, canary=None, ids=None, **options) -> Campaign:
        command = f"{sys.executable} train.py {{rows}} {{seed}} {{out}}"
        target = kind(command, "language-model", tmp_path, asked=asked).on(ids, "data.jsonl", TEXTS)
        records = Records(TEXTS.tolist(), None, None, fields or {}, "data", ids=ids, canary=canary)
        return Campaign(target, records, shadows=Shadows(models=models, vulnerability=False), **options)

    return of


def fitted(campaign: Campaign, place: Path, seed: int = 1) -> drawn.Manifest:
    """Draw, and fit every line."""
    drawn.draw(campaign, place, config=place.parent / "a.yaml", rng=np.random.default_rng(seed))
    for one in json.loads((place / "manifest.json").read_text(encoding="utf-8"))["fits"]:
        folder = place / one["folder"]
        fit(folder / "out", np.load(folder / "rows.npy"), one["seed"])
    return drawn.read(place)


def outs(place: Path) -> list[Path]:
    return [folder / "out" for folder in sorted((place / "fits").iterdir())]


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.thorough
def test_models_of_files_give_what_local_fits_give_and_lira_is_that_of_their_losses(made: Made, tmp_path: Path) -> None:
    attacks = ("lira_online", "lira_offline", "rmia_online", "loss", "min_k_plus_plus")
    options = {"models": 8, "attacks": attacks}
    manifest = fitted(made(**options), tmp_path / "d")
    gathered = drawn.gather(made(**options), manifest, rng=rng())
    local = collect(made(Here, **options), rng=rng())
    assert tuple(gathered.evidence.scores) == attacks
    for name, score in local.evidence.scores.items():
        np.testing.assert_array_equal(gathered.evidence.scores[name], score)
    assert gathered.notes == local.notes
    assert any("asked here for the log-probabilities" in note for note in gathered.notes)

    losses = np.stack(
        [SavedLanguage(out / "model").outputs(None, TEXTS.tolist())[:, 0] for out in outs(tmp_path / "d")]
    )
    included = np.stack([np.isin(np.arange(N), np.load(out.parent / "rows.npy")) for out in outs(tmp_path / "d")])
    rows = drawn.Drawn.of(made(**options), rng()).draws.rows
    member = gathered.evidence.member
    np.testing.assert_array_equal(included[0, rows], member)
    twin = lira.online(losses[0, rows], losses[1:, rows].T, included[1:, rows].T)
    np.testing.assert_allclose(gathered.evidence.scores["lira_online"], twin, rtol=1e-4)
    loss = gathered.evidence.scores["loss"]
    assert auc(loss, member) > 0.9
    assert auc(gathered.evidence.scores["lira_online"], member) > 0.9
    others = np.random.default_rng(5).permutation(member)  # coins of somebody else: the control shows nothing
    assert abs(auc(loss, others) - 0.5) < 0.35


def auc(score: np.ndarray, member: np.ndarray) -> float:
    return float((score[member][:, None] > score[~member][None]).mean())


@pytest.mark.long
def test_answers_are_kept_beside_the_fits_and_asked_again_for_another_model(
    made: Made, tmp_path: Path, monkeypatch
) -> None:
    manifest = fitted(made(), tmp_path / "d")
    first = drawn.gather(made(), manifest, rng=rng())
    (out,) = outs(tmp_path / "d")
    assert (out.parent / "answers.npz").is_file()

    def refuse(*_arguments, **_options):
        raise AssertionError("asked again")

    with monkeypatch.context() as patched:
        patched.setattr(SavedLanguage, "tokens", refuse)
        again = drawn.gather(made(), manifest, rng=rng())
        np.testing.assert_array_equal(again.evidence.scores["loss"], first.evidence.scores["loss"])
        (out.parent / "answers.npz").write_bytes(b"PK torn")
        with pytest.raises(AssertionError, match="asked again"):
            drawn.gather(made(), manifest, rng=rng())
    fit(out, np.arange(N), 7)
    other = drawn.gather(made(), manifest, rng=rng())
    assert np.abs(other.evidence.scores["loss"] - first.evidence.scores["loss"]).max() > 0.01
    shorter = drawn.gather(made(asked=FineTuned(longest=6)), drawn_again(made, tmp_path), rng=rng())
    assert np.abs(shorter.evidence.scores["loss"] - other.evidence.scores["loss"]).max() > 0.01


def drawn_again(made: Made, tmp_path: Path) -> drawn.Manifest:
    """Another way of asking is another campaign, whose models have to be drawn."""
    with pytest.raises(InputError, match="another draw, with another target"):
        drawn.gather(made(asked=FineTuned(longest=6)), drawn.read(tmp_path / "d"), rng=rng())
    return fitted(made(asked=FineTuned(longest=6)), tmp_path / "e")


@pytest.mark.long
def test_tokens_of_each_run_with_who_is_a_member(made: Made, tmp_path: Path) -> None:
    secret = Secret.new(coins=N // 2, runs=2)
    coins = secret.coins(Answer.to(secret.commitment))
    ids = np.array([f"note-{i}" for i in range(N)])
    options = {"runs": 2, "coins": coins, "canary": np.arange(N) % 2 == 1, "ids": ids}
    manifest = fitted(made(**options), tmp_path / "d")
    evidence = drawn.gather(made(**options), manifest, rng=rng()).evidence
    for run in (1, 2):
        path = tmp_path / f"tokens{run}.jsonl"
        found = gather_tokens(made(**options), manifest, path, rng=rng(), run=run)
        read = tokens.read_jsonl(path)
        member = coins.members(run, records=N // 2)
        np.testing.assert_array_equal(read.member, member)
        assert (found.texts, found.members) == (N // 2, member.sum())
        assert list(read.ids) == ids[1::2].tolist()
        assert "16 other texts have no coin" in found.notes[0]
        scores = tokens.member_scores(log_p=read.log_p, offsets=read.offsets)
        np.testing.assert_allclose(
            scores["loss"], evidence.scores["loss"][np.asarray(evidence.run).astype(int) == run], atol=1e-4
        )
    with pytest.raises(InputError, match="--run: expected 1 to 2"):
        gather_tokens(made(**options), manifest, tmp_path / "t.jsonl", rng=rng(), run=3)


@pytest.mark.long
def test_the_documents_of_a_user_share_a_coin(made: Made, tmp_path: Path) -> None:
    unit = np.arange(N) // 4
    manifest = fitted(made(fields={"unit": unit}), tmp_path / "d")
    evidence = drawn.gather(made(fields={"unit": unit}), manifest, rng=rng()).evidence
    assert evidence.n_units == N // 4
    rows = np.load(outs(tmp_path / "d")[0].parent / "rows.npy")
    assert all(
        np.isin(np.flatnonzero(unit == one), rows).all() == np.isin(np.flatnonzero(unit == one), rows).any()
        for one in range(8)
    )
    gather_tokens(made(fields={"unit": unit}), manifest, tmp_path / "t.jsonl", rng=rng())
    assert json.loads((tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()[5])["unit"] == "1"


@pytest.mark.long
def test_a_reference_adds_its_ratio(made: Made, tmp_path: Path) -> None:
    fit(tmp_path / "before", np.arange(4), 9)
    asked = FineTuned(reference=tmp_path / "before" / "model")
    manifest = fitted(made(asked=asked), tmp_path / "d")
    scores = drawn.gather(made(asked=asked), manifest, rng=rng()).evidence.scores
    (out,) = outs(tmp_path / "d")
    both = SavedLanguage(out / "model", tmp_path / "before" / "model").outputs(None, TEXTS.tolist())
    np.testing.assert_allclose(scores["reference_ratio"], both[:, -1], rtol=1e-5)
    fit(tmp_path / "before", np.arange(5), 9)  # another reference
    with pytest.raises(InputError, match=r"stale ones: .*model.safetensors changed since the draw"):
        drawn.gather(made(asked=asked), manifest, rng=rng())


def broken(made: Made, place: Path) -> tuple[drawn.Manifest, Path]:
    manifest = fitted(made(), place)
    return manifest, outs(place)[0]


@pytest.mark.long
def test_fits_that_are_no_models_are_named(made: Made, tmp_path: Path) -> None:
    manifest, out = broken(made, tmp_path / "d")

    def said() -> str:
        with pytest.raises(MiauditError) as raised:
            drawn.gather(made(), manifest, rng=rng())
        return str(raised.value)

    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / "model" / name).rename(out / f"{name}.away")
    assert "the tokenizer beside the model, received none; write tokenizer.save_pretrained there" in said()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / f"{name}.away").rename(out / "model" / name)
    (out / "model" / "model.safetensors").rename(out / "model" / "pytorch_model.bin")
    assert "pytorch_model.bin, which may hold pickled code" in said()
    (out / "model" / "config.json").unlink()
    assert "neither config.json nor adapter_config.json" in said()
    (out / "model").rename(out / "trained")
    (out.parent / "log.txt").write_text("$ x\nsaved\n", encoding="utf-8")
    assert "it began, and there is no model in its folder out: saved" in said()
    assert "1 of 1 fits is missing: model 0" in said()
    with pytest.raises(MiauditError, match="the audited model of run 1 is missing"):
        gather_tokens(made(), manifest, tmp_path / "t.jsonl", rng=rng())
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.long
def test_shadow_models_may_be_missing_and_the_audited_one_may_not(made: Made, tmp_path: Path) -> None:
    options = {"models": 6, "attacks": ("lira_offline",)}
    manifest = fitted(made(**options), tmp_path / "d")
    gone = outs(tmp_path / "d")[2] / "model"
    gone.rename(gone.with_name("away"))
    with pytest.raises(MiauditError, match=r"1 of 7 fits is missing: model 2; run line 3"):
        drawn.gather(made(**options), manifest, rng=rng())
    found = drawn.gather(made(**options), manifest, rng=rng(), partial=True)
    assert "A partial gather: 1 of 7 fits is missing: model 2" in found.notes[0]
    assert any(note.startswith("5 shadow models") for note in found.notes)
    gone.with_name("away").rename(gone)
    first = outs(tmp_path / "d")[0] / "model"
    first.rename(first.with_name("away"))
    with pytest.raises(MiauditError, match="not model 0, the audited one"):
        drawn.gather(made(**options), manifest, rng=rng(), partial=True)


@pytest.mark.long
def test_a_tokenizer_that_was_trained_on_the_rows_is_refused(made: Made, tmp_path: Path) -> None:
    campaign = made(models=4)
    drawn.draw(campaign, tmp_path / "d", config=tmp_path / "a.yaml", rng=rng())
    for out in outs(tmp_path / "d"):
        rows = np.load(out.parent / "rows.npy")
        fit(out, rows, 1, text.byte_pair_tokenizer(TEXTS[rows].tolist(), vocabulary=300))
    with pytest.raises(MiauditError, match=r"4 of 5 fits are unusable.*the tokenizer and vocabulary of the other fits"):
        drawn.gather(campaign, drawn.read(tmp_path / "d"), rng=rng())


def test_texts_are_needed_and_each_says_something(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "d.jsonl").touch()
    target = CommandTarget(f"{sys.executable} train.py {{rows}} {{out}}", "language-model", tmp_path)
    assert (target.kind, target.columns) == ("signals", ("loss", "min_k", "min_k_plus_plus"))
    with pytest.raises(InputError, match=r"data\.text: expected a column of texts"):
        target.on(None, "d.jsonl")
    with pytest.raises(InputError, match="none in row 1"):
        target.on(None, "d.jsonl", np.array(["a b", " "]))
    other = replace(target, asked=FineTuned(longest=5))
    assert other.identity() != target.identity()


@pytest.mark.long
def test_a_text_without_a_token_to_score_is_named(made: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    fit(out, np.arange(4), 1, TOKENIZER)
    asked = FineTuned(texts=[*TEXTS[:2], "<|start|>"])
    with pytest.raises(InputError, match="none in text 2"):
        asked.said(out)
