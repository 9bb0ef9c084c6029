"""The published outputs of MemGuard on Location-30: what an attack that adapts still finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from miaudit.attacks import shadow_classifier
from miaudit.defences.differences import PairedFamily
from miaudit.defences.noise import AdversarialNoise

LOCATION30 = Path(__file__).parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not LOCATION30.is_file(), reason=f"needs {LOCATION30}"),
]


@pytest.fixture(scope="module")
def z() -> dict[str, np.ndarray]:
    with np.load(LOCATION30, allow_pickle=False) as found:
        return {name: found[name] for name in found.files if not name.endswith("row")}


def logs(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p.astype(np.float64), 1e-30))


def test_an_attack_that_went_through_the_same_defence_finds_more(z: dict[str, np.ndarray]) -> None:
    member = z["target_member"].astype(bool)
    shadow = z["shadow_label"].astype(int), z["shadow_member"].astype(bool)
    defended, labels = logs(z["target_prob_memguard"]), z["target_label"].astype(int)
    scores = [
        shadow_classifier.score(z["target_logits"], labels, z["shadow_logits"], *shadow),
        shadow_classifier.score(defended, labels, z["shadow_logits"], *shadow),
        shadow_classifier.score(defended, labels, logs(z["shadow_prob_memguard"]), *shadow),
    ]
    family = PairedFamily.aucs(np.stack(scores), member)
    assert family.values == pytest.approx([0.854, 0.666, 0.770], abs=0.005)
    found = {(d.first, d.second): d for d in family.pairs([0, 1, 2], 0.95, rng=np.random.default_rng(0))}
    assert found[0, 1].low > 0.1  # against an attack of yesterday it helps much
    assert found[1, 2].high < -0.05  # an attack that adapts takes half of that back
    assert found[0, 2].low > 0.03  # and some of it stays


def test_our_noise_changes_less_and_hides_less_and_keeps_the_label_as_the_published_one_does(
    z: dict[str, np.ndarray],
) -> None:
    rng = np.random.default_rng(0)
    member, labels = z["target_member"].astype(bool), z["target_label"].astype(int)
    p = special.softmax(z["target_logits"].astype(np.float64), axis=1)
    published = z["target_prob_memguard"].astype(np.float64)
    outside = np.flatnonzero(~member)[::2]
    fitted = AdversarialNoise().fit(p[outside], labels[outside], learnt=p[member], rng=rng)
    ours = fitted.apply(p, rng=rng).values
    for changed in (ours, published):
        assert (changed.argmax(axis=1) == p.argmax(axis=1)).all()
    distortion = [np.abs(changed - p).sum(axis=1).mean() for changed in (ours, published)]
    assert distortion == pytest.approx([0.10, 0.33], abs=0.01)
    own = [logs(changed)[np.arange(2000), labels] for changed in (p, ours, published)]
    values = PairedFamily.aucs(np.stack(own), member).values
    assert values == pytest.approx([0.870, 0.825, 0.690], abs=0.005)
