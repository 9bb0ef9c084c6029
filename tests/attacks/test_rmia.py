"""RMIA against the matrix of all pairs, and against the best attack where it is known."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from miaudit.attacks import rmia
from miaudit.errors import InputError
from worlds.shadow import World, auc, share_of_optimum


def log_sigmoid(t: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -t)


def inputs(n: int = 400, m: int = 150, models: int = 16, seed: int = 0, **laws: float) -> tuple[World, dict]:
    """Records of a world as log-probabilities, and population records that no model learned."""
    rng = np.random.default_rng(seed)
    w = World.draw(n, models, rng, **laws)
    z = World.draw(m, models + 1, rng, **laws)
    z_all = log_sigmoid(z.laws.statistics(np.zeros((m, models + 1), dtype=bool), rng))
    return w, {
        "target": log_sigmoid(w.target),
        "shadow": log_sigmoid(w.shadow),
        "included": w.included,
        "population": z_all[:, 0],
        "population_shadow": z_all[:, 1:],
    }


# -- the matrix of all pairs, one record at a time --------------------------------------------------------------------


def twin(given: dict, gamma: float, a: float | None) -> np.ndarray:
    """The share of population records that each record dominates, as printed, from probabilities."""
    p, shadow, z = np.exp(given["target"]), np.exp(given["shadow"]), np.exp(given["population"])
    mean_z = np.exp(given["population_shadow"]).mean(axis=1)
    if a is not None:
        mean_z = ((1 + a) * mean_z + 1 - a) / 2
    shares = []
    for i in range(len(p)):
        inside = given["included"][i]
        out = shadow[i][~inside].mean()
        p_x = (shadow[i][inside].mean() + out) / 2 if a is None else ((1 + a) * out + 1 - a) / 2
        shares.append(np.mean((p[i] / p_x) / (z / mean_z) >= gamma))
    return np.array(shares)


@pytest.mark.parametrize("gamma", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("a", [None, 0.0, 0.3, 1.0])
def test_scores_are_the_printed_shares_with_ties_broken(gamma: float, a: float | None) -> None:
    _, given = inputs()
    found = rmia.online(**given, gamma=gamma) if a is None else rmia.offline(**given, a=a, gamma=gamma)
    m = len(given["population"])
    np.testing.assert_array_equal(np.floor(found * (m + 1) + 1e-9), np.round(twin(given, gamma, a) * m))
    assert len(set(found)) == len(found)
    assert found.min() > 0
    assert found.max() < 1
    assert len(set(twin(given, gamma, a))) < len(found)  # control: the printed shares are tied


def test_within_one_model_the_population_and_gamma_set_the_scale_only() -> None:
    _, given = inputs()
    first = rmia.online(**given)
    other = {**given, "population": given["population"][:20], "population_shadow": given["population_shadow"][:20]}
    for again in (rmia.online(**given, gamma=1.1), rmia.online(**other)):
        assert (np.argsort(again) == np.argsort(first)).all()
        assert np.abs(again - first).max() > 0.01


def test_probabilities_that_round_to_one_are_told_apart() -> None:
    shadow = np.log1p(-np.full((3, 4), 1e-3))
    target = np.array([-1e-18, -1e-19, -1e-20])
    found = rmia.offline(target, shadow, None, np.log([0.9]), np.log([[0.9]]), a=0.5)
    assert (np.exp(target) == 1).all()
    assert (np.diff(found) >= 0).all()
    tiny = rmia.offline(np.array([-2.0, -2.0]), np.array([[-1e-12], [-2e-12]]), None, [-1.0], [[-1.0]], a=1.0)
    assert tiny[1] > tiny[0]
    far = rmia.online(np.array([-900.0]), np.array([[-800.0, -850.0]]), np.array([[True, False]]), [-1.0], [[-1.0]])
    assert 0 < far[0] < 1


# -- the best attack, and tuning --------------------------------------------------------------------------------------


@pytest.mark.long
def test_rmia_reaches_its_share_of_the_best_possible_auc() -> None:
    w, given = inputs(12_000, 500, 32, gain=1.5)
    online = share_of_optimum(rmia.online(**given), w)
    offline = share_of_optimum(rmia.offline(**given), w)
    assert 0.75 < online < 1
    assert 0.7 < offline < 1
    assert share_of_optimum(given["target"], w) < 0.55  # control: the loss
    shuffled = np.random.default_rng(1).permutation(w.member)
    assert auc(rmia.online(**given), shuffled) == pytest.approx(0.5, abs=0.02)


def test_tuning_is_the_mean_auc_over_reference_models_in_the_targets_place() -> None:
    _, given = inputs(200, 20, 6)
    included = given["included"].copy()
    included[:5] = np.arange(6) != 0  # only model 0 left these out: nobody knows their p_out when it is the target
    found = rmia.tune(given["shadow"], included, grid=(0.0, 0.4, 1.0))
    p, expected = np.exp(given["shadow"]), []
    for a in (0.0, 0.4, 1.0):
        areas = []
        for j in range(6):
            rows = [i for i in range(200) if any(not included[i, k] for k in range(6) if k != j)]
            out = [np.mean([p[i, k] for k in range(6) if k != j and not included[i, k]]) for i in rows]
            ratio = p[rows, j] / ((1 + a) / 2 * np.array(out) + (1 - a) / 2)
            areas.append(auc(ratio, included[rows, j]))
        expected.append(np.mean(areas))
    np.testing.assert_allclose(found.auc, expected, rtol=1e-9)
    assert found.a == (0.0, 0.4, 1.0)[int(np.argmax(expected))]
    assert found.models == 6


@pytest.mark.long
def test_the_tuned_parameter_is_nearly_the_best_on_the_target() -> None:
    for laws in ({"gain": 1.5}, {"gain": 0.5, "hardness": 0.5}, {"gain": 3.0, "hardness": 4.0}):
        w, given = inputs(6000, 100, 16, seed=2, **laws)
        areas = [auc(rmia.offline(**given, a=a), w.member) for a in rmia.GRID]
        assert auc(rmia.offline(**given), w.member) > max(areas) - 0.01
        assert max(areas) > min(areas) + 0.005  # control: a matters


def test_the_target_model_has_no_part_in_tuning() -> None:
    _, given = inputs()
    a = rmia.tune(given["shadow"], given["included"]).a
    moved = {**given, "target": given["target"][::-1] * 3}
    np.testing.assert_array_equal(rmia.offline(**moved), rmia.offline(**moved, a=a))


# -- memory and refusals ----------------------------------------------------------------------------------------------


def test_the_matrix_of_ratios_is_never_made() -> None:
    _, given = inputs(10_000, 2000, 16)
    tracemalloc.start()
    rmia.online(**given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000 * 2000 * 8 / 20


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    _, given = inputs()
    whole = rmia.online(**given)
    monkeypatch.setattr(rmia, "_BLOCK", 64)
    np.testing.assert_allclose(rmia.online(**given), whole, rtol=1e-12)
    small = {**given, "shadow": given["shadow"].astype(np.float32)}
    assert stats.spearmanr(rmia.online(**small), whole).statistic > 0.999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full(400, 0.1)}, "negative of the loss"),
        ({"target": np.full(400, -np.inf)}, "finite"),
        ({"shadow": np.full((400, 16), np.nan)}, r"shadow.*first in row 0"),
        ({"shadow": np.zeros((16, 400))}, "transpose it"),
        ({"included": np.zeros((400, 16))}, "True or False"),
        ({"included": np.zeros((400, 16), dtype=bool)}, r"learned it.*none for record 0"),
        ({"included": np.ones((400, 16), dtype=bool)}, "did not learn it"),
        ({"population": np.zeros(0)}, "population"),
        ({"population": np.zeros((3, 2))}, "population"),
        ({"population_shadow": np.zeros((149, 16))}, "population_shadow"),
        ({"population_shadow": np.full((150, 16), 0.5)}, "population_shadow"),
        ({"gamma": 0.5}, "from 1 up"),
        ({"gamma": np.nan}, "from 1 up"),
    ],
)
def test_bad_input_is_refused(change: dict, message: str) -> None:
    _, given = inputs()
    with pytest.raises(InputError, match=message):
        rmia.online(**{**given, **change})


@pytest.mark.parametrize("digits", [0, 1, 12])
def test_the_area_under_the_curve_counts_ties_one_half(digits: int) -> None:
    rng = np.random.default_rng(digits)
    inside, outside = np.round(rng.normal(0.4, 1, 300), digits), np.round(rng.normal(0, 1, 200), digits)
    label = np.repeat([1, 0], [300, 200])
    twin = roc_auc_score(label, np.concatenate([inside, outside]))
    assert rmia._auc(inside, outside) == pytest.approx(twin, abs=1e-12)
    strict = float((inside[:, None] > outside).mean())
    assert (rmia._auc(inside, outside) > strict + 1e-4) == (digits < 12)


def test_what_cannot_be_tuned_is_refused() -> None:
    _, given = inputs()
    with pytest.raises(InputError, match=r"a: .*pass a, for example 0.3"):
        rmia.offline(**{**given, "included": None})
    assert rmia.offline(**{**given, "included": None}, a=0.3).shape == (400,)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        rmia.offline(**given, a=1.2)
    with pytest.raises(InputError, match="grid"):
        rmia.tune(given["shadow"], given["included"], grid=())


def test_models_that_are_all_sure_of_the_wrong_class_leave_finite_scores() -> None:
    """A decision tree gives probability 0, held at 1e-300: the offline correction with a = 1 adds nothing to it."""
    rng = np.random.default_rng(0)
    shadow = np.where(rng.random((50, 8)) < 0.5, -700.0, -0.01)
    shadow[:10] = -700.0
    included = np.zeros((50, 8), bool)
    for row in included:
        row[rng.permutation(8)[:4]] = True
    assert 0 <= rmia.tune(shadow, included).a <= 1
