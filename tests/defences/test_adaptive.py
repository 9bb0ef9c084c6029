"""The attack on a defence: chosen without the audited membership, and never stronger on less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.defences.adaptive import Observed, attack, attacks_on, averaged, one_temperature, plain, ranks
from miaudit.defences.outputs import LabelOnly, one_hot
from miaudit.errors import InputError
from miaudit.metrics.roc import Roc


def seen(effect: float, *, n: int = 400, models: int = 16, kind: str = "confidence-vector", seed: int = 0):
    rng = np.random.default_rng(seed)
    included = rng.random((n, models)).argsort(axis=1) < models // 2
    member = rng.permutation(n) < n // 2
    labels = rng.integers(3, size=n)
    base = rng.normal(size=(n, 1, 3))

    def answers(inside: np.ndarray) -> np.ndarray:
        z = base + rng.normal(size=(*inside.shape, 3))
        z[np.arange(n), :, labels] += effect * inside
        p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
        return one_hot(p) if kind in ("label", "decision-set") else p

    observed = Observed(kind, answers(member[:, None])[:, 0], answers(included), included, labels)
    return observed, member


def auc(scores: np.ndarray, member: np.ndarray) -> float:
    return Roc.of(scores, member).auc


@pytest.mark.parametrize("kind", ["confidence-vector", "true-label", "decision-set", "label"])
def test_it_finds_what_is_there_and_nothing_where_nothing_is(kind: str) -> None:
    observed, member = seen(3.0, kind=kind)
    found = attack(observed, rng=np.random.default_rng(0))
    assert auc(found.scores, member) > 0.65
    assert found.chosen_by == pytest.approx(auc(found.scores, member), abs=0.07)  # shadow models foretell it
    nothing, member = seen(0.0, kind=kind, seed=1)
    assert abs(auc(attack(nothing, rng=np.random.default_rng(0)).scores, member) - 0.5) < 0.06


def test_the_choice_does_not_look_at_the_audited_model() -> None:
    observed, _ = seen(1.0)
    other = Observed(observed.kind, observed.target[::-1], observed.shadow, observed.included, observed.labels)
    names = {attack(one, rng=np.random.default_rng(3)).name for one in (observed, other)}
    assert len(names) == 1


@pytest.mark.long
def test_leaving_out_models_for_the_choice_leaks_nothing() -> None:
    """Each record is in exactly half of the models: a choice that left out one would see which side is short."""
    tried: dict[str, list[float]] = {}
    for seed in range(12):
        observed, _ = seen(0.0, seed=seed, models=8, n=200)
        for name, value in attack(observed, rng=np.random.default_rng(seed)).tried.items():
            tried.setdefault(name, []).append(value)
    for values in tried.values():
        assert abs(np.mean(values) - 0.5) < 0.02


def test_few_models_have_no_choice_and_too_few_no_attack() -> None:
    observed, _ = seen(1.0, models=4)
    found = attack(observed, rng=np.random.default_rng(0))
    assert found.tried == {}
    assert found.name == next(iter(attacks_on("confidence-vector")))
    few, _ = seen(1.0, models=2)
    with pytest.raises(InputError, match="4 shadow models or more"):
        attack(few, rng=np.random.default_rng(0))


def test_a_temperature_of_each_model_is_undone() -> None:
    rng = np.random.default_rng(4)
    observed, member = seen(2.0, seed=2)
    scale = rng.uniform(0.3, 3, 17)

    def warmed(p: np.ndarray, heat: np.ndarray) -> np.ndarray:
        z = np.exp(np.log(p) * heat[:, None])
        return z / z.sum(axis=-1, keepdims=True)

    hot = Observed(
        observed.kind,
        warmed(observed.target[:, None], scale[:1])[:, 0],
        warmed(observed.shadow, scale[1:]),
        observed.included,
        observed.labels,
    )
    before = attack(observed, rng=np.random.default_rng(0))
    after = attack(hot, rng=np.random.default_rng(0))
    assert after.name == "LiRA, temperature undone"
    assert auc(after.scores, member) == pytest.approx(auc(before.scores, member), abs=0.03)
    naive = attacks_on("confidence-vector")["LiRA, global variance"]
    lost = naive.score(hot.target[:, None], hot.shadow, hot.included, hot.labels)[:, 0]
    assert auc(lost, member) < auc(after.scores, member) - 0.02  # the control: an attack that does not adapt loses


def test_increasing_maps_leave_ranks_alone() -> None:
    rng = np.random.default_rng(5)
    p = rng.random((60, 3, 4))
    assert np.allclose(ranks(p), ranks(p**3))
    slow = stats.norm.ppf((stats.rankdata(p[:, 1, 2]) - 0.5) / 60)
    assert np.allclose(ranks(p)[:, 1, 2], slow)
    assert not np.allclose(one_temperature(p), one_temperature(p[:, ::-1]))


def test_many_answers_are_averaged() -> None:
    rng = np.random.default_rng(6)
    coins = [rng.random((500, 2)) < [0.8, 0.3] for _ in range(200)]
    shares = averaged(coins)
    assert shares.mean(axis=0) == pytest.approx([0.8, 0.3], abs=0.02)
    assert (shares > 0).all()
    assert (shares < 1).all()
    assert averaged(coins[:1]) is coins[0]
    p = rng.dirichlet(np.ones(3), size=4)
    assert averaged([p, p]) == pytest.approx(p)


def test_without_shadow_models() -> None:
    labels = np.array([0, 0, 1])
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    order = plain("confidence-vector", p, labels).scores
    assert order[0] > order[1] > order[2]
    sets = LabelOnly().apply(p, rng=np.random.default_rng(0)).values
    assert plain("label", sets, labels).scores.tolist() == [1, 1, 0]
    both = np.array([[True, True], [True, False], [True, False]])
    found = plain("decision-set", both, labels).scores
    assert found.tolist() == [0.5, 1.0, 0.0]
