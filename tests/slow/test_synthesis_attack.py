"""The attack on generators by simulation: placebos, the published split, bounds, a planted outlier, broken promises."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from causal_synthesis.pain import pain
from scipy.optimize import brentq
from scipy.stats import norm

from miaudit.dp.verdict import Claim, judge
from miaudit.synthesis.retraining_attack.attack_bound import lower_bound
from miaudit.synthesis.retraining_attack.attack_metrics import Judged, measure
from miaudit.synthesis.retraining_attack.classifiers import InnerProducts
from miaudit.synthesis.retraining_attack.heldout import Described, all_trials
from miaudit.synthesis.retraining_attack.membership import MembershipAttack, membership_attack
from miaudit.synthesis.retraining_attack.sets import train
from miaudit.synthesis.schema import Column, Schema, Table
from validity.claims import Claims
from worlds.generators import Marginals, NoisyMarginals, Telltale

pytestmark = pytest.mark.slow

SCHEMA = Schema(tuple(Column(f"c{i}") for i in range(20)))


def table(n: int = 300) -> Table:
    return Table(SCHEMA, (np.random.default_rng(0).random((n, 20)) < 0.3).astype(float))


def test_placebos_of_the_default_protocol_are_at_chance_within_a_tenth() -> None:
    """200 models that differ a lot from one another, as retrained networks do; four of the five classifiers."""
    found = membership_attack(
        table(),
        fit=Marginals(0.3),
        extractors=["naive", "histogram"],
        classifiers=["kernel", "svc", "knn", "logistic"],
        rng=np.random.default_rng(1),
    )
    assert found.models == 200
    placebos = [row.placebo[name] for row in found.rows for name in ("auc", "balanced_accuracy")]
    assert max((placebo.high - placebo.low) / 2 for placebo in placebos) <= 0.1
    assert sum(not row.placebo_at_chance for row in found.rows) <= 2
    assert found.bound.bound.value == 0
    assert found.bound.bound.reachable > 3
    for row in found.rows:  # the same models have nothing to say of the records either
        assert row.metrics["auc"].low < 0.53


def fake(membership: np.ndarray, k: int) -> SimpleNamespace:
    """Sets that consist of their features only."""
    return SimpleNamespace(
        membership=membership,
        targets=tuple(str(t) for t in range(membership.shape[1])),
        shared=False,
        per_model=k,
        about=lambda t: np.flatnonzero(membership[:, t] != -1),
    )


TARGETS, REPEATS, PER_MODEL = 3, 12, 4


def misses_chance(rng: np.random.Generator, *, progressive: bool, spread: float) -> bool:
    """Whether the interval of the AUC misses one half where there is nothing to find."""
    membership = np.full((TARGETS, REPEATS, 2, TARGETS), -1, dtype=np.int8)
    for t in range(TARGETS):
        membership[t, :, :, t] = (0, 1)
    membership = membership.reshape(-1, TARGETS)
    models, k, width = len(membership), PER_MODEL, 60
    values = spread * rng.normal(size=(models, 1, width)) + rng.normal(size=(models, k, width))
    features = values.reshape(-1, width).astype(np.float32)
    described = Described(fake(membership, k))
    judged = []
    for one in all_trials(described.sets, 3, "per-target", rng=rng):
        rows = (one.model[:, None] * k + np.arange(k)).ravel()
        products = InnerProducts.of(features[rows])
        judged += described.judged(products, "kernel", one, [one.member], cache={}, rng=rng, progressive=progressive)
    joined = Judged(*(np.concatenate([getattr(j, n) for j in judged]) for n in ("score", "member", "model", "stratum")))
    auc = measure(joined, 0.95)["auc"]
    return not auc.low <= 0.5 <= auc.high


@pytest.mark.validity
def test_progressive_validation_covers_and_ordinary_cross_validation_does_not(claim: Claims) -> None:
    """The control that must fail: with every fold judged by all others, 95% intervals cover 83%."""
    claim(lambda rng: {"missed": misses_chance(rng, progressive=True, spread=0.3)}, holds={"missed": 0.05})
    claim(lambda rng: {"ordinary": misses_chance(rng, progressive=False, spread=0.0)}, fails={"ordinary": 0.05})


@pytest.mark.validity
def test_the_bound_is_valid_at_a_known_epsilon(claim: Claims) -> None:
    """Randomised response at epsilon 1, which the attack reads off without error. The control: epsilon is 5."""
    values = table(60).values.copy()
    values[7] = 1
    given = Table(SCHEMA, values)

    def replicate(rng: np.random.Generator, epsilon: float = 1.0) -> dict[str, bool]:
        sets = train(given, [7], fit=Telltale((1.0,) * 20, epsilon), repeats=20, sets=2, set_size=40, rng=rng)
        described = Described(sets)
        trials = all_trials(sets, 2, "per-target", rng=rng)
        found = lower_bound(described, trials, ["naive"], ["kernel"], delta=0.0, confidence=0.95, rng=rng)
        return {"bound > 1": found.bound.value > 1.0}

    claim(replicate, holds={"bound > 1": 0.05})
    claim(lambda rng: replicate(rng, 5.0), fails={"bound > 1": 0.05})


@pytest.fixture(scope="module")
def planted() -> Table:
    """A hundred records of the pain form's 60 first conditions, and one with all of them."""
    columns = slice(27, 87)
    values = pain().sample(100, rng=np.random.default_rng(0)).values[:, columns]
    return Table(Schema(pain().schema.columns[columns]), np.concatenate([values, np.ones((1, 60))]))


