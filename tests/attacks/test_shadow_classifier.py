"""The shadow classifier on simulated outputs and on published ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from miaudit import Evidence
from miaudit.attacks import shadow_classifier, signals
from miaudit.attacks.shadow_classifier import ShadowClassifier
from miaudit.errors import InputError
from miaudit.metrics.classical import Sample
from worlds.shadow import auc

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"


def outputs(n: int, rng: np.random.Generator, gain: float = 1.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels and membership; the difficulty differs between the four classes."""
    labels, member = rng.integers(0, 4, n), rng.random(n) < 0.5
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), labels] += 2.0 * labels + gain * member
    return logits, labels, member


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")
@pytest.mark.parametrize("defended", [False, True])
def test_published_outputs_of_one_shadow_model_are_enough(defended: bool) -> None:
    """Song and Mittal 2021: AUC of the loss 0.870 without a defence, 0.690 with MemGuard."""
    with np.load(DATA, allow_pickle=False) as z:
        of = {
            side: np.log(np.maximum(z[f"{side}_prob_memguard"].astype(float), 1e-45))
            if defended
            else z[f"{side}_logits"]
            for side in ("target", "shadow")
        }
        labels, shadow_labels = z["target_label"], z["shadow_label"]
        member, shadow_member = z["target_member"].astype(bool), z["shadow_member"].astype(bool)
    score = shadow_classifier.score(of["target"], labels, of["shadow"], shadow_labels, shadow_member)
    found = Sample.of(Evidence(score=score, member=member)).auc(0.95)
    print(f"\nlocation30, defended {defended}: AUC {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    assert found.low > (0.6 if defended else 0.82)
    placebo = np.random.default_rng(0).permutation(shadow_member)
    void = shadow_classifier.score(of["target"], labels, of["shadow"], shadow_labels, placebo)
    assert auc(void, member) < found.low  # control: membership of the shadow records is what it learns from


def test_it_comes_near_the_best_signal_and_passes_a_single_one() -> None:
    rng = np.random.default_rng(1)
    z, y, member = outputs(4000, rng)
    zs, ys, shadow_member = outputs(4000, rng)
    found = auc(shadow_classifier.score(z, y, zs, ys, shadow_member), member)
    every = signals.member_scores(labels=y, logits=z, names=signals.SIGNALS)
    assert found > max(auc(s, member) for s in every.values()) - 0.01
    own = auc(shadow_classifier.score(z, y, zs, ys, shadow_member, classes="per-class"), member)
    # Classes differ in difficulty, so a classifier of each gains what no pooled threshold can.
    assert own > auc(every["loss"], member) + 0.02
    assert auc(shadow_classifier.score(z, y, zs, ys, rng.permutation(shadow_member)), member) < found - 0.1


def test_classes_with_few_records_use_the_pooled_classifier() -> None:
    rng = np.random.default_rng(2)
    z, y, member = outputs(800, rng)
    rare = (y != 3) | (np.cumsum(y == 3) <= 30)
    fitted = ShadowClassifier.fit(z[rare], y[rare], member[rare], classes="per-class")
    assert fitted.without_own == (3,)
    assert set(fitted.of_class) == {0, 1, 2}
    pooled = ShadowClassifier.fit(z[rare], y[rare], member[rare])
    assert pooled.without_own == ()
    rows = y == 3
    np.testing.assert_array_equal(fitted.score(z[rows], y[rows]), pooled.score(z[rows], y[rows]))
    assert (fitted.score(z[~rows], y[~rows]) != pooled.score(z[~rows], y[~rows])).any()


def test_features_do_not_see_a_common_shift_and_stay_finite_where_probabilities_round() -> None:
    rng = np.random.default_rng(3)
    z, y, _ = outputs(50, rng)
    np.testing.assert_allclose(shadow_classifier.features(z + 5, y), shadow_classifier.features(z, y), atol=1e-9)
    extreme = shadow_classifier.features([[900.0, 0.0], [901.0, 0.0]], [0, 0])
    assert np.isfinite(extreme).all()
    assert (extreme[0] != extreme[1]).any()


def test_a_signal_that_is_added_changes_no_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y, _ = outputs(50, np.random.default_rng(3))
    before = shadow_classifier.features(z, y)
    monkeypatch.setitem(signals.BUILT_IN, "another", signals.BUILT_IN["loss"])
    assert signals.member_scores(labels=y, logits=z, names=["another"])  # the control: it is one
    np.testing.assert_array_equal(shadow_classifier.features(z, y), before)


def test_any_classifier_can_be_passed_and_is_not_changed() -> None:
    rng = np.random.default_rng(4)
    z, y, member = outputs(600, rng)
    for model in (LogisticRegression(C=0.1), RandomForestClassifier(20, random_state=0)):
        score = shadow_classifier.score(z[:300], y[:300], z[300:], y[300:], member[300:], classifier=model)
        assert np.isfinite(score).all()
        assert not hasattr(model, "classes_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shadow_member": np.ones(300, dtype=bool)}, "one class only"),
        ({"shadow_member": np.ones(300)}, "True or False"),
        ({"shadow_member": np.ones(299, dtype=bool)}, r"\(300,\)"),
        ({"outputs": np.zeros((300, 3)), "labels": np.zeros(300, dtype=int)}, "4 columns"),
        ({"outputs": np.full((300, 4), np.nan)}, "first in row 0"),
        ({"labels": np.full(300, 7)}, "classes 0 to 3"),
        ({"classes": "per_class"}, "did you mean per-class"),
    ],
)
def test_bad_input_is_refused(change: dict, message: str) -> None:
    z, y, member = outputs(300, np.random.default_rng(5))
    given = {"outputs": z, "labels": y, "shadow_outputs": z, "shadow_labels": y, "shadow_member": member, **change}
    with pytest.raises(InputError, match=message):
        shadow_classifier.score(**given)
