"""Laws of two families behind one form: each right in its own world, refuted in the other's, and bounded."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from miaudit.disclosure import bounds, dirichlet, fitted_laws, logit_normal
from miaudit.disclosure.fitted_laws import DirichletLaws, LawName, Laws, LogitNormalLaws

NAMES = get_args(LawName)
N, MODELS = 40, 160
INSIDE = np.tile(np.arange(MODELS) % 2 == 0, (N, 1))
SIDES = (INSIDE, ~INSIDE)


def truth(name: str) -> Laws:
    if name == "dirichlet":
        return DirichletLaws(np.tile([4.0, 1.0, 0.6], (N, 1)), np.tile([2.0, 1.5, 1.0], (N, 1)))
    both = np.tile(np.diag([1.0, 2.0]), (N, 1, 1))
    means = np.tile([-2.0, -1.0], (N, 1)), np.tile([-1.0, -1.0], (N, 1))
    return LogitNormalLaws(*(logit_normal.Law(mean, both) for mean in means))


def outputs(law: Laws, rng: np.random.Generator) -> np.ndarray:
    drawn = law.sample(MODELS // 2, rng=rng)
    p = np.empty_like(drawn)
    p[:, 0::2], p[:, 1::2] = drawn[:, : MODELS // 2], drawn[:, MODELS // 2 :]
    return p


@pytest.mark.parametrize("name", NAMES)
def test_the_fit_the_score_and_the_advantage_agree_with_draws(name: LawName) -> None:
    rng = np.random.default_rng(0)
    law = truth(name)
    fitted = fitted_laws.fit(name, outputs(law, rng), SIDES)
    assert type(fitted) is type(law)
    assert fitted.averaged().mean() == pytest.approx(law.averaged().mean(), abs=0.03)
    one = law.take(slice(0, 1))
    p = one.sample(3000, rng=rng)
    scores = one.score(p)[0]
    wins = (scores[:3000, None] > scores[None, 3000:]).mean() - 0.5
    assert one.averaged()[0] == pytest.approx(wins, abs=0.02)
    j = scores[:3000].mean() - scores[3000:].mean()
    out_in, in_out = one.divergences()
    assert out_in[0] + in_out[0] == pytest.approx(j, rel=0.1)
    assert one.averaged()[0] <= bounds.region(out_in, in_out)[0]


@pytest.mark.parametrize("name", NAMES)
def test_sets_by_draws_against_counted_sets(name: LawName) -> None:
    rng = np.random.default_rng(1)
    one = truth(name).take(slice(0, 3))
    for threshold, temperature in ((0.4, 0.0), (0.5, 0.3)):
        found = one.of_sets(threshold, temperature, rng)
        p = one.sample(100_000, rng=rng)[0]
        sets = fitted_laws.drawn_sets(p, threshold, temperature, rng=rng) @ np.array([1, 2, 4])
        shares = [np.bincount(part, minlength=8) / 100_000 for part in (sets[:100_000], sets[100_000:])]
        order = np.argsort(shares[0] / np.maximum(shares[1], 1e-9))
        into, out = (share[order] for share in shares)
        auc = float((into * (np.cumsum(out) - out / 2)).sum())
        assert np.abs(found - (auc - 0.5)).max() < 0.025
    assert (one.of_sets(0.0, 0.0, rng) == 0).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_right_law_is_refuted_by_chance_and_a_wrong_one_is_said_to_be(classes: int) -> None:
    rng = np.random.default_rng(2)
    # A mixture that neither law has: half of the models are sure and half are not.
    sure = rng.random((N, MODELS, 1)) < 0.5
    alpha = np.where(sure, [200.0, 1.0, 1.0][:classes], [20.0, 60.0, 20.0][:classes])
    gamma = rng.gamma(np.broadcast_to(alpha, (N, MODELS, classes)))
    mixed = gamma / gamma.sum(axis=2, keepdims=True)
    for name in NAMES:
        p = outputs(truth(name), rng)
        if classes == 2:
            p = np.stack([p[..., 0], p[..., 1:].sum(axis=2)], axis=2)
            if name == "logit-normal":
                law = logit_normal.Law(np.full((N, 1), -1.0), np.full((N, 1, 1), 2.0))
                p = outputs(LogitNormalLaws(law, law), rng)
        right = fitted_laws.refuted(name, p, SIDES, rng=rng)
        wrong = fitted_laws.refuted(name, mixed, SIDES, rng=rng)
        assert right.shape == (N, 2)
        assert right.mean() <= 0.15
        assert not fitted_laws.refuted_more_often_than_by_chance(int(right.sum()), right.size)
        assert wrong.mean() > 0.8  # the control that must fail
        assert fitted_laws.refuted_more_often_than_by_chance(int(wrong.sum()), wrong.size)


def test_chance_is_binomial() -> None:
    rng = np.random.default_rng(3)
    counts = rng.binomial(200, fitted_laws.SIGNIFICANCE, 20_000)
    said = [fitted_laws.refuted_more_often_than_by_chance(int(count), 200) for count in counts]
    assert np.mean(said) <= 0.012
    assert not fitted_laws.refuted_more_often_than_by_chance(0, 10)


def test_shrinkage_keeps_few_models_from_looking_far_apart() -> None:
    """Without any leakage and with nine log-ratios from 32 models a side, a full covariance predicts far too much."""
    rng = np.random.default_rng(4)
    law = logit_normal.Law(np.zeros((N, 9)), np.tile(np.eye(9), (N, 1, 1)))
    p = logit_normal.sample(law, 64, rng=rng)
    sides = INSIDE[:, :64], ~INSIDE[:, :64]
    found = fitted_laws.fit("logit-normal", p, sides).averaged().mean()
    full = LogitNormalLaws(*(logit_normal.fit(p, side, shrinkage=0.0).law for side in sides)).averaged().mean()
    assert found < full - 0.08
    assert fitted_laws.fit("dirichlet", p, sides).averaged().mean() > 0.05  # nor are Dirichlet laws free of it
    assert dirichlet.SMOOTHING == 1e-15