def attacked(given: Table, privacy: object, repeats: int) -> MembershipAttack:
    pytest.importorskip("torch", reason="the extra `torch`")
    from miaudit.synthesis import GeneratorConfig, fit_many

    config = GeneratorConfig(epochs=150, batch=50, records=101, learning_rate=0.003, hidden=32, at_once=20)
    return membership_attack(
        given,
        fit_many=partial(fit_many, graph=None, privacy=privacy, config=config, repeatable=True),
        at_once=20,
        targets=[100],
        repeats=repeats,
        sets=10,
        set_size=500,
        extractors=["nearness"],
        classifiers=["kernel", "logistic"],
        delta=0.0 if privacy is None else privacy.resolved_delta,
        rng=np.random.default_rng(1),
    )


def test_a_planted_outlier_is_found_without_privacy_and_not_at_epsilon_1(planted) -> None:
    from miaudit.synthesis import Privacy

    open_ = attacked(planted, None, 20)
    assert max(row.metrics["auc"].low for row in open_.rows) > 0.8
    private = attacked(planted, Privacy(records=101, epsilon=1.0), 20)
    for row in private.rows:
        assert row.metrics["auc"].low <= 0.5 <= row.metrics["auc"].high
    assert private.bound.bound.value <= 1.0  # the accountant's and the empirical epsilon do not cross


def test_a_tenth_of_the_noise_is_refuted_and_all_of_it_is_not(planted) -> None:
    """Marginals by the Gaussian mechanism, whose epsilon is known exactly, promised (1, 1e-3)-DP."""
    claim = Claim.epsilon_delta(1.0, 1e-3)
    noise = brentq(lambda s: epsilon_of(s, claim.delta) - claim.value, 0.5, 20)
    for factor, status in ((1.0, "not-refuted"), (0.1, "refuted")):
        found = membership_attack(
            planted,
            fit=NoisyMarginals(factor * noise, 101),
            targets=[100],
            repeats=40,
            sets=4,
            set_size=1000,
            extractors=["naive", "nearness"],
            classifiers=["kernel", "logistic"],
            delta=claim.delta,
            rng=np.random.default_rng(3),
        )
        assert judge(claim, found.bound.bound).status == status
        assert found.bound.bound.value <= epsilon_of(factor * noise, claim.delta)


def epsilon_of(noise: float, delta: float) -> float:
    """Epsilon of 1 / noise-Gaussian DP at a delta, from its closed form (Dong, Roth and Su 2022)."""
    mu = 1 / noise

    def excess(epsilon: float) -> float:
        return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta

    return float(brentq(excess, 0.0, 200.0)) if excess(0.0) > 0 else 0.0


def test_a_generator_that_does_not_clip_is_refuted(planted) -> None:
    """Noise as promised, and gradients of any length."""
    from miaudit.synthesis import GeneratorConfig, Privacy

    config = GeneratorConfig(epochs=150, batch=50, records=101)
    promised = Privacy(records=101, epsilon=1.0)
    noise = promised.resolved_noise(config)
    found = attacked(planted, Privacy(records=101, noise=noise / 1e6, clip=1e6), 40)
    assert found.bound.bound.reachable > 2
    claim = Claim.epsilon_delta(1.0, found.bound.bound.delta)
    assert judge(claim, found.bound.bound).status == "refuted"
