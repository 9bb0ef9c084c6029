"""Scores of texts against loops over tokens, a world with a known likelihood ratio, and files that are wrong."""

from __future__ import annotations

import zlib
from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from scipy import special

from miaudit.attacks import tokens
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample
from worlds.token_files import ragged


def rows(values: np.ndarray, offsets: np.ndarray) -> list[list[float]]:
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


# Of what else the attacks need: the losses of one text with and without others before it, and of its neighbours.
def more(w: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rng, total, n = np.random.default_rng(9), len(w["log_p"]), len(w["offsets"]) - 1
    neighbours = np.r_[0, np.cumsum(rng.integers(1, 5, n))]
    return {
        "top1": rng.random(total) < 0.3,
        "tokens": rng.integers(0, 12, total),
        "prefixed_log_p": -rng.exponential(3.0, total),
        "frequency_log_p": -rng.exponential(2.0, total) - 0.1,
        "neighbour_log_p": -rng.exponential(3.0, int(neighbours[-1])),
        "neighbour_offsets": neighbours,
    }


# surprise: a token that is no longer among the least likely takes the others' place; prefix_ratio falls with the loss
# without the prefix in its denominator, which is meant
NOT_RISING = ("surprise",)


def lowest(values: list[float], k: float) -> float:
    kept = sorted(values)[: max(1, int(k * len(values) + 1e-9))]
    return sum(kept) / len(kept)


# -- slow twins -------------------------------------------------------------------------------------------------------


def test_loss_and_ratios_equal_loops() -> None:
    w = ragged()
    texts = ["word " * i + chr(65 + i) for i in range(60)]
    found = tokens.member_scores(**w, text=texts, names=["loss", "zlib_ratio", "reference_ratio"])
    slow = [sum(row) / len(row) for row in rows(w["log_p"], w["offsets"])]
    reference = [-sum(row) / len(row) for row in rows(w["reference_log_p"], w["offsets"])]
    np.testing.assert_allclose(found["loss"], slow, rtol=1e-12)
    np.testing.assert_allclose(found["reference_ratio"], np.array(slow) / reference, rtol=1e-12)
    sizes = [len(zlib.compress(text.encode("utf-8"))) for text in texts]
    np.testing.assert_allclose(found["zlib_ratio"], np.array(slow) / sizes, rtol=1e-12)


@pytest.mark.parametrize("k", [0.01, 0.2, 0.29, 0.5, 1.0, 1])
def test_min_k_equals_loops(k: float) -> None:
    w = ragged(longest=101)
    z = [
        [(lp - m) / max(s, 1e-6) for lp, m, s in zip(*parts, strict=True)]
        for parts in zip(*(rows(w[name], w["offsets"]) for name in ("log_p", "mean", "std")), strict=True)
    ]
    plain = tokens.min_k(w["log_p"], w["offsets"], k=k)
    np.testing.assert_allclose(plain, [lowest(row, k) for row in rows(w["log_p"], w["offsets"])], rtol=1e-12)
    plus = tokens.min_k_plus_plus(w["log_p"], w["offsets"], w["mean"], w["std"], k=k)
    np.testing.assert_allclose(plus, [lowest(row, k) for row in z], rtol=1e-10)
    if k == 1:
        np.testing.assert_allclose(plain, tokens.loss(w["log_p"], w["offsets"]), rtol=1e-12)


def slow_twins(w: dict[str, np.ndarray], k: float) -> dict[str, list[float]]:
    """The attacks on a reference model, a prefix, frequencies and neighbours, one token after another."""
    names = ("log_p", "mean", "reference_log_p", "top1", "tokens", "prefixed_log_p", "frequency_log_p")
    found: dict[str, list[float]] = {name: [] for name in tokens.ATTACKS if name not in {*tokens.DEFAULT, "zlib_ratio"}}
    parts = [rows(w[name], w["offsets"]) for name in names]
    for own, entropy, other, likeliest, number, prefixed, share in zip(*parts, strict=True):
        change = [a - b for a, b in zip(own, other, strict=True)]
        wrong = [c for c, first in zip(change, likeliest, strict=True) if not first]
        up, down = sum(c for c in wrong if c > 0), -sum(c for c in wrong if c < 0)
        found["error_zone"].append(up / (up + down) if up + down else (0.5 if wrong else 1.0))
        sizes = [size for size in (2, 3, 4, 6, 9, 13, 18, 25, 32, 40) if size <= len(own)] or [len(own)]
        votes = [[sum(change[i : i + size]) > 0 for i in range(len(own) - size + 1)] for size in sizes]
        found["window_votes"].append(float(np.mean([np.mean(own_votes) for own_votes in votes])))
        found["prefix_ratio"].append(sum(prefixed) / sum(own))
        first = {token: i for i, token in reversed(list(enumerate(number)))}
        terms = [min(0.01, -np.exp(own[i]) * share[i]) for i in first.values()]
        found["calibrated_divergence"].append(sum(terms) / len(terms))
        limit = sorted(own)[max(1, int(k * len(own) + 1e-9)) - 1]
        taken = [lp for lp, minus in zip(own, entropy, strict=True) if lp <= limit and -minus < 2.0]
        found["surprise"].append(sum(taken) / len(taken) if taken else 0.0)
    beside = rows(w["neighbour_log_p"], w["neighbour_offsets"])
    own = rows(w["log_p"], w["offsets"])
    found["neighbourhood"] = [sum(a) / len(a) - sum(b) / len(b) for a, b in zip(own, beside, strict=True)]
    return found


@pytest.mark.parametrize("k", [0.2, 1.0])
def test_the_other_attacks_equal_loops(k: float) -> None:
    w = ragged(longest=90)
    w |= more(w)
    w["log_p"][w["offsets"][0]] = w["reference_log_p"][w["offsets"][0]]  # a text of one token that did not change
    w["top1"][w["offsets"][1] : w["offsets"][2]] = True  # and one without an error
    wanted = slow_twins(w, k)
    found = tokens.member_scores(**w, names=list(wanted), k=k)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


def test_the_default_has_the_attacks_that_earned_it() -> None:
    w = ragged()
    assert tuple(tokens.member_scores(**w, **more(w), text=["a"] * 60)) == tokens.DEFAULT


def test_the_count_of_tokens_is_that_of_real_numbers() -> None:
    values = -np.arange(100.0)
    assert tokens.min_k(values, [0, 100], k=0.29)[0] == -np.arange(71, 100).mean()  # int(0.29 * 100) is 28


def test_records_do_not_mix() -> None:
    w = ragged()
    w["log_p"][w["offsets"][2] : w["offsets"][3]] -= 50
    moved, base = (tokens.member_scores(**x, **more(x), names=tokens.ATTACKS, text=["a"] * 60) for x in (w, ragged()))
    for name, values in base.items():
        assert np.flatnonzero(moved[name] != values).tolist() == [2], name


def test_all_scores_rise_with_the_probability_of_every_token() -> None:
    w, texts = ragged(), ["some text"] * 60
    higher = {**w, "log_p": w["log_p"] / 2 - 0.01}
    higher["log_p"] = np.maximum(higher["log_p"], w["log_p"])
    beside, names = more(w), [name for name in tokens.ATTACKS if name not in NOT_RISING]
    low, high = (tokens.member_scores(**x, **beside, text=texts, names=names) for x in (w, higher))
    for name, values in low.items():
        assert (high[name] >= values).all(), name
        assert (high[name] > values).any(), name


def test_a_model_that_is_its_own_reference_tells_nothing() -> None:
    w = ragged()
    n, own = len(w["offsets"]) - 1, tokens.loss(w["log_p"], w["offsets"])
    same = {"reference_log_p": w["log_p"], "prefixed_log_p": w["log_p"], "neighbour_log_p": own}
    beside = {**w, **more(w), **same, "neighbour_offsets": np.arange(n + 1), "top1": np.zeros(len(w["log_p"]), bool)}
    nothing = {"reference_ratio": -1.0, "error_zone": 0.5, "window_votes": 0.0, "prefix_ratio": 1.0, "neighbourhood": 0}
    for name, score in tokens.member_scores(**beside, names=nothing).items():
        np.testing.assert_array_equal(score, np.full(n, nothing[name]), err_msg=name)


def test_no_input_is_changed() -> None:
    w = ragged()
    kept = {name: values.copy() for name, values in w.items()}
    tokens.member_scores(**w)
    for name, values in w.items():
        np.testing.assert_array_equal(values, kept[name])


# -- a known likelihood ratio -----------------------------------------------------------------------------------------


def markov(n: int, seed: int, hardness: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Members draw each token from the model itself, others from a flatter law; records differ in how hard they are."""
    rng = np.random.default_rng(seed)
    member, length, words = rng.random(n) < 0.5, 12, 30
    sharp = rng.uniform(1 - hardness, 1 + hardness, (n, length, 1)) * rng.normal(size=(n, length, words)) * 1.5
    log_p = special.log_softmax(sharp, axis=-1)
    flatter = special.log_softmax(0.6 * sharp, axis=-1)
    law = np.where(member[:, None, None], log_p, flatter)
    drawn = (law + rng.gumbel(size=law.shape)).argmax(axis=-1)
    own, other = (np.take_along_axis(x, drawn[..., None], 2)[..., 0] for x in (log_p, flatter))
    mean = (np.exp(log_p) * log_p).sum(axis=-1)
    std = np.sqrt((np.exp(log_p) * (log_p - mean[..., None]) ** 2).sum(axis=-1))
    offsets = np.arange(n + 1) * length
    flat = {"log_p": own, "mean": mean, "std": std, "optimal": (own - other), "reference_log_p": other}
    return {**{k: v.ravel() for k, v in flat.items()}, "offsets": offsets, "reference_offsets": offsets}, member


@pytest.mark.long
def test_the_share_of_the_optimal_auc() -> None:
    """The likelihood ratio of the two laws is known: no score beats it, and each reaches a stated share of its gain."""
    w, member = markov(6000, 0, hardness=0.8)
    optimal = np.add.reduceat(w.pop("optimal"), w["offsets"][:-1])
    best = Sample.of(Evidence(score=optimal, member=member)).roc.auc
    scores = tokens.member_scores(**w, k=0.5)
    auc = {name: Sample.of(Evidence(score=s, member=member)).roc.auc for name, s in scores.items()}
    assert best > 0.8
    share = {name: (value - 0.5) / (best - 0.5) for name, value in auc.items()}
    assert max(share.values()) < 1.005  # chance, in 6,000 records
    assert share["min_k_plus_plus"] > share["min_k"]  # what standardising each position is for
    for name, least in {"loss": 0.9, "min_k": 0.85, "min_k_plus_plus": 0.9, "reference_ratio": 0.98}.items():
        assert share[name] > least, (name, share)


@pytest.mark.long
def test_without_membership_no_score_says_anything() -> None:
    """The control: the same texts, with membership drawn again."""
    w, _ = markov(6000, 0, hardness=0.8)
    w.pop("optimal")
    fresh = np.random.default_rng(9).random(6000) < 0.5
    for name, score in tokens.member_scores(**w).items():
        assert abs(Sample.of(Evidence(score=score, member=fresh)).roc.auc - 0.5) < 0.025, name


def test_speed_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(10, 200, 10_000))]
    values = -rng.exponential(size=int(offsets[-1]))
    start = process_time()
    fast = tokens.min_k(values, offsets)
    middle = process_time()
    slow = [lowest(row, 0.2) for row in rows(values, offsets)]
    np.testing.assert_allclose(fast, slow, rtol=1e-12)
    assert middle - start < (process_time() - middle) / 2


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_p": [0.5, -1.0]}, "if these are losses, pass their negatives"),
        ({"log_p": [np.nan, -1.0]}, "first at token 0"),
        ({"log_p": [-1.0, -np.inf]}, "first at token 1"),
        ({"log_p": [[-1.0, -1.0]]}, r"shape \(tokens,\)"),
        ({"log_p": ["a", "b"]}, "numbers"),
        ({"offsets": [0, 1]}, "from 0 to 2"),
        ({"offsets": [0, 2, 2]}, "none in record 1"),
        ({"offsets": [0, 2, 1, 2]}, "none in record 1"),
        ({"offsets": [0.0, 1.0, 2.0]}, "whole numbers"),
        ({"offsets": [2]}, "whole numbers"),
        ({"mean": [-1.0], "std": [1.0, 1.0]}, "mean: expected 2 values"),
        ({"mean": [-1.0, -1.0], "std": [1.0, -1.0]}, "standard deviation"),
        ({"mean": [-1.0, -1.0], "std": [1.0, np.nan]}, "std: expected finite"),
        ({"text": ["a"], "names": ["zlib_ratio"]}, "2 sizes"),
        ({"reference_log_p": [-1.0], "reference_offsets": [0, 1]}, "expected 2 records"),
        ({"reference_log_p": [-1.0, 0.0], "reference_offsets": [0, 1, 2]}, "in record 1"),
        ({"k": 0.0}, "write 0.2 for 20%"),
        ({"k": 20}, "write 0.2 for 20%"),
        ({"k": float("nan")}, "write 0.2 for 20%"),
        ({"names": ["mink"]}, "did you mean min_k"),
        ({"names": ["min_k_plus_plus"]}, "mean, std for min_k_plus_plus"),
        ({"names": ["zlib_ratio"]}, "text for zlib_ratio"),
        ({"names": []}, "choose one"),
        ({"names": ["error_zone"]}, "top1, reference_log_p, reference_offsets for error_zone"),
        ({"entropy": [1.0]}, "arrays named mean, std"),
        (
            {"names": ["window_votes"], "reference_log_p": [-1.0, -1.0, -1.0], "reference_offsets": [0, 2, 3]},
            "use one tokenizer for both",
        ),
        ({"names": ["prefix_ratio"], "log_p": [0.0, -1.0], "prefixed_log_p": [-1.0, -1.0]}, "losses above 0"),
        (
            {"names": ["calibrated_divergence"], "tokens": [0.5, 1.0], "frequency_log_p": [-1.0, -1.0]},
            "2 whole numbers, one for each token",
        ),
        ({"names": ["neighbourhood"], "neighbour_log_p": [-1.0], "neighbour_offsets": [0, 1]}, "2 records, received 1"),
    ],
)
def test_bad_arrays(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tokens.member_scores(**{"log_p": [-1.0, -2.0], "offsets": [0, 1, 2], **change})


def test_point_masses_and_single_tokens_stay_finite_and_ordered() -> None:
    """A model certain of another token: std 0. A lower probability of what came is still a lower score."""
    found = tokens.min_k_plus_plus([-100.0, -200.0, 0.0], [0, 1, 2, 3], mean=[0.0] * 3, std=[0.0] * 3)
    assert np.isfinite(found).all()
    assert found[1] < found[0] < found[2] == 0
