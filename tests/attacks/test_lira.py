"""LiRA against loops over records with scipy's densities, and against the best attack in a world where it is known."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from miaudit.attacks import lira
from miaudit.errors import InputError
from worlds.shadow import World, auc, share_of_optimum

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "mia_scores_location30" / "location30_mia_scores.npz"


def world(n: int = 300, models: int = 40, seed: int = 0, **laws: float) -> World:
    return World.draw(n, models, np.random.default_rng(seed), **laws)


def uneven(n: int, models: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unequal counts on the sides, from 1 model on."""
    rng = np.random.default_rng(seed)
    included = rng.random((n, models)) < rng.uniform(0.1, 0.9, n)[:, None]
    included[:, 0], included[:, 1] = True, False
    return rng.normal(3, 2, n), rng.normal(3, 2, (n, models)) + included, included


# -- slow twins: one record at a time ---------------------------------------------------------------------------------


def twin_variances(shadow: np.ndarray, taken: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Variance of one side of each record: its own, or the mean within records."""
    squares = sum(((x[t] - x[t].mean()) ** 2).sum() for x, t in zip(shadow, taken, strict=True) if t.any())
    freedom = sum(max(t.sum() - 1, 0) for t in taken)
    return np.array(
        [max(x[t].var(), 1e-6 * squares / freedom) if o else squares / freedom
         for x, t, o in zip(shadow, taken, own, strict=True)]
    )  # fmt: skip


def twin_online(target: np.ndarray, shadow: np.ndarray, included: np.ndarray, variance: str) -> np.ndarray:
    fewest = np.minimum(included.sum(1), (~included).sum(1))
    own = (fewest >= lira.LEAST_FOR_RECORD) & (variance == "record")
    var_in, var_out = twin_variances(shadow, included, own), twin_variances(shadow, ~included, own)
    return np.array(
        [
            stats.norm.logpdf(t, x[i].mean(), a**0.5) - stats.norm.logpdf(t, x[~i].mean(), b**0.5)
            for t, x, i, a, b in zip(target, shadow, included, var_in, var_out, strict=True)
        ]
    )


def twin_offline(target: np.ndarray, shadow: np.ndarray, included: np.ndarray, variance: str) -> np.ndarray:
    own = ((~included).sum(1) >= lira.LEAST_FOR_RECORD) & (variance == "record")
    var = twin_variances(shadow, ~included, own)
    rows = zip(target, shadow, included, var, strict=True)
    return np.array([stats.norm.cdf(t, x[~i].mean(), v**0.5) for t, x, i, v in rows])


@pytest.mark.parametrize("variance", ["record", "global"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("models", [6, 24, 61])
def test_online_is_the_ratio_of_two_normal_densities(variance: str, dtype: type, models: int) -> None:
    target, shadow, included = uneven(200, models)
    shadow = shadow.astype(dtype)
    expected = twin_online(target, shadow.astype(np.float64), included, variance)
    np.testing.assert_allclose(lira.online(target, shadow, included, variance=variance), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variance", ["record", "global"])
def test_offline_is_the_distribution_function_of_the_out_side(variance: str) -> None:
    target, shadow, included = uneven(200, 24)
    z = lira.offline(target, shadow, included, variance=variance)
    np.testing.assert_allclose(stats.norm.cdf(z), twin_offline(target, shadow, included, variance), atol=1e-12)
    both = lira.offline(target, shadow, included, variance=variance, sides=2)
    np.testing.assert_allclose(both, np.abs(z))
    out_only = lira.offline(target, np.where(included, 1e9, shadow), included, variance=variance)
    np.testing.assert_allclose(out_only, z, rtol=1e-6)  # models that learned the record are not looked at
    unseen = lira.offline(target, shadow, variance=variance)
    np.testing.assert_array_equal(unseen, lira.offline(target, shadow, np.zeros_like(included), variance=variance))


def test_offline_keeps_apart_what_the_normal_tail_rounds_to_one() -> None:
    shadow = np.tile(np.random.default_rng(0).normal(size=40), (3, 1))
    z = lira.offline([30.0, 31.0, 32.0], shadow)
    assert len(set(stats.norm.cdf(z))) == 1
    assert z[0] < z[1] < z[2]


@pytest.mark.parametrize("variance", ["record", "global"])
def test_one_sided_online_is_linear_and_two_sided_turns_back(variance: str) -> None:
    w = world(200, 40, spread=0.5)
    grid = np.linspace(-60, 60, 41)
    lines = np.stack([lira.online(np.full(200, g), w.shadow, w.included, variance=variance, sides=1) for g in grid])
    np.testing.assert_allclose(np.diff(lines, 2, axis=0), 0, atol=1e-8)
    learned = np.array([(x[i].mean() > x[~i].mean()) for x, i in zip(w.shadow, w.included, strict=True)])
    assert ((np.diff(lines, axis=0) > 0).all(axis=0) == learned).all()
    parabolas = np.stack([lira.online(np.full(200, g), w.shadow, w.included) for g in grid])
    assert (np.diff(np.sign(np.diff(parabolas, axis=0)), axis=0) != 0).any(axis=0).mean() > 0.9  # control


@pytest.mark.parametrize("variance", ["record", "global"])
def test_several_augmentations_are_averaged(variance: str) -> None:
    rng = np.random.default_rng(1)
    w = world(100, 40)
    target, shadow = rng.normal(size=(100, 3)), w.shadow[:, :, None] + rng.normal(size=(100, 40, 3))
    options = {"variance": variance}
    for attack, more in (
        (lira.online, {}),
        (lira.online, {"sides": 1}),
        (lira.offline, {}),
        (lira.offline, {"sides": 2}),
    ):
        each = [attack(target[:, a], shadow[:, :, a], w.included, **options, **more) for a in range(3)]
        found = attack(target, shadow, w.included, **options, **more)
        np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-9, atol=1e-9)
    twice = lira.online(np.stack([w.target] * 2, 1), np.stack([w.shadow] * 2, 2), w.included, variance=variance)
    np.testing.assert_allclose(twice, lira.online(w.target, w.shadow, w.included, variance=variance), rtol=1e-9)


# -- the best attack --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "spread", "options", "least"),
    [
        (64, 0.5, {}, 0.95),
        (64, 0.0, {"variance": "global"}, 0.97),
        (32, 0.5, {}, 0.93),
        (16, 0.5, {"sides": 1}, 0.86),  # the global variance, though the records' own differ here
        (16, 0.0, {"variance": "global"}, 0.92),
        (4, 0.0, {}, 0.78),  # falls back to the global variance
    ],
)
def test_online_reaches_its_share_of_the_best_possible_auc(
    models: int, spread: float, options: dict, least: float
) -> None:
    w = world(12_000, models, seed=models, gain=1.5, spread=spread)
    share = share_of_optimum(lira.online(w.target, w.shadow.astype(np.float32), w.included, **options), w)
    assert least < share < 1.01
    assert share_of_optimum(w.target, w) < 0.55  # control: the raw statistic, which hard records hide


def test_offline_reaches_its_share() -> None:
    w = world(12_000, 64, seed=3, gain=1.5, spread=0.5)
    assert 0.84 < share_of_optimum(lira.offline(w.target, w.shadow, w.included), w) < 0.95


def test_two_or_three_models_on_a_side_take_the_global_variance() -> None:
    w = world(8000, 6, seed=4, gain=1.5)
    fallback = lira.online(w.target, w.shadow, w.included)
    np.testing.assert_array_equal(fallback, lira.online(w.target, w.shadow, w.included, variance="global"))
    own = twin_own(w)
    assert auc(fallback, w.member) > auc(own, w.member) + 0.05  # control: variances of three models


def twin_own(w: World) -> np.ndarray:
    inside = np.where(w.included, w.shadow, np.nan)
    outside = np.where(w.included, np.nan, w.shadow)
    a = stats.norm.logpdf(w.target, np.nanmean(inside, 1), np.nanstd(inside, 1))
    return a - stats.norm.logpdf(w.target, np.nanmean(outside, 1), np.nanstd(outside, 1))


def joint_gaussian(target: np.ndarray, shadow: np.ndarray, included: np.ndarray) -> np.ndarray:
    """The paper's multivariate ratio, with each record's variances and the correlation of all records' residuals."""
    sides = [np.where(side[:, :, None], shadow, np.nan) for side in (included, ~included)]
    residual = np.concatenate([s - np.nanmean(s, axis=1, keepdims=True) for s in sides], axis=1)
    flat = residual.reshape(-1, shadow.shape[2])
    inverse = np.linalg.inv(np.corrcoef(flat[~np.isnan(flat[:, 0])].T))
    log_densities = []
    for s in sides:
        z = (target - np.nanmean(s, axis=1)) / np.nanstd(s, axis=1)
        log_densities.append(-0.5 * np.einsum("ij,jk,ik->i", z, inverse, z) - np.log(np.nanstd(s, axis=1)).sum(axis=1))
    return log_densities[0] - log_densities[1]


@pytest.mark.long
@pytest.mark.parametrize(("noise", "models"), [((1.0, 1.0, 1.0), 16), ((1.0, 1.0, 1.0), 64), ((0.5, 1.0, 1.0), 32)])
def test_averaged_augmentations_beat_a_joint_gaussian_and_a_single_one(noise: tuple[float, ...], models: int) -> None:
    rng = np.random.default_rng(5)
    w = world(6000, models, seed=5, gain=1.5, spread=0.3)
    shadow = w.shadow[:, :, None] + noise * rng.normal(size=(6000, models, 3))
    target = w.target[:, None] + noise * rng.normal(size=(6000, 3))
    found = auc(lira.online(target, shadow, w.included), w.member)
    assert found > auc(joint_gaussian(target, shadow, w.included), w.member) + 0.015
    assert found > auc(lira.online(target[:, 1], shadow[:, :, 1], w.included), w.member) + 0.015


@pytest.mark.parametrize("attack", [lira.online, lira.offline])
def test_permuted_inclusion_destroys_the_attack(attack: object) -> None:
    w = world(6000, 32, seed=6, hardness=0.0, gain=2.0)
    rng = np.random.default_rng(7)
    shuffled = rng.permutation(w.member)
    assert auc(attack(w.target, w.shadow, w.included), w.member) > 0.8
    assert auc(attack(w.target, w.shadow, w.included), shuffled) == pytest.approx(0.5, abs=0.03)
    wrong = rng.permuted(w.included, axis=1)  # in and out models mixed: the ratio knows nothing
    assert auc(lira.online(w.target, w.shadow, wrong), w.member) == pytest.approx(0.5, abs=0.06)


# -- memory, types, blocks --------------------------------------------------------------------------------------------


def test_memory_maps_transposed_views_and_small_floats_give_the_same(tmp_path: Path) -> None:
    w = world(3000, 32)
    shadow = w.shadow.astype(np.float32)
    expected = lira.online(w.target, shadow, w.included)
    np.save(tmp_path / "s.npy", np.ascontiguousarray(shadow.T))
    mapped = np.load(tmp_path / "s.npy", mmap_mode="r", allow_pickle=False).T
    np.testing.assert_array_equal(lira.online(w.target, mapped, w.included), expected)
    np.testing.assert_array_equal(lira.online(w.target, shadow, w.included.astype(np.uint8)), expected)
    half = lira.online(w.target, shadow.astype(np.float16), w.included)
    assert stats.spearmanr(half, expected).statistic > 0.999


def test_pages_of_a_memory_map_are_handed_back_unless_they_hold_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(3000, 32)
    np.save(tmp_path / "s.npy", w.shadow)
    expected = lira.online(w.target, w.shadow, w.included)
    monkeypatch.setattr(lira, "_RELEASE_AFTER", 1)
    np.testing.assert_array_equal(
        lira.online(w.target, np.load(tmp_path / "s.npy", mmap_mode="r"), w.included), expected
    )
    private = np.load(tmp_path / "s.npy", mmap_mode="c")
    private[:] = -private
    changed = lira.online(w.target, private, w.included)
    np.testing.assert_array_equal(private, -w.shadow)
    np.testing.assert_array_equal(changed, lira.online(w.target, -w.shadow, w.included))


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(500, 32)
    whole = lira.online(w.target, w.shadow, w.included)
    health = lira.health(w.shadow**3, w.included)
    monkeypatch.setattr(lira, "_BLOCK", 100)
    np.testing.assert_allclose(lira.online(w.target, w.shadow, w.included), whole, rtol=1e-12)
    assert lira.health(w.shadow**3, w.included) == health


def test_shadow_outputs_are_never_copied_whole() -> None:
    rng = np.random.default_rng(8)
    shadow = rng.normal(size=(20_000, 64)).astype(np.float32)
    included, target = rng.random((20_000, 64)) < 0.5, rng.normal(size=20_000)
    tracemalloc.start()
    lira.online(target, shadow, included)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.0 * shadow.nbytes


def test_large_offsets_cost_no_digits() -> None:
    w = world(200, 32)
    far = lira.online(w.target + 1e6, w.shadow + 1e6, w.included)
    np.testing.assert_allclose(far, lira.online(w.target, w.shadow, w.included), rtol=1e-6, atol=1e-6)


def test_shadow_models_that_agree_leave_scores_finite() -> None:
    included = np.tile(np.arange(20) % 2 == 0, (4, 1))
    shadow = np.where(included, 2.0, 0.0) * np.ones((4, 1))
    score = lira.online([0.0, 0.9, 1.1, 2.0], shadow, included)
    assert np.isfinite(score).all()
    assert (np.diff(score) > 0).all()
    mixed = np.r_[shadow, np.random.default_rng(9).normal(size=(4, 20))]  # one record saturated, others not
    assert np.isfinite(lira.online(np.r_[np.arange(4.0), np.zeros(4)], mixed, np.r_[included, included])).all()


# -- health -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("count", [8, 13, 32, 100])
def test_anderson_darling_is_a_test_of_its_level(count: int) -> None:
    rng = np.random.default_rng(count)
    values = np.concatenate([rng.normal(3, 7, (20_000, count)), np.full((20_000, 4), 50.0)], axis=1)
    taken = np.arange(count + 4) < count
    p_values = lira.anderson_darling(values, np.tile(taken, (20_000, 1)))
    for level in (0.01, 0.05, 0.2):
        assert (p_values <= level).mean() == pytest.approx(level, rel=0.25)
    power = lira.anderson_darling(rng.exponential(size=(500, count)), np.ones((500, count), dtype=bool))
    assert (power <= 0.05).mean() > (0.15 if count == 8 else 0.4)  # control


def test_anderson_darling_statistic_is_scipys() -> None:
    rng = np.random.default_rng(10)
    for count in (8, 20, 50):
        x = rng.normal(size=count)
        z = np.sort((x - x.mean()) / x.std(ddof=1))
        i = np.arange(1, count + 1)
        a = -count - np.sum((2 * i - 1) / count * (stats.norm.logcdf(z) + stats.norm.logsf(z[::-1])))
        scipys = stats.anderson(x, "norm", method="interpolate").statistic
        assert a == pytest.approx(scipys)
        expected = lira._table_4_9(np.array([a * (1 + 0.75 / count + 2.25 / count**2)]))[0]
        assert lira.anderson_darling(x[None], np.ones((1, count), dtype=bool))[0] == pytest.approx(expected)


def test_p_values_fall_as_the_statistic_rises() -> None:
    grid = np.linspace(0.01, 200, 100_000)
    p_values = lira._table_4_9(grid)
    assert (np.diff(p_values) < 0.004).all()  # the published pieces meet within their rounding
    assert (np.diff(p_values[grid > 0.7]) <= 0).all()
    assert p_values[-1] < 1e-100


def test_health_finds_records_that_are_not_gaussian_and_few_others() -> None:
    w = world(2000, 64, seed=11, spread=0.5)
    clean = lira.health(w.shadow, w.included)
    assert clean.far is not None
    assert clean.far <= 0.002
    assert clean.note == ""
    assert (clean.records, clean.models, clean.fewest_in, clean.fewest_out, clean.tested) == (2000, 64, 32, 32, 2000)
    skewed = w.shadow.copy()
    skewed[:600] = np.random.default_rng(12).exponential(size=(600, 64)) ** 2
    found = lira.health(skewed, w.included)
    assert found.far == pytest.approx(0.3, abs=0.02)
    assert f"does not fit {found.far:.1%} of the 2,000 records tested" in found.note
    sample = lira.health(skewed, w.included, most=500)
    assert sample.tested == 500
    assert sample.far == pytest.approx(0.3, abs=0.02)


def test_false_discoveries_are_controlled_as_scipy_does() -> None:
    rng = np.random.default_rng(13)
    p = np.r_[rng.random(900), rng.random(100) * 1e-3]
    expected = np.mean(stats.false_discovery_control(p, method="bh") <= 0.05)
    assert lira._share_rejected(p, 0.05) == pytest.approx(expected)
    assert lira._share_rejected(np.array([0.2, 0.9]), 0.05) == 0


def test_health_says_where_the_variance_is_not_the_records_own() -> None:
    w = world(100, 8)
    found = lira.health(w.shadow, w.included)
    assert found.global_variance == 1.0
    assert found.far is None
    assert "every record has fewer than 16 shadow models that learned it, or that did not (8 in all)" in found.note
    assert "A test of its Gaussian model takes 8 shadow models" in found.note
    asked = lira.health(w.shadow, w.included, variance="global")
    assert "fewer than 16" not in asked.note
    target, shadow, included = uneven(400, 34)
    part = lira.health(shadow, included)
    fewest = np.minimum(included.sum(1), (~included).sum(1))
    assert part.global_variance == pytest.approx((fewest < lira.LEAST_FOR_RECORD).mean())
    assert 0 < part.global_variance < 1
    del target


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused() -> None:
    w = world(50, 20)
    bad = w.shadow.copy()
    bad[17, 3] = np.nan
    with pytest.raises(InputError, match=r"shadow.*first in row 17"):
        lira.online(w.target, bad, w.included)
    bad[17, 3] = np.inf
    with pytest.raises(InputError, match="row 17"):
        lira.offline(w.target, bad, w.included)
    with pytest.raises(InputError, match="row 17"):
        lira.health(bad, w.included)
    point = w.target.copy()
    point[4] = np.nan
    with pytest.raises(InputError, match=r"target.*row 4"):
        lira.online(point, w.shadow, w.included)
    nobody = w.included.copy()
    nobody[9] = False
    with pytest.raises(InputError, match="record 9"):
        lira.online(w.target, w.shadow, nobody)
    assert np.isfinite(lira.offline(w.target, w.shadow, nobody)).all()
    nobody[9] = True
    with pytest.raises(InputError, match="record 9"):
        lira.offline(w.target, w.shadow, nobody)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.zeros(49)}, "other records"),
        ({"target": np.zeros((50, 2))}, "augmentations"),
        ({"target": np.array(["a"] * 50)}, "target"),
        ({"shadow": np.zeros((20, 50))}, "transpose it"),
        ({"shadow": np.zeros((50, 1))}, "one shadow model"),
        ({"shadow": np.zeros((50, 20), dtype=object)}, "shadow"),
        ({"included": np.zeros((20, 50), dtype=bool)}, "transpose it"),
        ({"included": np.zeros((50, 20))}, "True or False"),
        ({"included": None}, "included"),
        ({"included": np.full((50, 20), 2)}, "other whole numbers"),
        ({"variance": "recrod"}, "did you mean record"),
        ({"sides": 3}, "1 or 2"),
    ],
)
def test_wrong_shapes_and_options_are_refused(change: dict, message: str) -> None:
    w = world(50, 20)
    given = {"target": w.target, "shadow": w.shadow, "included": w.included, **change}
    with pytest.raises(InputError, match=message) as found:
        lira.online(**given)
    assert "\n" not in str(found.value)


