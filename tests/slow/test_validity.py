"""Whether the intervals keep their word, by simulation.

Each claim is a sequential test of a miss rate against twice that rate; controls are intervals of half the width, and
known wrong methods. ``--replicates 4000 -s`` prints the rates of experiments/validity/statistics.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.metrics import bootstrap, classical
from miaudit.metrics.classical import Estimate, Sample
from validity.claims import Claims, half_as_wide, outside, outside_half
from validity.sequential import SequentialTest
from worlds import coverage
from worlds.clusters import Clusters
from worlds.scores import WORLDS, gaussian

pytestmark = [pytest.mark.slow, pytest.mark.validity]

CONTINUOUS = [name for name, world in WORLDS.items() if world.continuous and name not in ("null", "perfect")]
SHOWN = ("null", *CONTINUOUS, "rounded")
SIZES = ((2000, (0.01, 0.1)), (20_000, (0.001,)))
IN_THE_LIMIT = 0.065  # claimed where only large samples miss in 5%: of units, and of the bootstrap
Misses = dict[str, bool]


def both(name: str, found: Estimate, truth: float) -> Misses:
    """Whether an interval, and that of half its width, misses."""
    return {
        name: outside(found.low, truth, found.high),
        f"half the {name}": outside_half(found.low, truth, found.high),
    }


@pytest.mark.parametrize(("n", "alphas"), SIZES)
@pytest.mark.parametrize("name", SHOWN)
def test_the_interval_of_a_tpr_covers(claim: Claims, name: str, n: int, alphas: tuple[float, ...]) -> None:
    def replicate(rng: np.random.Generator) -> Misses:
        found = coverage.tpr(name, n, alphas, False, 1, rng)
        misses = {f"TPR at {alpha:g}": not row[0] for alpha, row in zip(alphas, found, strict=True)}
        return misses | {f"lower limit at {alpha:g}": row[1] for alpha, row in zip(alphas, found, strict=True)}

    covering = {f"TPR at {alpha:g}": 0.05 for alpha in alphas}
    claim(replicate, holds={**covering, **{f"lower limit at {alpha:g}": 0.025 for alpha in alphas}})
    with half_as_wide(classical, "tpr_limits"):
        claim(replicate, fails=covering)


@pytest.mark.parametrize(("n", "alpha"), [(2000, 0.01), (20_000, 0.001)])
def test_an_exact_binomial_at_the_estimated_threshold_does_not(claim: Claims, n: int, alpha: float) -> None:
    """The control of the mixture: the threshold is taken as known."""

    def replicate(rng: np.random.Generator) -> Misses:
        return {"naive": not coverage.tpr("gaussian", n, (alpha,), True, 1, rng)[0, 0]}

    claim(replicate, fails={"naive": 0.05})


@pytest.mark.parametrize(("n1", "n0"), [(200, 2000), (2000, 400)])
@pytest.mark.parametrize("name", ["null", "gaussian", "t3", "unequal_variance"])
def test_unequal_classes_do_not_matter(claim: Claims, name: str, n1: int, n0: int) -> None:
    def replicate(rng: np.random.Generator) -> Misses:
        covered = coverage.tpr_unequal(name, n1, n0, (0.02, 0.1), 1, rng)
        return {"TPR at 0.02": not covered[0], "TPR at 0.1": not covered[1]}

    claim(replicate, holds={"TPR at 0.02": 0.05, "TPR at 0.1": 0.05})
    with half_as_wide(classical, "tpr_limits"):
        claim(replicate, fails={"TPR at 0.02": 0.05, "TPR at 0.1": 0.05})


def test_the_step_value_is_not_covered_under_heavy_ties(claim: Claims) -> None:
    """A known failure: the interval is of the interpolated TPR, and the step value is another number there."""
    world = WORLDS["rounded"]
    assert world.step_tpr(0.01) < world.tpr(0.01)
    step = lambda rng: {"step value": not coverage.step_tpr("rounded", 2000, 0.01, 1, rng)[0]}  # noqa: E731
    claim(step, fails={"step value": 0.05})


@pytest.mark.parametrize(("d", "auc"), [(1.0, 0.76), (3.0, 0.983), (4.52, 0.9993)])
def test_the_interval_of_the_auc_covers(claim: Claims, d: float, auc: float) -> None:
    assert gaussian(d).auc == pytest.approx(auc, abs=6e-4)
    claim(lambda rng: {"AUC": not coverage.auc(d, 100, False, 1, rng)[0]}, holds={"AUC": 0.05})
    if auc > 0.9:  # normal limits without the logit scale
        level = SequentialTest(0.05, 0.08)  # they miss in 10% at an AUC of .983
        claim(lambda rng: {"plain": not coverage.auc(d, 100, True, 1, rng)[0]}, fails={"plain": level})
    with half_as_wide(classical, "auc_limits"):
        claim(lambda rng: {"half the AUC": not coverage.auc(d, 100, False, 1, rng)[0]}, fails={"half the AUC": 0.05})


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("d", [0.0, 1.0, 5.0])
def test_the_lower_limit_of_the_advantage_holds_for_the_best_threshold(claim: Claims, d: float, n: int) -> None:
    def replicate(rng: np.random.Generator) -> Misses:
        covered, above, below = coverage.advantage(d, n, 1, rng)
        return {"low > truth": above, "high < truth": below, "missed": not covered}

    claim(replicate, holds={"low > truth": 0.025, "high < truth": 0.025})
    with half_as_wide(classical, "advantage_limits"):
        claim(replicate, fails={"missed": 0.05})


@pytest.mark.parametrize(("name", "n1", "n0"), [("gaussian", 30, 300), ("unequal_variance", 400, 20), ("t3", 500, 500)])
def test_the_interval_of_the_average_effect_covers(claim: Claims, name: str, n1: int, n0: int) -> None:
    world = WORLDS[name]

    def replicate(rng: np.random.Generator) -> Misses:
        score, member = world.draw(n1, n0, rng)
        return both("effect", Sample.of(Evidence(score=score, member=member)).difference(0.95), world.difference)

    claim(replicate, holds={"effect": 0.05}, fails={"half the effect": 0.05})


CLUSTERS = [  # world, FPR, and whether the interval of a TPR is so wide that half of it covers, too
    (Clusters(400, 5, 0.5, 1.0, varying=True), 0.01, True),
    (Clusters(400, 5, 1.0, 1.0), 0.01, False),
    (Clusters(400, 5, 0.95, 0.0, varying=True), 0.02, False),
    (Clusters(200, 10, 0.5, 1.0, varying=True), 0.1, False),
    (Clusters(200, 10, 0.9, 0.0, varying=True), 0.1, False),
    (Clusters(2000, 3, 0.7, 2.0, varying=True), 0.01, False),
    (Clusters(400, 5, 0.0, 1.0, varying=True), 0.01, True),
]


@pytest.mark.parametrize(("world", "alpha", "wide"), CLUSTERS)
def test_intervals_of_units_cover(claim: Claims, world: Clusters, alpha: float, wide: bool) -> None:
    advantage = gaussian(world.d).advantage

    def replicate(rng: np.random.Generator) -> Misses:
        score, member, unit = world.draw(rng)
        sample = Sample.of(Evidence(score=score, member=member, unit=unit))
        misses = both("TPR", sample.tpr_at_fpr(alpha, 0.95), world.tpr(alpha))
        misses |= both("AUC", sample.auc(0.95), world.auc) | both("effect", sample.difference(0.95), world.d)
        return misses | {"advantage": sample.advantage(0.95).low > advantage}

    holds = {"TPR": 0.05, "AUC": IN_THE_LIMIT, "effect": IN_THE_LIMIT, "advantage": 0.025}
    rigged = ("AUC", "effect") if wide else ("TPR", "AUC", "effect")
    claim(replicate, holds=holds, fails={f"half the {name}": holds[name] for name in rigged})
    if world.correlation >= 0.9:  # records are not independent
        claim(lambda rng: without_units(world, alpha, rng), fails={"TPR": 0.05, "AUC": 0.05})


def without_units(world: Clusters, alpha: float, rng: np.random.Generator) -> Misses:
    score, member, _ = world.draw(rng)
    sample = Sample.of(Evidence(score=score, member=member))
    return both("TPR", sample.tpr_at_fpr(alpha, 0.95), world.tpr(alpha)) | both("AUC", sample.auc(0.95), world.auc)


@pytest.mark.parametrize("d", [0.0, 1.0])
def test_bootstrap_intervals_cover(claim: Claims, d: float) -> None:
    world, n = gaussian(d), 1000

    def replicate(rng: np.random.Generator) -> Misses:
        score, member = world.draw(n, n, rng)
        sample = Sample.of(Evidence(score=score, member=member))
        drawn = bootstrap.replicates(sample, (0.1,), 300, rng=rng)
        found = bootstrap.estimates(sample, drawn, (0.1,), 0.95)
        misses = both("TPR", found["tpr_at_fpr_0.1"], world.tpr(0.1)) | both("AUC", found["auc"], world.auc)
        misses |= both("effect", found["ate"], world.difference)
        return misses | {"advantage": found["advantage"].low > world.advantage}

    names = ("TPR", "AUC", "effect")
    claim(
        replicate,
        holds={**dict.fromkeys(names, IN_THE_LIMIT), "advantage": 0.025},
        fails={f"half the {name}": IN_THE_LIMIT for name in names},
    )


@pytest.mark.parametrize("metric", ["tpr_at_fpr_0.01", "auc", "advantage"])
def test_a_truth_at_the_threshold_is_seldom_flagged(claim: Claims, metric: str) -> None:
    world = gaussian(1.0)
    truth = {"tpr_at_fpr_0.01": world.tpr(0.01), "auc": world.auc, "advantage": world.advantage}[metric]

    def replicate(rng: np.random.Generator, threshold: float = truth) -> Misses:
        flagged, clear = coverage.flagged_at_truth(1.0, metric, threshold, 1000, 1, rng)
        return {"flagged": flagged, "clear": clear}

    claim(replicate, holds={"flagged": 0.025, "clear": 0.025})
    claim(lambda rng: replicate(rng, 0.7 * truth), fails={"flagged": 0.025})  # it does flag


@pytest.mark.parametrize(("headline", "level"), [("bonferroni", 0.05), ("split", 0.1)])
def test_looking_at_many_useless_scores_is_paid_for(claim: Claims, headline: str, level: float) -> None:
    """Nominal: 5% for flags of 90% intervals, and with a split 5% of the headline and 5% of all other scores together.

    The claim of 5% for a split was rejected after 67 of 791 audits.
    """

    def replicate(rng: np.random.Generator, headline: str) -> Misses:
        return {headline: coverage.useless_scores(headline, 10, 300, 1, rng)[0]}

    claim(lambda rng: replicate(rng, headline), holds={headline: level})
    claim(lambda rng: replicate(rng, "exploratory"), fails={"exploratory": 0.05})


def test_intervals_of_groups_hold_together(claim: Claims) -> None:
    def replicate(rng: np.random.Generator) -> Misses:
        together, alone = coverage.all_groups(8, 1600, 1, rng)
        return {"together": not together, "uncorrected": not alone}

    claim(replicate, holds={"together": 0.05}, fails={"uncorrected": 0.05})
