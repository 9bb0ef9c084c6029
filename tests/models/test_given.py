"""Shadow outputs from elsewhere: the same evidence as from models trained here, and what cannot be used refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from miaudit.attacks import lira, rmia, shadow_classifier, signals
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError
from miaudit.metrics.roc import Roc
from miaudit.models import shadow
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed, SklearnTarget

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"
N, M = 150, 8
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(N, 5)), RNG.integers(0, 2, N)
INCLUDED = shadow.inclusion(N, M, rng=np.random.default_rng(1))
TREE = SklearnTarget(DecisionTreeClassifier(max_depth=4))
OUTPUTS = np.stack([TREE.outputs(TREE.fit(X, Y, np.flatnonzero(row), seed=0), X) for row in INCLUDED])
MEMBER = np.random.default_rng(2).random(N) < 0.5
TARGET = TREE.outputs(TREE.fit(X, Y, np.flatnonzero(MEMBER), seed=1), X)


def saved(folder: Path, **changes: Any) -> Path:
    arrays = {"outputs": OUTPUTS, "included": INCLUDED, "labels": Y, **changes}
    np.savez(folder / "shadows.npz", **{name: values for name, values in arrays.items() if values is not None})
    return folder / "shadows.npz"


def audited(given: GivenShadows, *attacks: str, **more: Any) -> Campaign:
    """A model that stands: its outputs, known members, and shadow models from the file."""
    records = Records(np.arange(N), Y, MEMBER, {}, "rows")
    return Campaign(Precomputed(TARGET), records, attacks=attacks, shadows=Shadows(given=given, **more))


def score(made: Campaign, name: str) -> Any:
    return collect(made, rng=np.random.default_rng(0)).evidence.scores[name]


def statistic(logits: Any) -> Any:
    return signals.member_scores(labels=Y, logits=logits, names=["logit_confidence"])["logit_confidence"]


EXPECTED = lira.online(
    statistic(TARGET), np.stack([statistic(one) for one in OUTPUTS], axis=1).astype("f4"), INCLUDED.T
)


def test_outputs_give_the_attacks_by_hand(tmp_path: Path) -> None:
    given = GivenShadows.load(saved(tmp_path))
    made = audited(given, "lira_online", "shadow_classifier")
    np.testing.assert_allclose(score(made, "lira_online"), EXPECTED, rtol=1e-6)
    pooled = shadow_classifier.score(TARGET, Y, OUTPUTS.reshape(-1, 2), np.tile(Y, M), INCLUDED.ravel())
    np.testing.assert_allclose(score(made, "shadow_classifier"), pooled, rtol=1e-6)
    assert audited(given).names == ("lira_online",)
    notes = collect(made, rng=np.random.default_rng(0)).notes
    assert "8 shadow models trained elsewhere, with outputs on the audited records, from shadows.npz." in notes
    chances = np.exp(OUTPUTS.astype(float)) / np.exp(OUTPUTS.astype(float)).sum(axis=2, keepdims=True)
    as_chances = GivenShadows.load(saved(tmp_path, outputs=chances), given="probabilities")
    np.testing.assert_allclose(score(audited(as_chances, "lira_online"), "lira_online"), EXPECTED, rtol=1e-2, atol=1e-3)


def test_signals_and_rows_in_any_order_give_the_same(tmp_path: Path) -> None:
    signal = np.stack([statistic(one) for one in OUTPUTS])
    kept = GivenShadows.load(saved(tmp_path, outputs=None, signals=signal, labels=None))
    np.testing.assert_allclose(score(audited(kept, "lira_online"), "lira_online"), EXPECTED, rtol=1e-5)
    with pytest.raises(InputError, match="logit_confidence, which was kept"):
        made = audited(GivenShadows.load(saved(tmp_path, outputs=None, signals=signal)), "rmia_online")
        inside = np.arange(N) < 0  # nobody learned the population
        score(replace(made, shadows=replace(made.shadows, given=without(made.shadows.given, inside))), "rmia_online")
    order = np.random.default_rng(3).permutation(N)
    turned = saved(tmp_path, outputs=OUTPUTS[:, order], included=INCLUDED[:, order], labels=Y[order], rows=order)
    mixed = GivenShadows.load(turned)
    np.testing.assert_allclose(score(audited(mixed, "lira_online"), "lira_online"), EXPECTED, rtol=1e-6)
    # The control: the same file without its rows is of other records, as its labels show.
    with pytest.raises(InputError, match="8 shadow models on 150 other records"):
        score(audited(GivenShadows.load(saved(tmp_path, labels=Y[order])), "lira_online"), "lira_online")


def without(given: GivenShadows | None, rows: Any) -> GivenShadows:
    assert given is not None
    free = given.outputs.included.copy()
    free[:, -40:] = rows[-40:]
    return replace(given, outputs=replace(given.outputs, included=free))


def test_the_population_is_what_no_given_model_learned(tmp_path: Path) -> None:
    included = INCLUDED.copy()
    included[:, -40:] = False
    given = GivenShadows.load(saved(tmp_path, included=included))
    found = collect(audited(given, "rmia_offline", population=12), rng=np.random.default_rng(0))
    assert found.evidence.n == N - 12
    with pytest.raises(InputError, match="a reference model that learned it"):  # the rest of the forty has none
        score(audited(given, "rmia_online", population=12), "rmia_online")
    with pytest.raises(InputError, match="records that no shadow model learned"):
        score(audited(GivenShadows.load(saved(tmp_path)), "rmia_offline"), "rmia_offline")


def test_online_attacks_set_aside_all_that_no_given_model_learned(tmp_path: Path) -> None:
    included = INCLUDED.copy()
    aside = ~MEMBER & (np.arange(N) < 40)
    included[:, aside] = False
    made = audited(GivenShadows.load(saved(tmp_path, included=included)), "rmia_online")
    found = collect(made, rng=np.random.default_rng(0))
    assert found.evidence.n == N - aside.sum()
    log_p = [signals.member_scores(labels=Y, logits=one, names=["loss"])["loss"] for one in (TARGET, *OUTPUTS)]
    target, others = log_p[0], np.stack(log_p[1:], axis=1).astype("f4")
    expected = rmia.online(target[~aside], others[~aside], included.T[~aside], target[aside], others[aside])
    np.testing.assert_allclose(found.evidence.scores["rmia_online"], expected, rtol=1e-6)


@pytest.mark.parametrize("attack", ["shadow_classifier", "label_only_learned"])
def test_labels_that_the_file_leaves_out_are_those_of_the_data(tmp_path: Path, attack: str) -> None:
    """The control: without any labels at all, such an attack is refused rather than carried out on zeros."""
    expected = score(audited(GivenShadows.load(saved(tmp_path)), attack), attack)
    bare = GivenShadows.load(saved(tmp_path, labels=None))
    np.testing.assert_array_equal(score(audited(bare, attack), attack), expected)
    others = GivenShadows.load(saved(tmp_path, outputs=OUTPUTS[:, :90], included=INCLUDED[:, :90], labels=None))
    with pytest.raises(InputError, match=r"labels \(90,\), for .*received none, and other records than the 150"):
        score(audited(others, attack), attack)


def test_a_model_trained_here_can_take_shadows_from_elsewhere(tmp_path: Path) -> None:
    given = GivenShadows.load(saved(tmp_path))
    made = Campaign(TREE, Records(X, Y, None, {}, "data"), shadows=Shadows(given=given))
    found = collect(made, rng=np.random.default_rng(0))
    assert list(found.evidence.scores) == ["lira_online", "loss"]
    assert found.evidence.design == "one-run"
    assert found.vulnerability is None  # nobody here knows how those memberships came about
    asked = Campaign(TREE, Records(X, Y, None, {}, "data"), shadows=Shadows(given=given, vulnerability=True))
    with pytest.raises(InputError, match="14 or more"):
        collect(asked, rng=np.random.default_rng(0))


def test_other_records_serve_the_shadow_classifier_only(tmp_path: Path) -> None:
    one = saved(tmp_path, outputs=OUTPUTS[:1, :90], included=INCLUDED[:1, :90], labels=Y[:90])
    given = GivenShadows.load(one)
    expected = shadow_classifier.score(TARGET, Y, OUTPUTS[0, :90], Y[:90], INCLUDED[0, :90])
    np.testing.assert_allclose(score(audited(given), "shadow_classifier"), expected, rtol=1e-6)
    for attack in ("lira_online", "lira_offline", "rmia_online", "label_only_calibrated"):
        with pytest.raises(InputError, match=r"1 shadow model on 90 other records in shadows\.npz; .*use shadow"):
            score(audited(given, attack), attack)
    part = GivenShadows.load(
        saved(tmp_path, outputs=OUTPUTS[:, :90], included=INCLUDED[:, :90], labels=Y[:90], rows=np.arange(90))
    )
    with pytest.raises(InputError, match="8 shadow models on 90 of the 150 audited records"):
        score(audited(part, "lira_online"), "lira_online")


@pytest.mark.skipif(not DATA.exists(), reason="no published scores here")
def test_published_shadow_outputs_alone(tmp_path: Path) -> None:
    """One shadow model on other records: the classifier runs, per-record LiRA is refused with that reason."""
    with np.load(DATA, allow_pickle=False) as z:
        label, member, logits = z["target_label"], z["target_member"].astype(bool), z["target_logits"]
        shadows = {"outputs": z["shadow_logits"][None], "labels": z["shadow_label"]}
        np.savez(tmp_path / "shadows.npz", included=z["shadow_member"].astype(bool)[None], **shadows)
    given = GivenShadows.load(tmp_path / "shadows.npz")
    records = Records(np.arange(len(label)), label, member, {}, "location30")
    made = Campaign(Precomputed(logits), records, shadows=Shadows(given=given))
    found = collect(made, rng=np.random.default_rng(0)).evidence
    assert list(found.scores) == ["shadow_classifier", "loss"]
    assert Roc.of(found.scores["shadow_classifier"], found.member).auc > 0.84
    refused = "expected several shadow models on the 2,000 audited records, for lira_online, received 1 shadow model on"
    with pytest.raises(InputError, match=f"{refused} .* other records .*use shadow_classifier"):
        collect(replace(made, attacks=("lira_online",)), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"included": None}, r"an array included .*none in shadows\.npz.*members of each model"),
        ({"outputs": None}, r"outputs \(M, n, C\) or signals \(M, n\), received neither"),
        ({"signals": OUTPUTS[:, :, 0]}, "received both"),
        ({"outputs": OUTPUTS[0]}, r"outputs: expected numbers of shape \(M, n, C\)"),
        ({"included": INCLUDED.T}, "transpose it"),
        ({"included": INCLUDED[:4]}, r"included: expected true or false of shape \(8, 150\)"),
        ({"included": INCLUDED * 0.5}, "included: expected true or false"),
        ({"labels": Y[:5]}, r"labels: expected labels \(150,\)"),
        ({"labels": Y + 1}, "a column for each class"),
        ({"rows": np.arange(3)}, r"rows: expected whole numbers \(150,\)"),
        ({"rows": np.arange(N) // 2}, "one of them twice"),
        (
            {"outputs": np.where(np.arange(2) == 0, np.nan, OUTPUTS)},
            r"model 0 in shadows\.npz: expected finite",
        ),
        ({"outputs": np.array([[["a"]]])}, "outputs: expected numbers"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        GivenShadows.load(saved(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    file = tmp_path / "evil.npz"
    np.savez(file, allow_pickle=True, outputs=np.array([{"a": 1}], dtype=object), included=INCLUDED)
    with pytest.raises(InputError):
        GivenShadows.load(file)
    np.save(tmp_path / "shadows.npy", OUTPUTS)
    with pytest.raises(InputError, match="npz"):
        GivenShadows.load(tmp_path / "shadows.npy")


def test_the_audit_of_given_shadows_finds_what_leaks(tmp_path: Path) -> None:
    found = score(audited(GivenShadows.load(saved(tmp_path)), "lira_online"), "lira_online")
    assert Roc.of(found, MEMBER).auc > 0.55


# -- augmentations -----------------------------------------------------------------------------------------------------

K = 3
_NOISE = np.random.default_rng(9)
VIEWS = np.stack([OUTPUTS, *(OUTPUTS + 0.3 * _NOISE.normal(size=OUTPUTS.shape) for _ in range(K - 1))], axis=2)
OF_TARGET = np.stack([TARGET, *(TARGET + 0.3 * _NOISE.normal(size=TARGET.shape) for _ in range(K - 1))], axis=1)


def augmented(target: Any, given: GivenShadows, attack: str = "lira_online") -> Any:
    records = Records(np.arange(N), Y, MEMBER, {}, "rows")
    made = Campaign(Precomputed(target), records, attacks=(attack,), shadows=Shadows(given=given))
    return collect(made, rng=np.random.default_rng(0))


@pytest.mark.parametrize("singleton", [False, True])
@pytest.mark.parametrize("kind", ["outputs", "signals"])
def test_lira_compares_the_augmentations_of_target_and_shadow_models(
    tmp_path: Path, kind: str, singleton: bool
) -> None:
    """Shadow outputs (M, n, k, C), or (M, n, 1, k, C) as the code of the LiRA paper writes them, or signals of them."""
    arrays: dict[str, Any] = {"outputs": VIEWS}
    if kind == "signals":
        signal = [[statistic(VIEWS[m, :, i]) for i in range(K)] for m in range(M)]
        arrays = {"outputs": None, "signals": np.moveaxis(np.array(signal), 1, 2)}
    if singleton:
        arrays = {name: None if one is None else one[:, :, None] for name, one in arrays.items()}
    given = GivenShadows.load(saved(tmp_path, **arrays))
    found = augmented(OF_TARGET[:, None] if singleton else OF_TARGET, given)
    target = np.stack([statistic(OF_TARGET[:, i]) for i in range(K)], axis=1)
    shadow = np.stack(
        [np.stack([statistic(VIEWS[m, :, i]) for i in range(K)], axis=1) for m in range(M)], axis=1
    ).astype("f4")
    expected = lira.online(target, shadow, INCLUDED.T)
    np.testing.assert_allclose(found.evidence.scores["lira_online"], expected, rtol=1e-4, atol=1e-4)
    assert "LiRA compares 3 augmentations of each record; other attacks the first." in found.notes
    if kind == "outputs":
        plain = augmented(TARGET, GivenShadows.load(saved(tmp_path)), "shadow_classifier")
        same = augmented(OF_TARGET, given, "shadow_classifier")
        np.testing.assert_allclose(
            same.evidence.scores["shadow_classifier"], plain.evidence.scores["shadow_classifier"], rtol=1e-6
        )


def test_augmentations_of_one_side_are_left_out_and_said(tmp_path: Path) -> None:
    for target, outputs, whose in ((TARGET, VIEWS, "shadow models'"), (OF_TARGET, OUTPUTS, "target's")):
        found = augmented(target, GivenShadows.load(saved(tmp_path, outputs=outputs)))
        np.testing.assert_allclose(found.evidence.scores["lira_online"], EXPECTED, rtol=1e-6)
        assert any(f"Of the augmentations in the {whose} outputs the first" in note for note in found.notes)
    with pytest.raises(InputError, match="expected 3 augmentations, as the target has, received 2"):
        augmented(OF_TARGET, GivenShadows.load(saved(tmp_path, outputs=VIEWS[:, :, :2])))


def test_outputs_of_classes_are_no_signals_of_augmentations(tmp_path: Path) -> None:
    """The control for signals (M, n, k): an axis of classes does not hold the same thing k times."""
    with pytest.raises(InputError, match="whose last axis holds different things; save what models return for each"):
        GivenShadows.load(saved(tmp_path, outputs=None, signals=OUTPUTS))


# -- signals against the kind that is named ----------------------------------------------------------------------------


def test_signals_that_contradict_their_name(tmp_path: Path) -> None:
    log_p = -np.logaddexp(0.0, -np.stack([statistic(one) for one in OUTPUTS]))

    def load(signals: Any, signal: str) -> GivenShadows:
        return GivenShadows.load(saved(tmp_path, outputs=None, signals=signals, labels=None), signal=signal)

    assert load(log_p, "loss").notes == ()
    with pytest.raises(InputError, match=r"minus the loss, at most 0, received .*as of the loss itself; turn the sign"):
        load(-log_p, "loss")
    with pytest.raises(InputError, match=r"expected logit_confidence, received numbers that all lie in \[0, 1\]"):
        load(np.exp(log_p), "logit_confidence")
    (note,) = load(log_p, "logit_confidence").notes
    assert "may be log-probabilities: none is above 0" in note
    # Controls: log-odds, some of a narrow range, and a single record.
    signal = np.stack([statistic(one) for one in OUTPUTS])
    for right in (signal, 0.5 + 0.01 * signal / np.abs(signal).max(), np.abs(signal)):
        assert load(right, "logit_confidence").notes == ()
