"""Whether covariates identify members although chance decided: exact in worlds of every kind, and it finds shifts."""

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import covariates, propensity, randomisation
from miaudit.errors import InputError
from miaudit.metrics.classical import Sample


def fair(name, rng):
    """Covariates (n, d), fair coins and units of one world."""
    coins = rng.random(150) < 0.5
    if name == "few records":
        return rng.normal(size=(30, 3)), coins[:30], None
    if name == "heavy tails":
        return rng.standard_cauchy(size=(120, 4)) ** 3, coins[:120], None
    if name == "fifty columns":
        return rng.normal(size=(150, 50)), coins, None
    if name == "units":
        of = np.repeat(np.arange(60), rng.integers(1, 9, 60))
        return rng.normal(size=(60, 4))[of] + rng.normal(size=(len(of), 4)) / 10, coins[:60][of], of
    if name == "persons in households":
        house, person = np.repeat(np.arange(40), 6), np.repeat(np.arange(120), 2)
        return rng.normal(size=(40, 3))[house] + rng.normal(size=(120, 3))[person], coins[:120][person], house
    if name == "duplicates":
        return rng.normal(size=(40, 3))[rng.integers(0, 40, 150)], coins, None
    if name == "households that nobody declared":
        of = np.repeat(np.arange(60), 4)
        return rng.normal(size=(60, 3))[of], coins[:60][of], None
    if name == "codes":
        return np.c_[rng.integers(0, 30, 150), rng.integers(0, 3, 150)].astype(float), coins, None
    member = np.zeros(150, np.bool_)
    member[rng.permutation(150)[:30]] = True
    return rng.normal(size=(150, 5)), member, None  # fixed class sizes


WORLDS = (
    *("few records", "heavy tails", "fifty columns", "units", "persons in households", "duplicates"),
    *("households that nobody declared", "codes", "fixed class sizes"),
)


def measured(x, member, unit=None, seed=0):
    evidence = Evidence(score=np.zeros(len(member)), member=member, covariates=x, unit=unit)
    return randomisation.alone(evidence, covariates.Numbers(), confidence=0.95, rng=np.random.default_rng(seed))


def p_values(name, audits, seed):
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < audits:
        x, member, unit = fair(name, rng)
        code = np.arange(len(member)) if unit is None else unit
        if min(len(np.unique(code[own])) for own in (member, ~member)) >= 2 * randomisation.FOLDS:
            found.append(measured(x, member, unit, seed=len(found)).p_value)
    return np.array(found)


@pytest.mark.thorough
@pytest.mark.parametrize("name", WORLDS)
def test_p_values_of_fair_coins_are_uniform_or_larger(name):
    found = p_values(name, 300, seed=1)
    for level in (0.01, 0.05, 0.25):
        assert np.mean(found <= level) <= level + 4 * np.sqrt(level * (1 - level) / 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_fair_coins_are_refuted_in_one_of_a_thousand_audits(name):
    found = p_values(name, 6000, seed=2)
    assert np.count_nonzero(found < 0.001) <= 15  # 6 are expected, and more than 15 once in 2,000


@pytest.mark.thorough
def test_records_that_were_assigned_together_need_their_unit():
    """The control: the same households, taken for records, are refuted far too often."""
    rng, refuted = np.random.default_rng(3), 0
    for seed in range(40):
        x, member, _ = fair("units", rng)
        refuted += measured(x, member, seed=seed).p_value < 0.001
    assert refuted > 10


@pytest.mark.long
@pytest.mark.parametrize("kind", ["line", "middle", "codes", "product", "tails"])
def test_a_shift_is_found_whatever_its_form(kind):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 3))
    if kind == "codes":
        x[:, 0] = rng.integers(0, 30, 2000)
    if kind == "tails":
        x = rng.standard_cauchy(size=(2000, 3))
    towards = {
        "line": lambda: x[:, 0],
        "middle": lambda: x[:, 0] ** 2 - 1,
        "codes": lambda: rng.normal(size=30)[x[:, 0].astype(int)],
        "product": lambda: x[:, 0] * x[:, 1],
        "tails": lambda: np.tanh(x[:, 0]),
    }[kind]()
    member = rng.random(2000) < 1 / (1 + np.exp(-towards))
    found = measured(x, member)
    assert found.p_value == 1 / (randomisation.PERMUTATIONS + 1)
    assert found.auc.low > 0.55
    assert measured(x, rng.permutation(member)).p_value > 0.001  # the control: the same coins, handed out by chance


