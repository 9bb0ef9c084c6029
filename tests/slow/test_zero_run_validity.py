"""Whether zero-run bounds keep their word, by simulation; ``python tests/slow/zero_run_table.py`` prints the tables.

Every correction and every selection that is not exploratory, with oracle propensities, under mild, strong and unequal
shifts: 2,000 audits each of 300 records. The allowance is three standard errors of the nominal level, and seeds are
fixed. Learned propensities: 30 to 300 audits of 2,000 records (Poisson-binomial) or 10,000 (thinning), as stated in the
lists below.
"""

from __future__ import annotations

import pytest

from miaudit.dp import zero_run
from worlds.small_mechanisms import Mechanism, excess
from worlds.zero_run import CORRECTIONS, Rate, audits, learned

pytestmark = pytest.mark.slow

LEVEL = 0.05
# A silent algorithm is the hardest world for mu, a told or weighed label the hardest for epsilon.
WORLDS = {"mu": ("silent",), "epsilon": ("told", "weighed")}
ORACLE = [
    (world, shift, correction, selection)
    for correction, (parameter, _) in CORRECTIONS.items()
    for world in WORLDS[parameter]
    for shift, selection in [
        ("strong", "fixed"),
        ("strong", "pilot"),
        ("strong", "bonferroni"),
        ("mild", "fixed"),
        ("unequal", "fixed"),
    ]
    # Poisson-binomials of |lambda| are far below their level; one selection shows it
    if ("|" not in correction or (shift, selection) == ("mild", "fixed"))
    and (world != "weighed" or (shift, selection) in [("strong", "fixed"), ("strong", "pilot")])
]
OTHER = [
    ("rarely", "strong", "thinning", "pilot"),
    ("rarely", "strong", "thinning", "fixed"),
    ("rarely", "mild", "conditional", "fixed"),
    ("gaussian", "strong", "thinning", "pilot"),
    ("gaussian", "unequal", "thinning", "bonferroni"),
    ("told", "strong", "thinning", "fixed"),
]
UNCORRECTED = [
    ("silent", "mild", "none", "fixed"),
    ("silent", "strong", "none", "pilot"),
    ("silent", "unequal", "none", "bonferroni"),
    ("weighed", "strong", "none, epsilon", "fixed"),
]
LEARNED = [  # covariates, rows for each, way, audits
    (5, 400, "both", 150),
    (50, 40, "both", 60),
    (5, 400, "two", 200),
    (5, 400, "Scheffe", 200),
    (50, 200, "two", 40),
    (50, 40, "two", 40),
]
LEARNED_CONTROLS = [
    (5, 400, "plug-in", 300),
    (50, 40, "plug-in", 100),
    (50, 10, "plug-in", 100),
    (50, 10, "both", 30),
    (5, 400, "plain", 100),
]


def oracle(world: str, shift: str, correction: str, selection: str) -> Rate:
    return audits(world, shift, correction, selection, count=2000, level=LEVEL, seed=11)


@pytest.mark.parametrize(("world", "shift", "correction", "selection"), ORACLE + OTHER)
def test_bounds_lie_above_the_truth_as_seldom_as_they_say(
    world: str, shift: str, correction: str, selection: str
) -> None:
    found = oracle(world, shift, correction, selection)
    print(f"\n{world} {shift} {correction} {selection}: {found.above:.4f} mean {found.mean:.3f} of {found.truth:.3f}")
    assert found.above <= found.allowed(LEVEL)


@pytest.mark.parametrize(("world", "shift", "correction", "selection"), UNCORRECTED)
def test_without_a_correction_they_do_not(world: str, shift: str, correction: str, selection: str) -> None:
    found = audits(world, shift, correction, selection, count=300, level=LEVEL, seed=12)
    print(f"\n{world} {shift} {correction} {selection}: {found.above:.4f} mean {found.mean:.3f} of {found.truth:.3f}")
    assert found.above > 0.3


def test_a_sweep_that_is_not_paid_for_breaks_the_level() -> None:
    found = audits("told", "strong", "thinning, epsilon", "exploratory", count=1000, level=LEVEL, seed=13)
    assert found.above > 2 * LEVEL


@pytest.mark.parametrize(("d", "rows", "way", "count"), LEARNED)
def test_learned_propensities_with_their_defaults(d: int, rows: int, way: str, count: int) -> None:
    found = learned(d, rows, way, count=count, level=LEVEL, seed=14)
    print(f"\n{d} covariates, {rows} rows each, {way}: {found.above:.3f} of {count}")
    assert found.above <= found.allowed(LEVEL)


@pytest.mark.parametrize(("d", "rows", "way", "count"), LEARNED_CONTROLS)
def test_learned_propensities_taken_at_their_word(d: int, rows: int, way: str, count: int) -> None:
    """Plug-in estimates, and any way at all with ten rows per covariate, which the audit therefore refuses."""
    found = learned(d, rows, way, count=count, level=LEVEL, seed=15)
    print(f"\n{d} covariates, {rows} rows each, {way}: {found.above:.3f} of {count}")
    assert found.above > LEVEL + 0.02
    assert rows >= zero_run.LEAST_ROWS_PER_COVARIATE or found.above > 0.3


@pytest.mark.parametrize("known", [True, False])
def test_theorem_z_on_four_thousand_mechanisms(known: bool) -> None:
    import numpy as np

    worst = -np.inf
    for seed in range(2000):
        source = np.random.default_rng((99, seed, known))
        mechanism = Mechanism.draw(source, known=known)
        worst = max(worst, excess(mechanism, int(source.integers(1, mechanism.m + 1))))
    assert worst <= 1e-12


NOISY_SUM = {  # rho: thinning with known pi, with half-width 0.2, conditional aware, uncorrected (statistics.md 7, B11)
    1.0: (0.36, 0.29, 0.36, 0.36),
    0.75: (0.35, 0.28, 0.22, 0.54),
    0.5: (0.33, 0.27, 0.14, 0.72),
    0.25: (0.31, 0.26, 0.10, 0.94),
}


def test_the_noisy_sum_of_the_paper_at_every_shift() -> None:
    """Truth 0.66, six data sets, p = 0.025, r = 500; the uncorrected bound passes the truth from rho = 0.5 on."""
    import numpy as np

    from worlds.noisy_sum import NoisySum

    sums = [NoisySum.draw(seed) for seed in range(20, 26)]
    for rho, (known, wide, aware, raw) in NOISY_SUM.items():

        def mean(shift: float = rho, **options: object) -> float:
            found = []
            for k, world in enumerate(sums):
                ev, oracle = world.evidence(shift)
                rng = np.random.default_rng(k)
                bound = zero_run.mu_lower_bound(ev, oracle, guesses=500, confidence=0.975, rng=rng, **options)
                found.append(bound.value)
            return float(np.mean(found))

        assert known <= mean(centre="covariates") < 0.66
        assert wide <= mean(centre="covariates", correction=zero_run.Thinning(half_width=0.2)) < 0.66
        assert abs(mean(correction=zero_run.Conditional(aware=True)) - aware) < 0.07
        assert abs(mean(correction=zero_run.Composition(closeness=0.0)) - raw) < 0.08
