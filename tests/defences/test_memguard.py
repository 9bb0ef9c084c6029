"""MemGuard against a literal twin, closed forms, and its published outputs on Location-30."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from miaudit.attacks import shadow_classifier
from miaudit.defences import registry
from miaudit.defences.differences import PairedFamily
from miaudit.defences.memguard import FittedMemGuard, MemGuard
from miaudit.defences.noise import AdversarialNoise, FittedAdversarial, OutputNoise
from miaudit.errors import InputError

LOCATION30 = Path(__file__).parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"
needs_data = pytest.mark.skipif(not LOCATION30.is_file(), reason=f"needs {LOCATION30}")


def guard(*, classes: int = 4, seed: int = 0, **options: float) -> FittedMemGuard:
    """A small classifier with drawn weights, undecided near vectors that are drawn from a flat law."""
    pytest.importorskip("torch", reason="the extra `torch`")
    rng = np.random.default_rng(seed)
    layers = [(2 * rng.normal(size=(8, classes)), rng.normal(size=8)), (rng.normal(size=(1, 8)), np.zeros(1))]
    fitted = FittedMemGuard(tuple(layers), MemGuard(**{"steps": 60, **options}), b"key")
    middle = float(np.median(fitted.log_odds(vectors(500, classes, seed=9))))
    return FittedMemGuard((layers[0], (layers[1][0], np.array([-middle]))), fitted.options, b"key")


def vectors(n: int, classes: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), size=n)


def twin(fitted: FittedMemGuard, p: np.ndarray) -> np.ndarray:
    """The published search, record by record, with gradients by hand."""
    (w, b), (v, c) = fitted.layers
    options = fitted.options

    def odds(q: np.ndarray) -> float:
        return float((v @ np.maximum(w @ q + b, 0) + c)[0])

    found = p.copy()
    for i, row in enumerate(p):
        order = np.argsort(-row)
        origin, side, weight = row[order], odds(row[order]), options.distortion_weight
        while weight <= 1e5:
            z = np.log(origin)
            for _ in range(options.steps - 1):
                q = special.softmax(z)
                slope = np.sign(odds(q)) * ((w @ q + b > 0) * v[0]) @ w
                if not np.array_equal(z, np.log(origin)):
                    slope = slope + weight * np.sign(q - origin)
                slope = q * (slope - q @ slope)  # through the softmax
                other = 1 + z[1:].argmax()
                if z[other] > z[0]:
                    slope[[other, 0]] += np.array([1, -1]) * options.label_weight
                z = z - options.step * slope / np.linalg.norm(slope)
                done = special.softmax(z).argmax() == 0 and odds(special.softmax(z)) * side <= 0
                if done:
                    break
            if not done:
                break
            found[i, order] = special.softmax(z)
            weight *= 10
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_is_that_of_a_literal_twin(seed: int) -> None:
    fitted, p = guard(seed=seed), vectors(12)
    noisy, _ = fitted.noise(p)
    assert noisy == pytest.approx(twin(fitted, p), abs=1e-9)
    moved = np.abs(noisy - p).sum(axis=1) > 0
    assert moved.sum() > 3
    # the control: without the weight of the distortion, rounds are all alike and the noise is longer
    careless = twin(guard(seed=seed, distortion_weight=1e5), p)
    assert np.abs(careless - noisy).max() > 0.01


@pytest.mark.long
def test_two_classes_have_the_closed_form_that_the_linear_variant_finds() -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch`")
    del torch
    p = np.array([[0.95, 0.05], [0.1, 0.9], [0.7, 0.3], [0.55, 0.45]])
    threshold = 0.8  # g = 10 (p_max - 0.8): undecided at 0.8, and nowhere else
    fitted = FittedMemGuard(((np.array([[10.0, 0.0]]), np.array([-8.0])),), MemGuard(step=0.01), b"key")
    # of the linear variant: log p_max - log p_other = log(0.8 / 0.2)
    linear = FittedAdversarial(np.array([1.0, -1.0]), -np.log(threshold / (1 - threshold)), 2.0)
    closed = linear.apply(p, rng=np.random.default_rng(0)).values
    assert closed.max(axis=1) == pytest.approx(np.full(4, threshold), abs=1e-6)
    noisy, share = fitted.noise(p)
    assert np.abs(noisy - closed).max() < 0.01  # one step
    assert (share == 1).all()
    beyond = np.sign(p.max(axis=1) - threshold) * (noisy.max(axis=1) - threshold)
    assert (beyond <= 0).all()  # on the other side, as published


def test_no_noise_is_shorter_than_the_least_that_a_linear_classifier_allows() -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    weights = np.array([[6.0, 1.0, -2.0]])
    fitted = FittedMemGuard(((weights, np.array([-3.0])),), MemGuard(step=0.02, steps=120), b"key")
    p = -np.sort(-vectors(60, 3), axis=1)
    noisy, _ = fitted.noise(p)
    length = np.abs(noisy - p).sum(axis=1)
    moved = length > 0
    least = 2 * np.abs(fitted.log_odds(p)) / (weights.max() - weights.min())  # all from the largest to the smallest
    assert moved.mean() > 0.7
    assert (length[moved] >= least[moved] - 1e-9).all()
    assert np.median(length[moved] - least[moved]) < 0.06


def test_the_label_stays_and_the_classifier_is_less_sure() -> None:
    fitted, p = guard(budget=2.0), vectors(100)
    shown = fitted.apply(p, rng=np.random.default_rng(0)).values
    assert (shown.argmax(axis=1) == p.argmax(axis=1)).all()
    assert shown.sum(axis=1) == pytest.approx(np.ones(100))
    before, after = (np.median(np.abs(fitted.log_odds(q))) for q in (p, shown))
    assert after < before / 3
    # the control: the noise is aimed at this classifier, and leaves another as sure as it was
    other = guard(seed=5)
    assert np.median(np.abs(other.log_odds(shown))) > np.median(np.abs(other.log_odds(p))) / 3


def test_the_expected_distortion_of_every_record_is_the_budget_or_its_noise() -> None:
    fitted, p = guard(budget=0.1), vectors(100)
    noisy, share = fitted.noise(p)
    length = np.abs(noisy - p).sum(axis=1)
    given = share > 0
    assert (length > 0.1).mean() > 0.2
    assert (share * length)[given] == pytest.approx(np.minimum(length, 0.1)[given])
    keys = [FittedMemGuard(fitted.layers, fitted.options, bytes([k % 256, k // 256])) for k in range(400)]
    coins = np.array([one.coins(p) for one in keys])
    measured = ((coins < share) * length).mean(axis=0)
    error = np.sqrt(share * (1 - share) * length**2 / 400)
    assert (np.abs(measured - share * length) <= 4.5 * error + 1e-12).all()
    # the control: records without a coin of their own are far from it in one release
    assert np.abs(((coins[:, :1] < share) * length).mean(axis=1) - (share * length).mean()).max() > 0.02


@pytest.mark.long
def test_the_same_query_has_the_same_answer_and_nothing_averages_away() -> None:
    fitted, p = guard(budget=0.1), vectors(40)
    shown = fitted.apply(p, rng=np.random.default_rng(0)).values
    again = np.mean([fitted.apply(p, rng=np.random.default_rng(k)).values for k in range(2)], axis=0)
    assert np.array_equal(again.round(12), shown.round(12))
    order = np.random.default_rng(3).permutation(40)[:15]  # asked in other company
    assert fitted.apply(p[order], rng=np.random.default_rng(4)).values == pytest.approx(shown[order], abs=1e-12)
    jittered = p * (1 + 1e-9)  # as another batch size rounds
    assert fitted.apply(jittered / jittered.sum(axis=1, keepdims=True), rng=np.random.default_rng(4)).values == (
        pytest.approx(shown, abs=1e-6)
    )
    other = FittedMemGuard(fitted.layers, fitted.options, b"another key").apply(p, rng=np.random.default_rng(0)).values
    assert not np.array_equal(other, shown)
    # the control: noise that is drawn anew does average away
    rng = np.random.default_rng(5)
    redrawn = [OutputNoise(1.0).apply(p, rng=rng).values for _ in range(60)]
    assert np.abs(np.mean(redrawn, axis=0) - redrawn[0]).sum(axis=1).mean() > 0.1


@pytest.mark.long
def test_it_learns_what_gives_members_away_and_repeats_by_its_seed() -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    rng = np.random.default_rng(2)
    members, others = rng.dirichlet([30, 1, 1], 120), rng.dirichlet([5, 1, 1], 60)
    measure = MemGuard(epochs=10, learning_rate=0.1, steps=20)
    one, same, another = (
        measure.fit(others, np.zeros(60, dtype=np.intp), learnt=members, rng=np.random.default_rng(seed))
        for seed in (0, 0, 1)
    )
    assert ((one.log_odds(members) > 0).mean() + (one.log_odds(others) < 0).mean()) / 2 > 0.7
    shown = [fitted.apply(members, rng=rng).values for fitted in (one, same, another)]
    assert np.array_equal(shown[0], shown[1])
    assert not np.array_equal(shown[0], shown[2])


def test_outputs_that_cannot_be_moved_are_left_alone() -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    flat = FittedMemGuard(((np.zeros((1, 3)), np.ones(1)),), MemGuard(steps=5), b"key")
    p = np.array([[1.0, 0.0, 0.0], [0.4, 0.4, 0.2]])  # an exact zero, and two labels
    assert np.array_equal(flat.apply(p, rng=np.random.default_rng(0)).values, p)
    assert flat.apply(p[:0], rng=np.random.default_rng(0)).values.shape == (0, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0.0}, r"budget: expected a number in \(0, 2\]"),
        ({"epochs": 0}, "epochs: expected a whole number from 1 up"),
        ({"learning_rate": -1.0}, "learning_rate: expected a number above 0"),
        ({"distortion_weight": 1e6}, "at most 1e5"),
        ({"steps": 1}, "steps: expected a whole number from 2 up"),
        ({"step": "long"}, "step: expected a number"),
        ({"c2": 3}, "options of memguard: budget, epochs"),
    ],
)
def test_options_outside_their_range_are_refused(options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        registry.make("memguard", options)


def test_it_needs_members_to_learn_from() -> None:
    with pytest.raises(InputError, match="outputs on records that the model learnt"):
        MemGuard().fit(vectors(20), np.zeros(20, dtype=np.intp), rng=np.random.default_rng(0))


# -- the published outputs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def z() -> dict[str, np.ndarray]:
    with np.load(LOCATION30, allow_pickle=False) as found:
        return {name: found[name] for name in found.files if not name.endswith("row")}


def logs(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p.astype(np.float64), 1e-30))


@pytest.mark.data
@needs_data
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


@pytest.mark.data
@needs_data
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
