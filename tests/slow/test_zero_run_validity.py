"""Whether zero-run bounds keep their word, by simulation; ``python tests/slow/zero_run_table.py`` prints the tables.

Every correction and every selection that is not exploratory, with oracle propensities, under mild, strong and unequal
shifts, in audits of 300 records. Learned propensities: audits of 2,000 records (Poisson-binomial) or 10,000 (thinning).
Each claim is a sequential test of a miss rate of 5%.
"""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.dp import zero_run
from validity.claims import Claims
from worlds.small_mechanisms import Mechanism, excess
from worlds.zero_run import CORRECTIONS, audits, learned

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
LEARNED = [  # covariates, rows for each, way, audits in zero_run_table.py
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


def exceeds(
    world: str, shift: str, correction: str, selection: str, rng: np.random.Generator, level: float = LEVEL
) -> dict[str, bool]:
    """Whether the bound of one audit exceeds the truth."""
    return {"bound > truth": audits(world, shift, correction, selection, count=1, level=level, seed=rng).above > 0}  # type: ignore[arg-type]


def uncorrected(claim: Claims, correction: str) -> None:
    """The control: the same parameter without a correction."""
    parameter = CORRECTIONS[correction][0]
    case = {"mu": ("silent", "strong", "none", "fixed"), "epsilon": ("weighed", "strong", "none, epsilon", "fixed")}
    claim(lambda rng: {"uncorrected": exceeds(*case[parameter], rng)["bound > truth"]}, fails={"uncorrected": LEVEL})


@pytest.mark.validity
@pytest.mark.parametrize(("world", "shift", "correction", "selection"), ORACLE + OTHER)
def test_bounds_lie_above_the_truth_as_seldom_as_they_say(
    claim: Claims, world: str, shift: str, correction: str, selection: str
) -> None:
    claim(lambda rng: exceeds(world, shift, correction, selection, rng), holds={"bound > truth": LEVEL})
    uncorrected(claim, correction)


@pytest.mark.validity
@pytest.mark.parametrize(("world", "shift", "correction", "selection"), UNCORRECTED)
def test_without_a_correction_they_do_not(
    claim: Claims, world: str, shift: str, correction: str, selection: str
) -> None:
    claim(lambda rng: exceeds(world, shift, correction, selection, rng), fails={"bound > truth": LEVEL})


@pytest.mark.validity
def test_a_sweep_that_is_not_paid_for_breaks_the_level(claim: Claims) -> None:
    case = ("told", "strong", "thinning, epsilon", "exploratory")
    claim(lambda rng: exceeds(*case, rng), fails={"bound > truth": LEVEL})


def learns(d: int, rows: int, way: str, rng: np.random.Generator) -> dict[str, bool]:
    return {"bound > 0": learned(d, rows, way, count=1, level=LEVEL, seed=rng).above > 0}  # type: ignore[arg-type]


@pytest.mark.validity
@pytest.mark.parametrize(("d", "rows", "way"), [case[:3] for case in LEARNED])
def test_learned_propensities_with_their_defaults(claim: Claims, d: int, rows: int, way: str) -> None:
    claim(lambda rng: learns(d, rows, way, rng), holds={"bound > 0": LEVEL})
    claim(lambda rng: {"plug-in": learns(50, 10, "plug-in", rng)["bound > 0"]}, fails={"plug-in": LEVEL})


@pytest.mark.validity
@pytest.mark.parametrize(("d", "rows", "way"), [case[:3] for case in LEARNED_CONTROLS])
def test_learned_propensities_taken_at_their_word(claim: Claims, d: int, rows: int, way: str) -> None:
    """Plug-in estimates, and any way at all with ten rows per covariate, which the audit therefore refuses."""
    enough = rows >= zero_run.LEAST_ROWS_PER_COVARIATE
    claim(lambda rng: learns(d, rows, way, rng), fails={"bound > 0": LEVEL if enough else 0.15})


@pytest.mark.parametrize("known", [True, False])
def test_theorem_z_on_four_thousand_mechanisms(known: bool) -> None:
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