def test_one_model_on_every_side_is_too_few() -> None:
    included = np.tile([True, False], (30, 1))
    with pytest.raises(InputError, match="at least four shadow models"):
        lira.online(np.zeros(30), np.random.default_rng(0).normal(size=(30, 2)), included)


def test_rows_of_other_records_are_refused() -> None:
    w = world(50, 20)
    lira.check(w.target, w.shadow, w.included, target_rows=np.arange(50), shadow_rows=np.arange(50))
    with pytest.raises(InputError, match=r"20 shadow models on 50 other records.*shadow_classifier"):
        lira.check(w.target, w.shadow, w.included, target_rows=np.arange(50), shadow_rows=np.arange(50) + 1)
    with pytest.raises(InputError, match="level"):
        lira.health(w.shadow, w.included, level=1.0)
    with pytest.raises(InputError, match="most"):
        lira.health(w.shadow, w.included, most=0)


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")
def test_published_scores_of_one_shadow_model_are_refused() -> None:
    with np.load(DATA, allow_pickle=False) as z:
        target, shadow, member = -z["target_loss"], -z["shadow_loss"], z["shadow_member"].astype(bool)
        rows, others = z["target_row"], z["shadow_row"]
    with pytest.raises(InputError, match=r"one shadow model on 1,000 other records.*shadow_classifier"):
        lira.check(target, shadow, member, target_rows=rows, shadow_rows=others)
    with pytest.raises(InputError, match="one shadow model"):
        lira.online(target, shadow, member)
    with pytest.raises(InputError, match="one shadow model on 1,000 other records"):
        lira.check(target[:1000], shadow[:, None], member[:, None], target_rows=rows[:1000], shadow_rows=others)
