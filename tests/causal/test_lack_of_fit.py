"""A propensity that misses what its covariates say is refuted, one that does not is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from miaudit import Evidence
from miaudit.causal import lack_of_fit, propensity
from miaudit.causal.covariates import Categories
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from worlds import placebo


def measured(name: str, n: int = 2000, seed: int = 0) -> lack_of_fit.LackOfFit:
    rng = np.random.default_rng(seed)
    evidence = placebo.draw(name, n, rng)
    learned = propensity.fit(evidence, rng=rng)
    return lack_of_fit.measure(evidence, learned, rng=rng)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "missed"),
    [
        ("product", {"age", "hours"}),
        ("opposite correlations", {"age", "hours"}),
        ("sites as codes", {"age"}),
    ],
)
def test_what_a_line_misses_is_refuted_by_a_forest_and_named(name: str, missed: set[str]) -> None:
    found = measured(name)
    assert found.by_forest
    assert found.z > 6
    assert set(found.missed) == missed


@pytest.mark.long
def test_a_product_that_trees_lose_among_many_covariates_is_found_by_its_score() -> None:
    found = measured("product among 30 covariates")
    assert found.by_product
    assert set(found.product) == {"age", "hours"}
    assert set(found.product) <= set(found.missed)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("signs", "columns"), [(3, 4), (3, 6), (2, 4)])
def test_what_a_stack_cannot_learn_is_refuted_and_what_it_learns_is_not(signs: int, columns: int) -> None:
    """With two covariates tried at a split the forest passed the sign of three of four in one audit of ten."""
    rng = np.random.default_rng([signs, columns])
    x = rng.normal(size=(2000, columns))
    log_odds = 1.5 * np.sign(x[:, :3].prod(axis=1)) if signs == 3 else x[:, 0] * x[:, 1]
    evidence = Evidence(score=log_odds, member=rng.random(2000) < special.expit(log_odds), covariates=x)
    found = lack_of_fit.measure(evidence, propensity.stacked(evidence, rng=rng), rng=rng)
    assert found.by_forest == (signs == 3)
    assert found.z > 4 or signs == 2
    assert signs == 2 or set(found.missed) == {f"covariate {i}" for i in range(3)}


@pytest.mark.parametrize(("world", "refuted"), [("sum of four", True), ("one covariate", False), ("line", False)])
def test_a_threshold_of_a_weighted_sum_refutes_a_stack_and_what_it_learns_does_not(world: str, refuted: bool) -> None:
    """A forest alone passed 35 of 200 signs of a sum of four, each with a wrong limit."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 4))
    log_odds = {"sum of four": 1.3 * np.sign(x.sum(axis=1)), "one covariate": 1.3 * np.sign(x[:, 0]), "line": x[:, 1]}
    evidence = Evidence(score=x[:, 0], member=rng.random(2000) < special.expit(log_odds[world]), covariates=x)
    stack = propensity.stacked(evidence, rng=rng)
    found = lack_of_fit.measure(evidence, stack, rng=rng)
    assert found.by_sum == refuted
    assert found.sum_z is not None and (found.sum_z > 7) == refuted
    assert found.rejected or not refuted
    assert lack_of_fit.measure(evidence, stack.line, rng=rng).sum_z is None


@pytest.mark.thorough
@pytest.mark.long
def test_a_line_is_not_refuted_by_a_line() -> None:
    found = [measured("line", seed=seed) for seed in range(4)]
    assert not any(one.rejected for one in found)
    assert all(one.missed == () for one in found)


