"""Language models as targets: their columns are the attacks on their tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

from miaudit.attacks import tokens
from miaudit.collect import run_campaign
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.jobs.resumable import digest
from miaudit.models import devices, language, text

TEXTS = [f"{word} number {i} went {i * 7 % 10} steps" for i in range(12) for word in ("cat", "dog")]
SMALL = language.SmallLanguage(text.SmallGPT2(layers=1, width=8, heads=1, epochs=1), vocabulary=257)


@pytest.mark.long
def test_columns_are_the_scores_of_the_tokens() -> None:
    model = SMALL.fit(TEXTS, np.zeros(24), np.arange(6), seed=0)
    found = SMALL.outputs(model, TEXTS)
    raw = text.token_log_probabilities(model, TEXTS)
    expected = tokens.member_scores(log_p=raw.log_p, offsets=raw.offsets, mean=raw.mean, std=raw.std, text=TEXTS)
    for i, name in enumerate(SMALL.columns):
        np.testing.assert_allclose(found[:, i], expected[name], rtol=1e-6)


@pytest.mark.long
def test_equal_seeds_give_equal_models_and_others_do_not() -> None:
    outputs = [SMALL.outputs(SMALL.fit(TEXTS, np.zeros(24), np.arange(6), seed=s), TEXTS) for s in (0, 0, 1)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


@pytest.mark.long
def test_shadow_models_and_lira_work_on_texts() -> None:
    data = Records(TEXTS, None, None, {}, "texts")
    made = Campaign(SMALL, data, attacks=("lira_online", "rmia_online", "token_loss"), shadows=Shadows(models=4))
    found = run_campaign.collect(made, rng=np.random.default_rng(0))
    assert list(found.evidence.scores) == ["lira_online", "rmia_online", "loss"]
    assert found.evidence.design == "one-run"
    assert any("special token" in note for note in found.notes)
    cost = run_campaign.cost(made, rng=np.random.default_rng(0))
    assert cost is not None
    assert cost.fits == 5


def test_a_folder_stands_as_it_is_beside_a_reference(tmp_path: Path) -> None:
    model = SMALL.fit(TEXTS, np.zeros(24), np.arange(6), seed=0)
    text.save(model, tmp_path / "m")
    text.save(SMALL.fit(TEXTS, np.zeros(24), np.arange(6), seed=1), tmp_path / "r")
    saved = language.SavedLanguage(tmp_path / "m", tmp_path / "r")
    assert saved.notes == devices.said("auto")
    scores, notes = saved.explained(TEXTS)
    np.testing.assert_allclose(scores[:, :3], SMALL.outputs(model, TEXTS), rtol=1e-4)
    assert saved.columns[-1] == "reference_ratio"
    assert (scores[:, -1] < 0).all()
    assert any("Special tokens" in note for note in notes)
    data = Records(TEXTS, None, np.arange(24) < 6, {"text": np.array(TEXTS)}, "texts")
    evidence = run_campaign.collect(Campaign(saved, data, "zero-run"), rng=np.random.default_rng(0)).evidence
    assert list(evidence.scores) == list(saved.columns)
    assert evidence.text is not None  # what the texts say is a covariate where nobody drew memberships
    with pytest.raises(InputError, match="stands as it is"):
        run_campaign.collect(Campaign(saved, data, shadows=Shadows(models=4)), rng=np.random.default_rng(0))


@pytest.mark.long
def test_how_a_folder_is_asked_changes_no_score_but_by_what_is_read(tmp_path: Path) -> None:
    text.save(SMALL.fit(TEXTS, np.zeros(24), np.arange(6), seed=0), tmp_path / "m")
    usual = language.SavedLanguage(tmp_path / "m")
    small = language.SavedLanguage(tmp_path / "m", batch=2, precision="saved", device="cpu")
    np.testing.assert_allclose(small.outputs(None, TEXTS), usual.outputs(None, TEXTS), rtol=1e-4)
    shorter = language.SavedLanguage(tmp_path / "m", longest=5)
    assert np.abs(shorter.outputs(None, TEXTS) - usual.outputs(None, TEXTS)).max() > 0.01
    identities = {one.identity() for one in (usual, shorter, small)}
    assert len(identities) == 3 and language.SavedLanguage(tmp_path / "m", batch=3).identity() == usual.identity()


def test_another_vocabulary_is_another_target() -> None:
    other = language.SmallLanguage(SMALL.config, vocabulary=300)
    assert digest(other.identity()) != digest(SMALL.identity())
