"""MemGuard with its published constants, beside the defended outputs that others published (Song and Mittal 2021)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from miaudit.defences.memguard import MemGuard
from miaudit.defences.noise import AdversarialNoise

LOCATION30 = Path(__file__).parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif(not LOCATION30.is_file(), reason=f"needs {LOCATION30}"),
]


def test_the_noise_is_the_published_one() -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    with np.load(LOCATION30, allow_pickle=False) as z:
        p = special.softmax(z["target_logits"].astype(np.float64), axis=1)
        published, member = z["target_prob_memguard"].astype(np.float64), z["target_member"].astype(bool)
        labels = z["target_label"].astype(np.intp)
    outside = np.flatnonzero(~member)[::2]  # the records that taught theirs are not published
    rng = np.random.default_rng(0)
    some = rng.permutation(len(p))[:500]
    found = {}
    for measure in (MemGuard(), AdversarialNoise()):
        fitted = measure.fit(p[outside], labels[outside], learnt=p[member], rng=rng)
        found[type(measure).__name__] = fitted.apply(p[some], rng=rng).values
    ours = found["MemGuard"]
    distortion = [np.abs(shown - p[some]).sum(axis=1).mean() for shown in (ours, published[some])]
    assert distortion[0] == pytest.approx(distortion[1], abs=0.03)
    away = {name: np.abs(shown - published[some]).sum(axis=1).mean() for name, shown in found.items()}
    assert away["MemGuard"] < 0.06
    assert away["AdversarialNoise"] > 0.15  # the control: another defence is far from it