def test_products_are_as_if_they_were_tried_one_by_one() -> None:
    rng = np.random.default_rng(0)
    n, d = 300, 4
    x = rng.normal(size=(n, d))
    member = rng.random(n) < special.expit(x[:, 0])
    values = special.expit(0.7 * x[:, 0] + 0.1)
    unit = np.repeat(np.arange(n // 2), 2)
    for code in (None, unit):
        evidence = Evidence(score=x[:, 1], member=member, covariates=x, unit=code)
        z, limit, pair = lack_of_fit._products(evidence, values, x)
        best = 0.0
        s = special.ndtri((x.argsort(axis=0).argsort(axis=0) + 0.5) / n)
        s = (s - s.mean(axis=0)) / s.std(axis=0)
        w = values * (1 - values)
        for i in range(d):
            for j in range(i, d):
                p = s[:, i] * s[:, j]
                p = p - np.average(p, weights=w)
                variance = (w * p**2).sum()
                if code is not None:
                    variance = max(variance, (np.bincount(code, (member - values) * p) ** 2).sum())
                best = max(best, abs(((member - values) * p).sum()) / np.sqrt(variance))
        assert z == pytest.approx(best, rel=1e-9)
        assert limit == 4.0
        assert len(pair) in (1, 2)


@pytest.mark.slow
def test_noise_of_learning_is_no_lack_of_fit() -> None:
    """A strong category beside thirty columns that say nothing: coefficients err, and balance is what judges that."""
    refuted = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        member = np.arange(2000) < 1000
        home = rng.random(2000) < np.where(member, 0.7, 0.3)
        site = np.where(home, rng.integers(0, 2, 2000), rng.integers(2, 4, 2000))
        x = np.c_[site, rng.normal(size=(2000, 30))]
        evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
        learned = propensity.fit(evidence, encoding=Categories((0,)), rng=rng)
        refuted.append(lack_of_fit.measure(evidence, learned, rng=rng).z > 2)
    assert sum(refuted) <= 1


@pytest.mark.long
def test_a_given_propensity_with_the_wrong_scale_is_refuted() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    member = rng.random(3000) < special.expit(x[:, 0])
    evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
    right, wrong = (Propensity.given(special.expit(k * x[:, 0])) for k in (1.0, 3.0))
    assert not lack_of_fit.measure(evidence, right, rng=rng).rejected
    assert lack_of_fit.measure(evidence, wrong, rng=rng).rejected


@pytest.mark.long
def test_copies_of_the_same_units_are_no_further_evidence() -> None:
    """Ten copies of each record make chance look like a pattern, unless they are declared to be one unit."""
    rng = np.random.default_rng(3)
    x = np.repeat(rng.normal(size=(200, 3)), 10, axis=0)
    member = np.repeat(rng.random(200) < 0.5, 10)
    truth = Propensity.given(np.full(2000, 0.5))
    evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
    declared = evidence.replace(unit=np.repeat(np.arange(200), 10))
    assert lack_of_fit.measure(evidence, truth, rng=np.random.default_rng(0)).rejected
    assert not lack_of_fit.measure(declared, truth, rng=np.random.default_rng(0)).rejected


@pytest.mark.long
def test_the_limit_of_products_counts_all_that_are_tried() -> None:
    """Of 20 columns 210 products and squares: Bonferroni's 1%. Of few columns 4 standard errors."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 20))
    member = rng.random(400) < 0.5
    for d, limit in ((20, -special.ndtri(0.01 / (2 * 210))), (3, 4.0)):
        evidence = Evidence(score=x[:, 0], member=member, covariates=x[:, :d])
        found = lack_of_fit.measure(evidence, Propensity.given(np.full(400, 0.5)), rng=rng)
        assert found.product_limit == pytest.approx(limit, abs=0.01)  # few of them rest on too few records


def test_constant_and_rare_columns_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    n = 1000
    x = np.c_[np.zeros(n), np.arange(n) < 2, rng.normal(size=n)]
    member = rng.random(n) < 0.5
    evidence = Evidence(score=x[:, 2], member=member, covariates=x, design="zero-run")
    found = lack_of_fit.measure(evidence, Propensity.given(np.full(n, 0.5)), rng=rng)
    assert np.isfinite(found.z)
    assert (found.rejected, found.missed) == (False, ())
    assert "covariate 1" not in found.product
    alone = evidence.replace(covariates=(np.arange(n) % 2)[:, None])
    found = lack_of_fit.measure(alone, Propensity.given(np.full(n, 0.5)), rng=rng)
    assert (found.product, found.product_limit) == ((), None)


def test_without_covariates_there_is_nothing_to_ask() -> None:
    evidence = Evidence(score=range(40), member=np.arange(40) < 20, design="zero-run")
    with pytest.raises(InputError, match=r"evidence\.covariates"):
        lack_of_fit.measure(evidence, Propensity.given(np.full(40, 0.5)), rng=np.random.default_rng(0))


def test_the_limit_of_many_products_is_that_of_bonferroni() -> None:
    """Of 20 columns 210 products and squares, each of which many records are behind."""
    rng = np.random.default_rng(1)
    x, member = rng.normal(size=(2000, 20)), rng.random(2000) < 0.5
    evidence = Evidence(score=x[:, 0], member=member, covariates=x)
    z, limit, _ = lack_of_fit._products(evidence, np.full(2000, 0.5), x)
    assert limit == pytest.approx(-special.ndtri(0.01 / (2 * 210)), rel=1e-9)
    assert z is not None and limit > 4 and z < limit


def test_the_statistic_of_calibrated_log_odds_that_are_held_within_two_by_one_equation() -> None:
    """Two folds alike, with signals of either sign: Platt's line goes through 0, its slope is a root, less than 1."""
    signal = np.repeat([1.0, -1.0, 6.0, -6.0], [50, 50, 30, 30])
    inside = np.r_[np.arange(50) < 30, np.arange(50) < 20, np.ones(30), np.zeros(30)] > 0
    raw, member, fold = np.tile(signal, 2), np.tile(inside, 2), np.repeat([0, 1], 160)
    top, low = 81 / 82, 1 / 82  # Platt's targets of 80 members and 80 non-members

    def slope_of(s: float) -> float:
        near, far = special.expit(s) - (0.6 * top + 0.4 * low), special.expit(6 * s) - top
        return float(50 * near + 6 * 30 * far)

    s = optimize.brentq(slope_of, 0.0, 5.0)
    assert s < 1 and 6 * s > 3
    evidence = Evidence(score=raw, member=member)
    z = lack_of_fit._z(evidence, np.full(320, 0.5), fold, np.full((320, 1), 320**-0.5), raw)
    gained, variance = 10 * s + 60 * 0.5 * 2, 0.25 * (100 * s**2 + 60 * 2**2)  # of one fold
    assert z == pytest.approx(2 * gained / np.sqrt(2 * variance), rel=1e-6)


@pytest.mark.parametrize(
    ("records", "columns", "stacked", "tried"),
    [
        (60, 2, True, 2),
        (60, 9, True, 4),
        (60, 36, True, 6),
        (60, 9, False, 9),
        (60, 36, False, 13),
        (400, 16, False, 4),
    ],
)
def test_a_split_tries_few_columns_against_a_stack_and_as_many_as_records_allow_against_a_line(
    records: int, columns: int, stacked: bool, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at least or the root of their number; else the root at least, and more where records are few."""
    monkeypatch.setattr(lack_of_fit, "_SPLITS", 800)
    monkeypatch.setattr(lack_of_fit, "_TREES", 1)
    x = np.random.default_rng(0).normal(size=(records, columns)).astype(np.float32)
    out = np.arange(records) < 5
    (tree,) = lack_of_fit._forest(x, x[:, 0] > 0, out, stacked, np.random.default_rng(0))
    assert tree.max_features_ == tried


def test_what_refutes_a_stack_is_said_of_one_covariate_and_of_two() -> None:
    def sentence(*product: str, **more: object) -> str:
        values = {
            "z": 1.0,
            "limit": lack_of_fit.STACKED_LIMIT,
            "product_z": 5.0,
            "product_limit": 3.5,
            "missed": product,
        }
        return lack_of_fit.LackOfFit(product=product, rejected=True, **{**values, **more}).sentence

    assert "after weighting, age still tells members apart (by 5.0 standard errors" in sentence("age")
    assert "after weighting, age and pay together still tell members apart" in sentence("age", "pay")
    assert sentence("age", limit=lack_of_fit.LIMIT).endswith("It misses age, squared.")
    assert sentence("age", "pay", limit=lack_of_fit.LIMIT).endswith("It misses age and pay together.")
    by_forest = sentence("age", z=9.0, missed=("age", "pay"), product_z=1.0)
    assert by_forest.endswith("(z 9.0, refuted above 2.33). It misses what age and pay say.")
    by_sum = "a threshold of a weighted sum of the covariates foresees membership better (z 5.0, refuted above 4)."
    assert sentence("age", "pay", sum_z=5.0).endswith(f"{by_sum} It also misses age and pay together.")
    assert sentence("age", "pay", sum_z=5.0, product_z=1.0).endswith(by_sum)


def test_a_margin_allows_the_largest_mean_of_all_log_odds_within_it() -> None:
    """Every corner of the box of log-odds, one by one."""
    rng = np.random.default_rng(0)
    values, change, margin = rng.uniform(0.05, 0.95, size=8), rng.normal(size=8), 0.7
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1).T
    means = (special.expit(special.logit(values) + margin * signs) - values) @ change
    assert lack_of_fit._allowed(values, change, margin) == pytest.approx(means.max())
    assert lack_of_fit._allowed(values, change, 0.0) == pytest.approx(0.0)


@pytest.mark.long
@pytest.mark.parametrize("columns", [2, 12])  # a forest sees the product among two covariates, its score among twelve
def test_log_odds_within_the_margin_are_not_refuted_and_others_are(columns: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, columns))
    truth = 0.5 * np.sign(x[:, 0] * x[:, 1])  # 0.5 from even odds everywhere
    evidence = Evidence(score=x[:, 0], member=rng.random(4000) < special.expit(truth), covariates=x)
    even = Propensity.given(np.full(4000, 0.5))
    rejected = {
        margin: lack_of_fit.measure(evidence, even, margin=margin, rng=np.random.default_rng(1)).rejected
        for margin in (0.0, 0.1, 0.5)
    }
    assert rejected == {0.0: True, 0.1: True, 0.5: False}