@pytest.mark.long
def test_the_auc_is_that_of_another_learner():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4000, 5))
    member = rng.random(4000) < 1 / (1 + np.exp(-x[:, 0]))
    evidence = Evidence(score=x[:, 0], member=member, covariates=x)
    line = propensity.fit(evidence, rng=rng)
    by_line = Sample.of(Evidence(score=np.log(line.odds), member=member)).roc.auc
    assert abs(measured(x, member).auc.value - by_line) < 0.01


def test_the_order_of_columns_and_of_records_decides_nothing():
    rng = np.random.default_rng(6)
    x = np.c_[rng.normal(size=(300, 4)), rng.integers(0, 5, 300)]
    table = [
        randomisation.features(
            covariates.table_of(Evidence(score=x[:, 0], member=x[:, 0] > 0, covariates=own), covariates.Numbers()),
            covariates.Numbers(),
        )
        for own in (x, x[:, ::-1])
    ]
    both = [np.sort((one.T @ x[:, 0]).round(6)) for one in table]
    np.testing.assert_allclose(*both)


def test_features_of_a_piece_are_the_means_of_its_records():
    rng = np.random.default_rng(9)
    x, piece = rng.normal(size=(50, 3)), np.r_[np.arange(12), rng.integers(0, 12, 38)]
    means = [x[piece == k].mean(axis=0) for k in range(12)]
    np.testing.assert_allclose(randomisation._mean(x, piece), means)
    order = rng.permutation(12)
    np.testing.assert_allclose(randomisation._mean(x[:12], order), x[np.argsort(order)])


def features_of(x):
    evidence = Evidence(score=np.zeros(len(x)), member=np.arange(len(x)) % 2, covariates=x)
    return randomisation.features(covariates.table_of(evidence, covariates.Numbers()), covariates.Numbers())


@pytest.mark.parametrize(("n", "products"), [(299, 0), (300, 6)])
def test_products_of_columns_have_fifty_records_each(n, products):
    """Four columns have scores, squares and, with 300 records, six products."""
    assert features_of(np.random.default_rng(10).normal(size=(n, 4))).shape == (n, 8 + products)


def test_features_without_any_variation_are_refused():
    table = covariates.Table(np.ones((40, 2)), None, (0, 1), ("a", "b"), ())
    with pytest.raises(InputError, match=r"evidence\.covariates: expected a column that varies"):
        randomisation.features(table, covariates.Numbers())


def test_runs_are_permuted_each_by_itself():
    rng = np.random.default_rng(7)
    x = np.tile(rng.normal(size=(300, 3)), (2, 1))
    run = np.repeat([1, 2], 300)
    coins = rng.random(600) < np.where(run == 1, 0.2, 0.8)  # the share differs between runs, and nothing else
    coded = np.c_[x, run]
    evidence = Evidence(score=coded[:, 0], member=coins, covariates=coded, run=run, design="one-run")
    options = {"confidence": 0.95, "rng": np.random.default_rng(0)}
    assert randomisation.alone(evidence, covariates.Numbers(), **options).p_value > 0.001
    alone = evidence.replace(run=None)  # the control
    assert randomisation.alone(alone, covariates.Numbers(), **options).p_value < 0.001


def test_texts_and_declared_categories_are_tested_too():
    rng = np.random.default_rng(8)
    year = rng.integers(2000, 2024, 400)
    member = year + rng.normal(0, 6, 400) < 2012
    text = [f"report of {y} number {rng.integers(9)}" for y in year]
    evidence = Evidence(score=np.zeros(400), member=member, text=text)
    options = {"confidence": 0.95, "rng": np.random.default_rng(0)}
    assert randomisation.alone(evidence, covariates.Text(), **options).p_value < 0.001
    fair_text = evidence.replace(member=rng.random(400) < 0.5)
    assert randomisation.alone(fair_text, covariates.Text(), **options).p_value > 0.001
    coded = Evidence(score=np.zeros(400), member=rng.normal(size=24)[year - 2000] > 0, covariates=year)
    assert randomisation.alone(coded, covariates.Categories((0,)), **options).p_value < 0.001


def test_too_few_records_are_refused():
    with pytest.raises(InputError, match="at least 10 members"):
        measured(np.arange(12.0)[:, None], np.arange(12) < 6)


@pytest.mark.parametrize("separates", [np.arange(400.0), np.arange(400) % 2.0])
def test_a_covariate_that_is_membership_is_found(separates):
    """The coarse one has two kinds of rows, which never part: still no household."""
    member = separates > separates.mean()
    assert measured(separates[:, None], member).p_value < 0.001
